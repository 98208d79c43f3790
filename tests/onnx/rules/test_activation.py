"""Gradients of activations in float64, to the last digits."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import parser

from netgrad.transforms.grad import grad
from tests.onnx.rules.table import on_onnxruntime


@pytest.mark.parametrize("op_type", ["HardSigmoid", "HardSwish"])
def test_slopes_are_the_float32_numbers_of_the_standard(op_type: str) -> None:
    """ONNX Runtime computes in float64 with them; gradients have to be those of what it computes."""
    model = parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 18]> g (double[5] x) => (double[5] y) {{ y = {op_type} (x) }}'
    )
    x = np.array([-4.0, -1.3, 0.2, 2.1, 4.0])
    run = on_onnxruntime(ir.to_proto(grad(model, wrt=["x"], of="y")))
    assert run is not None
    slope = float(np.float32(0.2 if op_type == "HardSigmoid" else 1 / 6))
    h, inside = np.clip(slope * x + 0.5, 0, 1), np.abs(slope * x) < 0.5
    value, derivative = (h, slope * inside) if op_type == "HardSigmoid" else (x * h, h + slope * x * inside)
    found = run({"x": x})
    np.testing.assert_allclose(found["y"], value, rtol=1e-14)
    np.testing.assert_allclose(found["x_grad"], derivative, rtol=1e-14)
