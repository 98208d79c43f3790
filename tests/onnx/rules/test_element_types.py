"""Gradients in float16, and through conversions between element types."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import parser

from netgrad.transforms.grad import grad
from tests.onnx.rules.cases import activation, elementwise, selection
from tests.onnx.rules.table import (
    Case,
    build,
    feeds,
    gradient_model,
    on_onnxruntime,
    random_cotangents,
    targets,
)


def _once_per_operator() -> list[Case]:
    rows: dict[str, Case] = {}
    for row in [*elementwise.CASES, *activation.CASES, *selection.CASES]:
        if row.expected is None and all(a is None or a.size for a in row.arrays()):
            rows.setdefault(row.type, row)
    # Swish has no kernel, Celu exists in float32 only, Cast is tried below, and the remainder jumps
    return [row for name, row in rows.items() if name not in ("Swish", "Celu", "Cast", "CastLike", "Mod")]


def _gradients(case: Case, dtype: str) -> list[np.ndarray]:
    point = feeds(case, dtype)
    forward = on_onnxruntime(build(case, dtype=dtype))
    assert forward is not None, f"{case.type} has a {dtype} kernel"
    outputs = forward(point)
    of = targets(case, outputs)
    cotangents = random_cotangents(case, outputs, of)
    names = [f"x{k}" for k in case.wrt_positions]
    gradient = gradient_model(build(case, dtype=dtype), names, of)
    proto = ir.to_proto(gradient.model)
    onnx.checker.check_model(proto, full_check=True)
    run = on_onnxruntime(proto)
    assert run is not None, f"the gradient of {case.type} has {dtype} kernels"
    given = {**point, **{gradient.seeds[name]: c.astype(dtype) for name, c in cotangents.items()}}
    results = run({value.name: given[value.name] for value in proto.graph.input})
    return [results[gradient.outputs[name]] for name in names]


@pytest.mark.parametrize("case", _once_per_operator(), ids=lambda row: row.type)
def test_float16_gives_the_gradient_of_float32_rounded(case: Case) -> None:
    for half, single in zip(_gradients(case, "float16"), _gradients(case, "float32"), strict=True):
        assert half.dtype == np.float16
        np.testing.assert_allclose(half.astype(np.float32), single, rtol=2e-2, atol=2e-2)


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


@pytest.mark.parametrize(
    "body",
    [
        "y = Sqrt(x)",
        "y = Pow(x, x)",
        "n = Exp(x) y = Reciprocal(n)",
        "y = LeakyRelu(x)",
        "y = Selu(x)",
        "y = HardSwish(x)",
        "y = Gelu(x)",
        "y = Clip(x, x)",
        "c = Greater(x, x) l = Log(x) y = Where(c, l, x)",
    ],
)
def test_the_gradient_of_a_bfloat16_model_is_a_valid_model(body: str) -> None:
    """ONNX Runtime has no bfloat16 kernels on the CPU, so this is what can be seen here."""
    head = '<ir_version: 10, opset_import: ["": 22]> g (bfloat16[N, 3] x) => (bfloat16[N, 3] y)'
    proto = ir.to_proto(grad(parser.parse_model(f"{head} {{ {body} }}"), wrt=["x"], of="y"))
    onnx.checker.check_model(proto, full_check=True)
    assert proto.graph.output[1].type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16
