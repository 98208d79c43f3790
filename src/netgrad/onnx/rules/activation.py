"""Gradient rules of activation functions.

The choice between the branches of a function is a product with a mask of zeros and ones
(`RuleContext.masked`) or a bound (Min, Max), not Where of tensors, which takes ten times as long or more on
ONNX Runtime (`benchmarks/activation.py`).
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from netgrad.core.operator import Operator
from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule

# ---- piecewise linear --------------------------------------------------------------------------------


_STEEPEST = float(np.finfo(np.float32).max)


def _step(op: RuleContext, x: Value) -> Value:
    """1 where ``x`` > 0, else 0, in the element type of ``x``.

    In float32 as the steepest HardSigmoid there is: one node, and on ONNX Runtime faster than a comparison
    and a cast. It is a step but for 0 < x < 3e-39, where float32 has no normal numbers.
    """
    if x.dtype is ir.DataType.FLOAT:
        return op.emit("HardSigmoid", x, alpha=_STEEPEST, beta=0.0)
    return op.emit("Cast", x > 0, to=int(op.floating(x)))


def _where_positive(op: RuleContext, x: Value, dy: Value) -> Value:
    """``dy`` where ``x`` > 0, else 0."""
    return op.masked(x > 0, dy) if op.exposed else dy * _step(op, x)


def _select(op: RuleContext, x: Value, above: float, below: float) -> Value:
    """The number ``above`` where ``x`` > 0, else ``below``, in the element type of ``x``."""
    if above == 1 and 0 <= below <= 1:
        return op.emit("Max", _step(op, x), op.builder.scalar(below, x))
    return op.builder.where(x > 0, op.builder.scalar(above, x), below)


@rule("Relu")
def relu(op: RuleContext, dy: Value) -> Value:
    """Y = max(X, 0); dX = dY where Y > 0, else 0.

    Kink: 0 at X = 0.
    """
    return _where_positive(op, op.output, dy)


@rule("LeakyRelu", attributes=("alpha",))
def leaky_relu(op: RuleContext, dy: Value) -> Value:
    """Y = X where X > 0, else a X; dX = dY where X > 0, else a dY.

    Kink: a at X = 0.
    """
    alpha = op.attribute("alpha")
    # With a >= 0, Y has the sign of X; using Y alone leaves ONNX Runtime free to fuse X away.
    return dy * _select(op, op.output if alpha >= 0 else op.input, 1.0, alpha)


@rule("PRelu", broadcasts=True)
def prelu(op: RuleContext, dy: Value) -> tuple[Value, Value]:
    """Y = X where X > 0, else S X; dX = dY where X > 0, else S dY; dS = 0 where X > 0, else X dY.

    Kink: S at X = 0.
    """
    x, slope = op.required(0), op.required(1)
    above = _where_positive(op, x, dy)
    below = dy - above
    return above + below * slope, below * x


@rule("ThresholdedRelu", attributes=("alpha",))
def thresholded_relu(op: RuleContext, dy: Value) -> Value:
    """Y = X where X > a, else 0; dX = dY where X > a, else 0.

    Kink: 0 at X = a, where Y jumps.
    """
    return op.masked(op.input > op.attribute("alpha"), dy)


@rule("Shrink", attributes=("bias", "lambd"))
def shrink(op: RuleContext, dy: Value) -> Value:
    """Y = X + b where X < -l, X - b where X > l, else 0; dX = dY where |X| > l, else 0.

    Kink: 0 at |X| = l.
    """
    return op.masked(op.emit("Abs", op.input) > op.attribute("lambd"), dy)


def _is_step(op: Operator) -> bool:
    """Whether a HardSigmoid is so steep that it is a step, which the other rules write (see `_step`)."""
    return abs(float(op.attributes.get("alpha", 0.2))) >= 0.99 * _STEEPEST


@rule("HardSigmoid", attributes=("alpha", "beta"), constant_when=_is_step)
def hard_sigmoid(op: RuleContext, dy: Value) -> Value:
    """Y = min(max(a X + b, 0), 1); dX = a dY where 0 < Y < 1, else 0.

    Kink: 0 where a X + b is 0 or 1. With a slope a of float32's largest number, Y is a step and dX is 0.
    """
    inside = op.emit("And", op.output > 0, op.output < 1)
    alpha: float = op.attribute("alpha")
    return op.masked(inside, dy) * alpha


@rule("HardSwish")
def hard_swish(op: RuleContext, dy: Value) -> Value:
    """Y = X h(X) with h(X) = min(max(a X + 1/2, 0), 1); dX = dY (h(X) + a X where |X| < 3).

    The standard defines Y by a HardSigmoid, so that a is the float32 next to 1/6, for float64 too.
    Kink: 0 at X = -3 and 1 at X = 3.
    """
    a = float(np.float32(1 / 6))
    h = op.emit("HardSigmoid", op.input, alpha=a, beta=0.5)
    inside = op.emit("Abs", op.input) < 3
    return dy * (h + op.masked(inside, op.input) * a)


# ---- exponential branches ----------------------------------------------------------------------------


def _slope(op: RuleContext, above: float, below: float) -> Value:
    """``above`` where X > 0, else Y + ``below``, where Y = ``above`` X for X > 0."""
    if above > 0 and below >= 0:
        # Y has the sign of X, and a choice between two numbers is much faster than one with a tensor.
        negative = op.emit("Min", op.output, op.builder.scalar(0.0, op.output))
        return negative + _select(op, op.output, above, below)
    return op.builder.where(op.input > 0, above, op.output + below)


@rule("Elu", attributes=("alpha",))
def elu(op: RuleContext, dy: Value) -> Value:
    """Y = X where X > 0, else a (e^X - 1); dX = dY where X > 0, else dY (Y + a).

    Kink: a at X = 0.
    """
    alpha = op.attribute("alpha")
    if alpha == 1:
        return dy * (op.emit("Min", op.output, op.builder.scalar(0.0, dy)) + 1)
    return dy * _slope(op, 1.0, alpha)


@rule("Selu", attributes=("alpha", "gamma"))
def selu(op: RuleContext, dy: Value) -> Value:
    """Y = g X where X > 0, else g a (e^X - 1); dX = g dY where X > 0, else dY (Y + g a).

    Kink: g a at X = 0.
    """
    gamma, alpha = op.attribute("gamma"), op.attribute("alpha")
    return dy * _slope(op, gamma, gamma * alpha)


@rule("Celu", attributes=("alpha",))
def celu(op: RuleContext, dy: Value) -> Value:
    """Y = X where X > 0, else a (e^(X/a) - 1); dX = dY where X > 0, else dY e^(X/a).

    The derivative is continuous.
    """
    negative = op.emit("Min", op.input, op.builder.scalar(0.0, dy))
    return dy * op.emit("Exp", negative / op.attribute("alpha"))


# ---- smooth ------------------------------------------------------------------------------------------


@rule("Softplus")
def softplus(op: RuleContext, dy: Value) -> Value:
    """Y = ln(1 + e^X); dX = dY sigmoid(X)."""
    return dy * op.emit("Sigmoid", op.input)


@rule("Softsign")
def softsign(op: RuleContext, dy: Value) -> Value:
    """Y = X / (1 + |X|); dX = dY / (1 + |X|)^2."""
    scale = op.emit("Abs", op.input) + 1
    return dy / scale / scale


@rule("Swish", attributes=("alpha",))
def swish(op: RuleContext, dy: Value) -> Value:
    """Y = X s(a X) with the sigmoid s; dX = dY (s + a Y (1 - s))."""
    alpha = op.attribute("alpha")
    s = op.emit("Sigmoid", op.input if alpha == 1 else op.input * alpha)
    bend = op.output * (1 - s)
    return dy * (s + (bend if alpha == 1 else bend * alpha))


@rule("Mish")
def mish(op: RuleContext, dy: Value) -> Value:
    """Y = X t with t = tanh(ln(1 + e^X)); dX = dY (t + X (1 - t^2) sigmoid(X))."""
    t = op.emit("Tanh", op.emit("Softplus", op.input))
    return dy * (t + op.input * (1 - t * t) * op.emit("Sigmoid", op.input))


@rule("Gelu", attributes=("approximate",))
def gelu(op: RuleContext, dy: Value) -> Value:
    """Y = X/2 (1 + erf(X / sqrt 2)); dX = dY/2 (1 + erf(X / sqrt 2) + X sqrt(2/pi) e^(-X^2 / 2)).

    With approximate="tanh": Y = X/2 (1 + t), t = tanh(u), u = k (X + c X^3), k = sqrt(2/pi), c = 0.044715;
    dX = dY/2 (1 + t + X (1 - t^2) k (1 + 3 c X^2)).
    """
    approximate = op.attribute("approximate")
    x, k = op.input, math.sqrt(2.0 / math.pi)
    if approximate == "none":
        z = x * math.sqrt(0.5)
        bend = op.emit("Exp", -(z * z)) * x * k
        return dy * (op.emit("Erf", z) + bend + 1) * 0.5
    if approximate == "tanh":
        c = 0.044715
        # From |X| = 30 on, t is 1 or -1 and the bend 0 in every type; squares of large X would be infinite.
        x = op.emit("Clip", x, op.builder.scalar(-30.0, x), op.builder.scalar(30.0, x))
        square = x * x
        t = op.emit("Tanh", x * (square * (c * k) + k))
        bend = x * (1 - t * t) * (square * (3.0 * c * k) + k)
        return dy * (t + bend + 1) * 0.5
    raise op.refuse(f"the attribute approximate = {approximate!r} is neither 'none' nor 'tanh'")
