"""Gradient rule of DequantizeLinear; what rounds to integers is declared in `without_gradient`."""

from __future__ import annotations

from netgrad.onnx.broadcast import unbroadcast
from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule


@rule("DequantizeLinear", attributes=("axis", "output_dtype"), not_differentiable=(0, 2))
def dequantize_linear(op: RuleContext, dy: Value) -> list[Value | None]:
    """Y = (X - z) s with a scale s for all of X or one per index of an axis; ds = sum of dY (X - z).

    X - z is what the operator itself makes with a scale of 1.

    Source: https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html.
    """
    scale = op.required(1)
    unit = op.builder.full_like(scale, 1.0)
    steps = op.emit("DequantizeLinear", op.required(0), unit, op.optional(2), axis=op.attribute("axis"))
    products = dy * op.builder.cast(steps, op.floating(dy))
    spread = scale
    if op.rank(scale) == 1:
        shape = [1] * op.rank(op.output)
        shape[op.attribute("axis")] = -1
        spread = op.builder.reshape(scale, shape)  # a vector of one scale broadcasts, too
    total = unbroadcast(op.builder, products, spread)
    return [None, op.builder.reshape_like(total, scale), *[None] * (len(op.inputs) - 2)]
