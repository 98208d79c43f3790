"""Dropout in training: the gradient uses the mask of the very run that made the output."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import parser

from netgrad.transforms.grad import grad
from tests.onnx.rules.table import on_onnxruntime

X = np.arange(1.0, 401.0, dtype=np.float32).reshape(20, 20)


def _run(body: str, wrt: str = "x", **feeds: np.ndarray) -> dict[str, np.ndarray]:
    text = (
        '<ir_version: 10, opset_import: ["": 18]> '
        "g (float[N, 20] x, bool on, float rate) => (float[N, 20] y) "
        f"<float quarter = {{0.25}}, bool yes = {{1}}> {{ {body} }}"
    )
    model = onnx.shape_inference.infer_shapes(parser.parse_model(text))
    proto = ir.to_proto(grad(model, wrt=[wrt], of="y"))
    onnx.checker.check_model(proto, full_check=True)
    run = on_onnxruntime(proto)
    assert run is not None
    given = {"x": X, "on": np.array(True), "rate": np.array(0.75, np.float32), **feeds}
    return run({value.name: given[value.name] for value in proto.graph.input})


@pytest.mark.parametrize(
    ("body", "scale"),
    [
        ("y = Dropout(x, quarter, yes)", 4 / 3),
        ("y, mask = Dropout(x, quarter, yes)", 4 / 3),
        ("y = Dropout <seed = 7> (x, quarter, yes)", 4 / 3),
        ("y = Dropout(x, , yes)", 2.0),
        ("y = Dropout(x, rate, yes)", 4.0),
        ("y = Dropout(x, rate, on)", 4.0),
        ("y = Dropout(x, quarter, on)", 4 / 3),
    ],
)
def test_forward_and_backward_drop_the_same_elements(body: str, scale: float) -> None:
    result = _run(body)
    kept = result["y"] != 0
    assert 0.05 < kept.mean() < 0.95, "some elements are dropped, some are not"
    np.testing.assert_allclose(result["x_grad"], np.where(kept, scale, 0.0), rtol=1e-6)
    np.testing.assert_allclose(result["y"], np.where(kept, X * scale, 0.0), rtol=1e-6)


def test_two_layers_have_two_masks() -> None:
    result = _run("h = Dropout(x, rate, yes) z = Dropout(x, rate, yes) y = Add(h, z)")
    np.testing.assert_allclose(result["x_grad"], result["y"] / X, rtol=1e-6)
    assert set(np.round(np.unique(result["x_grad"]))) == {0.0, 4.0, 8.0}


@pytest.mark.parametrize("body", ["y = Dropout(x, rate, on)", "y = Dropout(x, quarter, on)"])
def test_training_mode_off_at_run_time(body: str) -> None:
    result = _run(body, on=np.array(False))
    np.testing.assert_array_equal(result["y"], X)
    np.testing.assert_array_equal(result["x_grad"], np.ones_like(X))


def test_inference_adds_no_mask() -> None:
    head = '<ir_version: 10, opset_import: ["": 18]> g (float[3] x) => (float[3] y)'
    model = grad(parser.parse_model(head + "{ h = Dropout(x) y = Mul(h, h) }"), wrt=["x"], of="y")
    assert [len(node.outputs) for node in model.graph if node.op_type == "Dropout"] == [1]
