"""Fused convolutions."""

from __future__ import annotations

from netgrad.onnx.fused.activations import activated
from netgrad.onnx.fused.definition import Writer, fused

_CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


@fused("FusedConv", inputs="x w b z", attributes=f"activation activation_params {' '.join(_CONV)}")
def conv(w: Writer) -> None:
    """Y = activation(Conv(X, W, B) + Z)."""
    w.line(f"conv = Conv {w.attributes(*_CONV)} ({'x, w, b' if w.has(2) else 'x, w'})")
    total = w.op("Add", "conv", "z") if w.has(3) else "conv"
    activated(w, total, w.attribute("activation_params", []))


@fused("NhwcConv", inputs="x w b", attributes=" ".join(_CONV))
def nhwc_conv(w: Writer) -> None:
    """Conv with the channels last: X[n, h, w, c], W[m, h, w, c / group], Y[n, h, w, m]."""
    image = w.op("Transpose", "x", perm=[0, 3, 1, 2])
    kernel = w.op("Transpose", "w", perm=[0, 3, 1, 2])
    operands = f"{image}, {kernel}, b" if w.has(2) else f"{image}, {kernel}"
    w.line(f"conv = Conv {w.attributes(*_CONV)} ({operands})")
    w.op("Transpose", "conv", perm=[0, 2, 3, 1], to="y")
