"""Rules that look for what an operator passed on, behind an operator whose result is no float16 number.

ONNX Runtime leaves out roundings between float16 operators: what the operator reads need not be rounded, what
it gives out as an output of the model is.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import parser

from netgrad.transforms.grad import differentiate
from tests.onnx.rules.table import Arrays, on_onnxruntime

OPERATORS = {
    "Clip": "y = Clip(p, low, high)",
    "Clip at one end": "y = Clip(p, , high)",
    "Max": "y = Max(p, q, z)",
    "Min": "y = Min(p, q)",
    "ReduceMax": "y = ReduceMax<keepdims = 0>(p, one)",
    "ReduceMin": "y = ReduceMin(p)",
    "GlobalMaxPool": "y = GlobalMaxPool(p)",
    "MaxPool": "y = MaxPool<kernel_shape = [2], strides = [2]>(p)",
    "TopK": "y, i = TopK<axis = 1>(p, one)",
    "ScatterElements": 'y = ScatterElements<axis = 2, reduction = "max">(p, places, q)',
    "MaxRoiPool": "r = Unsqueeze(p, three) y = MaxRoiPool<pooled_shape = [2, 1]>(r, regions)",
}


def _run(text: str, dtype: str) -> dict[str, np.ndarray]:
    """The gradients of the sum of y times a wave."""
    kind = "float16" if dtype == "float16" else "float"
    model = parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 18]> g ({kind}[2, 3, 4] a, {kind}[2, 3, 4] b) => ({kind}[] y)'
        f"{{ p = Mul(a, b) q = Sub(p, a) z = Neg(a) {text} }}"
    )
    rng = np.random.default_rng(5)
    places = np.tile(np.arange(4), (2, 3, 1))
    numbers: Arrays = {
        "low": np.array(-0.4, dtype),
        "high": np.array(0.6, dtype),
        "one": np.array([1]),
        "three": np.array([3]),
        "places": places,
        "regions": np.array([[0, 0, 0, 0, 3], [1, 0, 0, 0, 3]], dtype),
    }
    used = [name for name in numbers if name in text]
    model.graph.initializer.extend(onnx.numpy_helper.from_array(numbers[name], name) for name in used)
    gradient = differentiate(model, wrt=["a", "b"], of=["y"], cotangent="input")
    proto = ir.to_proto(gradient.model)
    onnx.checker.check_model(proto, full_check=True)
    forward, backward = on_onnxruntime(model), on_onnxruntime(proto)
    assert forward is not None
    assert backward is not None
    point = {name: rng.normal(size=(2, 3, 4)).astype(np.float16).astype(dtype) for name in "ab"}
    y = forward(point)["y"]
    wave = np.cos(np.arange(y.size) * 1.3).reshape(y.shape).astype(np.float16).astype(dtype)
    results = backward({**point, gradient.seeds["y"]: wave})
    return {name: results[output] for name, output in gradient.outputs.items()}


@pytest.mark.parametrize("operator", OPERATORS)
def test_float16_finds_what_was_passed_on(operator: str) -> None:
    want, got = _run(OPERATORS[operator], "float32"), _run(OPERATORS[operator], "float16")
    for name, expected in want.items():
        assert np.abs(expected).max() > 0
        error = np.abs(got[name].astype(np.float64) - expected).max() / np.abs(expected).max()
        assert error < 4e-3, f"{name}: {error:.1e}"
