"""Gradient rules of running sums and arithmetic sequences."""

from __future__ import annotations

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule


@rule("CumSum", attributes=("exclusive", "reverse"), not_differentiable=(1,))
def cum_sum(op: RuleContext, dy: Value) -> tuple[Value, None]:
    """Y_i = sum of X_j over j <= i (or <, >=, >); dX_j = sum of dY_i over the same pairs.

    That is the running sum in the other direction, exclusive or not like the forward one.
    """
    reverse = 0 if op.attribute("reverse") else 1
    exclusive = op.attribute("exclusive") or None
    return op.emit("CumSum", dy, op.required(1), exclusive=exclusive, reverse=reverse or None), None


@rule("Range")
def range_(op: RuleContext, dy: Value) -> tuple[Value, Value | None, Value]:
    """Y_i = start + i step for i = 0 .. n - 1; dstart = sum of dY_i, dstep = sum of i dY_i, dlimit = 0.

    Kink: n jumps where (limit - start) / step is a whole number; it counts as constant.
    """
    count = op.builder.op("Size", dy)
    zero, one = op.builder.constant(0), op.builder.constant(1)
    steps = op.builder.cast(op.emit("Range", zero, count, one), op.floating(dy))
    nothing = op.builder.zeros_like(op.required(1)) if op.wants(1) else None
    return _total(op, dy), nothing, _total(op, dy * steps)


def _total(op: RuleContext, x: Value) -> Value:
    """The sum of all elements, 0-d."""
    return op.emit("ReduceSum", x, keepdims=0)
