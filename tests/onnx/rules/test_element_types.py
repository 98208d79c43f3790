"""Gradients through conversions between element types."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import parser

from netgrad.transforms.grad import grad
from tests.onnx.rules.table import on_onnxruntime


def _run(body: str, outputs: str = "float[3] y") -> np.ndarray:
    head = (
        f'<ir_version: 10, opset_import: ["": 19]> g (float[3] x) => ({outputs}) <float16 half = {{15360}}>'
    )
    model = grad(parser.parse_model(f"{head} {{ {body} }}"), wrt=["x"], of="y")
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    run = on_onnxruntime(proto)
    assert run is not None
    return run({"x": np.array([1.5, -2.25, 3.0], np.float32)})["x_grad"]


@pytest.mark.parametrize(
    "body",
    [
        "d = Cast <to = 11> (x) s = Mul(d, d) y = Cast <to = 1> (s)",
        "h = Cast <to = 10> (x) s = Mul(h, h) y = Cast <to = 1> (s)",
        "h = Cast <to = 16> (x) d = Cast <to = 1> (h) y = Mul(d, d)",
        "h = CastLike(x, half) s = Mul(h, h) y = CastLike(s, x)",
        "h = CastLike <saturate = 0> (x, half) s = Mul(h, h) y = Cast <to = 1> (s)",
    ],
)
def test_a_gradient_crosses_floating_point_types(body: str) -> None:
    got = _run(body)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, np.array([3.0, -4.5, 6.0], np.float32))


@pytest.mark.parametrize(
    "body",
    [
        "i = Cast <to = 7> (x) f = Cast <to = 1> (i) s = Mul(f, x) y = Add(s, x)",
        "b = Cast <to = 9> (x) f = CastLike(b, x) s = Mul(f, x) y = Add(s, x)",
    ],
)
def test_nothing_flows_through_integers(body: str) -> None:
    truncated = np.array([1.0, -2.0, 3.0] if "to = 7" in body else [1.0, 1.0, 1.0], np.float32)
    np.testing.assert_array_equal(_run(body), truncated + 1)


def test_an_output_in_another_type() -> None:
    got = _run("s = Mul(x, x) y = Cast <to = 11> (s)", outputs="double[3] y")
    np.testing.assert_array_equal(got, np.array([3.0, -4.5, 6.0], np.float32))
