"""Gradient rules of LpPool and GlobalLpPool: Y = (sum |X|^p)^(1/p) over windows or over all positions.

Half precision is computed in float32, where powers do not overflow.
"""

from __future__ import annotations

import math

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.average_pool import spread
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.precision import widened
from netgrad.onnx.rules.windows import windows_of

_ATTRIBUTES = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "p", "pads", "strides")


@rule("LpPool", attributes=_ATTRIBUTES)
def lp_pool(op: RuleContext, dy: Value) -> Value:
    """Y[n, c, o] = (sum of |X|^p over window o)^(1/p); dX = sign(X) |X|^(p-1) sum over windows of dY Y^(1-p).

    Kink: a window of zeros passes no gradient, and with p = 1 an element at 0 has none.
    """
    kernel = op.attribute("kernel_shape")
    windows, amounts = windows_of(op, op.input, kernel)
    share = _per_power(op, dy) * float(math.prod(kernel))
    return spread(op, share, windows, amounts) * _power(op)


@rule("GlobalLpPool", attributes=("p",))
def global_lp_pool(op: RuleContext, dy: Value) -> Value:
    """Y[n, c] = (sum of |X|^p over all positions)^(1/p); dX = sign(X) |X|^(p-1) dY Y^(1-p).

    Kink: a channel of zeros passes no gradient, and with p = 1 an element at 0 has none.
    """
    return op.builder.assume_like(_power(op) * _per_power(op, dy), op.input)


def _power(op: RuleContext) -> Value:
    """sign(X) |X|^(p-1), as a whole power of X, which negative elements have as well."""
    p, x = int(op.attribute("p")), widened(op.builder, op.input)
    if p == 1:
        return op.emit("Sign", x)
    power = x if p == 2 else x ** float(p - 1)
    return power if p % 2 == 0 else power * op.emit("Sign", x)


def _per_power(op: RuleContext, dy: Value) -> Value:
    """The cotangent times Y^(1-p), finite where Y is 0."""
    p, y, dy = int(op.attribute("p")), *(widened(op.builder, value) for value in (op.output, dy))
    if p == 1:
        return dy
    nonzero = op.builder.where(y.equals(0.0), 1.0, y)
    return dy / (nonzero if p == 2 else nonzero ** float(p - 1))
