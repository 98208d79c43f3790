"""Straight-through gradients of quantised values against PyTorch's fake quantisation with learned scales."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import netgrad

torch = pytest.importorskip("torch", reason="parity with PyTorch needs torch (make parity)")

LIMITS = {"int8": (-128, 127), "uint8": (0, 255)}


@pytest.mark.parametrize(("dtype", "zero"), [("int8", 0), ("int8", 40), ("uint8", 0), ("uint8", 90)])
@pytest.mark.parametrize("per_channel", [False, True])
def test_values_and_gradients_agree(dtype: str, zero: int, per_channel: bool) -> None:
    scales = [0.03, 0.021, 0.05, 0.011] if per_channel else [0.037]
    shape = "[4]" if per_channel else ""
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18]> g (float[n, 4] x) => (float[n, 4] y) '
        f"<float{shape} s = {{{', '.join(map(str, scales))}}}, "
        f"{dtype}{shape} z = {{{', '.join([str(zero)] * len(scales))}}}> "
        "{ q = QuantizeLinear <axis = 1> (x, s, z) y = DequantizeLinear <axis = 1> (q, s, z) }"
    )
    rng = np.random.default_rng(0)
    x = (4 * rng.standard_normal((500, 4))).astype(np.float32)
    dy = rng.standard_normal((500, 4)).astype(np.float32)
    gradient = netgrad.grad(model, wrt=["x", "s"], cotangent="input", straight_through=True)
    result = netgrad.run(gradient, {"x": x, "y_grad": dy})

    theirs_x = torch.tensor(x, requires_grad=True)
    theirs_s = torch.tensor(scales, requires_grad=True)
    zeros = torch.full((len(scales),), float(zero))
    if per_channel:
        quantise = torch._fake_quantize_learnable_per_channel_affine
        y = quantise(theirs_x, theirs_s, zeros, 1, *LIMITS[dtype], 1.0)
    else:
        y = torch._fake_quantize_learnable_per_tensor_affine(theirs_x, theirs_s, zeros, *LIMITS[dtype], 1.0)
    y.backward(torch.tensor(dy))
    np.testing.assert_allclose(result["y"], y.detach().numpy(), rtol=1e-6)
    assert 0.01 < np.mean(result["x_grad"] == 0) < 0.9, "some saturate and some do not"
    np.testing.assert_allclose(result["x_grad"], theirs_x.grad.numpy(), rtol=1e-5, atol=1e-6)
    summed = np.abs(dy * np.clip(x, -1, 1) / min(scales)).sum()  # what float32 rounds is of this size
    np.testing.assert_allclose(
        np.reshape(result["s_grad"], -1), theirs_s.grad.numpy(), rtol=1e-5, atol=1e-7 * summed
    )
