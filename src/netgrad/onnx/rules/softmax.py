"""Gradient rules of Softmax and LogSoftmax."""

from __future__ import annotations

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule


@rule("Softmax", attributes=("axis",))
def softmax(op: RuleContext, dy: Value) -> Value:
    """Y = e^X / sum e^X along ``axis``; dX = Y (dY - sum Y dY).

    Four operators, none of which meets an exponent: stable for scores of any size.
    """
    y = op.output
    total = op.builder.reduce_sum(dy * y, [op.attribute("axis")], keepdims=True)
    return y * (dy - total)


@rule("LogSoftmax", attributes=("axis",))
def log_softmax(op: RuleContext, dy: Value) -> Value:
    """Y = X - ln sum e^X along ``axis``; dX = dY - e^Y sum dY. No exponent is above 0."""
    total = op.builder.reduce_sum(dy, [op.attribute("axis")], keepdims=True)
    return dy - op.emit("Exp", op.output) * total
