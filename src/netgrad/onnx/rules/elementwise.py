"""Gradient rules of elementwise arithmetic and elementary functions.

Where a formula squares an X that may be large, half types are computed in float32: in float16, 256^2 is
infinite.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.precision import widened

# ---- arithmetic --------------------------------------------------------------------------------------


@rule("Add", broadcasts=True)
def add(op: RuleContext, dy: Value) -> tuple[Value, Value]:
    """C = A + B; dA = dC, dB = dC."""
    return dy, dy


@rule("Sub", broadcasts=True)
def sub(op: RuleContext, dy: Value) -> tuple[Value, Value | None]:
    """C = A - B; dA = dC, dB = -dC."""
    return dy, -dy if op.wants(1) else None


@rule("Mul", broadcasts=True)
def mul(op: RuleContext, dy: Value) -> tuple[Value, Value]:
    """C = A B; dA = dC B, dB = dC A."""
    return dy * op.required(1), dy * op.required(0)


@rule("Div", broadcasts=True)
def div(op: RuleContext, dy: Value) -> tuple[Value, Value | None]:
    """C = A / B; dA = dC / B, dB = -dC C / B."""
    da = dy / op.required(1)
    return da, -(da * op.output) if op.wants(1) else None


@rule("Mod", attributes=("fmod",), broadcasts=True)
def mod(op: RuleContext, dy: Value) -> tuple[Value, Value | None]:
    """C = A - B q with the integer q = A / B rounded towards 0; dA = dC, dB = -dC q.

    Kink: where A / B is an integer C jumps; the derivatives are those of the branch that C is on.
    """
    if not op.wants(1):
        return dy, None
    # (A - C) / B is q up to rounding; Round makes it q and, as it should be, a constant of A and B.
    q = op.emit("Round", (op.required(0) - op.output) / op.required(1))
    return dy, -(dy * q)


@rule("Neg")
def neg(op: RuleContext, dy: Value) -> Value:
    """Y = -X; dX = -dY."""
    return -dy


@rule("Reciprocal")
def reciprocal(op: RuleContext, dy: Value) -> Value:
    """Y = 1 / X; dX = -dY Y^2."""
    return -(dy * op.output * op.output)


@rule("Abs")
def absolute(op: RuleContext, dy: Value) -> Value:
    """Y = |X|; dX = dY sign X.

    Kink: 0 at X = 0.
    """
    return dy * op.emit("Sign", op.input)


@rule("Sum", broadcasts=True)
def sum_(op: RuleContext, dy: Value) -> list[Value]:
    """Y = X_1 + .. + X_n; dX_i = dY."""
    return [dy] * len(op.inputs)


@rule("Mean", broadcasts=True)
def mean(op: RuleContext, dy: Value) -> list[Value]:
    """Y = (X_1 + .. + X_n) / n; dX_i = dY / n."""
    count = len(op.inputs)
    return [dy if count == 1 else dy / count] * count


# ---- powers ------------------------------------------------------------------------------------------


_SMALLEST_POSITIVE = {
    ir.DataType.DOUBLE: 2.0**-1074,
    ir.DataType.FLOAT: 2.0**-149,
    ir.DataType.BFLOAT16: 2.0**-133,
    ir.DataType.FLOAT16: 2.0**-24,
}

_LARGEST = {
    ir.DataType.DOUBLE: (2.0 - 2.0**-52) * 2.0**1023,
    ir.DataType.FLOAT: (2.0 - 2.0**-23) * 2.0**127,
    ir.DataType.BFLOAT16: (2.0 - 2.0**-7) * 2.0**127,
    ir.DataType.FLOAT16: (2.0 - 2.0**-10) * 2.0**15,
}


def _over_twice_the_root(op: RuleContext, dy: Value, root: Value) -> Value:
    """``dY / (2 root)``, finite at a root of 0."""
    floor = op.builder.scalar(math.sqrt(_SMALLEST_POSITIVE[op.floating(root)]), root)
    bounded = op.emit("Max", root, floor)
    return dy / (bounded + bounded)


@rule("Sqrt")
def sqrt(op: RuleContext, dy: Value) -> Value:
    """Y = X^(1/2); dX = dY / (2 Y).

    Kink: the derivative is infinite at X = 0. The derivative at the smallest positive number of the element
    type is taken there (1e22 in float32): large, but finite, so that the length of a zero vector,
    Sqrt(ReduceSum(X X)), has the gradient 0 and not NaN. Every X > 0 has its exact derivative.
    """
    return _over_twice_the_root(op, dy, op.output)


@rule("Pow", broadcasts=True)
def pow_(op: RuleContext, dy: Value) -> tuple[Value | None, Value | None]:
    """Y = X^B; dX = dY B X^(B-1), dB = dY Y ln X.

    A negative X is differentiated by X where B is an integer; 0^0 is 1, so no NaN arises at X = 0 for any
    B = 0 or B >= 1.

    Kink: dB = 0 where X <= 0. At X = 0 that is the limit for B > 0; for X < 0 the power exists at integer B
    only and has no derivative by B. A constant B = 1/2 follows Sqrt.
    """
    db = None
    if op.wants(1):
        x = op.required(0)
        inside = op.builder.where(x > 0, x, 1)  # ln 1 = 0 elsewhere, and no NaN for a second derivative
        db = dy * op.output * op.emit("Log", inside)
    return _pow_base(op, dy) if op.wants(0) else None, db


def _pow_base(op: RuleContext, dy: Value) -> Value:
    """The derivative of X^B by X."""
    x, b = op.required(0), op.required(1)
    if b.constant is None:
        exponent = op.builder.cast(b, op.floating(x))
        # Where B and X are both 0, B X^(B-1) is 0 * infinity; any other base gives the right 0.
        both = op.emit("And", x.equals(0), exponent.equals(0))
        base = op.builder.where(both, 1, x)
        return dy * (exponent * base ** (exponent - 1))
    constant = np.asarray(b.constant, np.float64)
    if constant.size == 1:
        number = float(constant.reshape(()))
        if number == 0:
            return op.builder.zeros_like(dy)
        if number == 1:
            return dy
        if number == 2:
            return dy * (x + x)
        if number == 0.5:
            return _over_twice_the_root(op, dy, op.output)
    factor = op.builder.constant(constant, op.floating(x))
    # At B = 0 the factor is 0 whatever the power; X^0 keeps it finite.
    lowered = op.builder.constant(np.where(constant == 0, 0.0, constant - 1), op.floating(x))
    return dy * (factor * x**lowered)


# ---- exponentials ------------------------------------------------------------------------------------


@rule("Exp")
def exp(op: RuleContext, dy: Value) -> Value:
    """Y = e^X; dX = dY Y.

    Where Y overflows in a denominator, as in 1 / (1 + Exp(-X)), dY is 0; a finite Y keeps the product at 0.
    """
    if not op.vanishing:
        return dy * op.output
    largest = op.builder.scalar(_LARGEST[op.floating(dy)], dy)
    return dy * op.emit("Min", op.output, largest)


@rule("Log")
def log(op: RuleContext, dy: Value) -> Value:
    """Y = ln X; dX = dY / X."""
    return dy / op.input


@rule("Erf")
def erf(op: RuleContext, dy: Value) -> Value:
    """Y = erf X; dX = dY 2/sqrt(pi) e^(-X^2)."""
    return dy * (op.emit("Exp", -(op.input * op.input)) * (2.0 / math.sqrt(math.pi)))


@rule("Sigmoid")
def sigmoid(op: RuleContext, dy: Value) -> Value:
    """Y = 1 / (1 + e^-X); dX = dY Y (1 - Y)."""
    return dy * op.output * (1 - op.output)


@rule("Tanh")
def tanh(op: RuleContext, dy: Value) -> Value:
    """Y = tanh X; dX = dY (1 - Y^2)."""
    return dy * (1 - op.output * op.output)


# ---- trigonometric and hyperbolic functions, and their inverses ----------------------------------------


@rule("Sin")
def sin(op: RuleContext, dy: Value) -> Value:
    """Y = sin X; dX = dY cos X."""
    return dy * op.emit("Cos", op.input)


@rule("Cos")
def cos(op: RuleContext, dy: Value) -> Value:
    """Y = cos X; dX = -dY sin X."""
    return -(dy * op.emit("Sin", op.input))


@rule("Tan")
def tan(op: RuleContext, dy: Value) -> Value:
    """Y = tan X; dX = dY (1 + Y^2)."""
    return dy * (op.output * op.output + 1)


def _one_minus_square(x: Value) -> Value:
    """1 - X^2 without cancellation near X = 1 and -1."""
    return (1 - x) * (x + 1)


@rule("Asin")
def asin(op: RuleContext, dy: Value) -> Value:
    """Y = arcsin X; dX = dY / sqrt(1 - X^2).

    Kink: infinite at X = 1 and -1.
    """
    return dy / op.emit("Sqrt", _one_minus_square(op.input))


@rule("Acos")
def acos(op: RuleContext, dy: Value) -> Value:
    """Y = arccos X; dX = -dY / sqrt(1 - X^2).

    Kink: infinite at X = 1 and -1.
    """
    return -(dy / op.emit("Sqrt", _one_minus_square(op.input)))


@rule("Atan")
def atan(op: RuleContext, dy: Value) -> Value:
    """Y = arctan X; dX = dY / (1 + X^2)."""
    x, dy = widened(op.builder, op.input), widened(op.builder, dy)
    return dy / (x * x + 1)


@rule("Sinh")
def sinh(op: RuleContext, dy: Value) -> Value:
    """Y = sinh X; dX = dY cosh X."""
    return dy * op.emit("Cosh", op.input)


@rule("Cosh")
def cosh(op: RuleContext, dy: Value) -> Value:
    """Y = cosh X; dX = dY sinh X."""
    return dy * op.emit("Sinh", op.input)


@rule("Asinh")
def asinh(op: RuleContext, dy: Value) -> Value:
    """Y = arsinh X; dX = dY / sqrt(1 + X^2)."""
    x, dy = widened(op.builder, op.input), widened(op.builder, dy)
    return dy / op.emit("Sqrt", x * x + 1)


@rule("Acosh")
def acosh(op: RuleContext, dy: Value) -> Value:
    """Y = arcosh X; dX = dY / sqrt(X^2 - 1).

    Kink: infinite at X = 1.
    """
    x, dy = widened(op.builder, op.input), widened(op.builder, dy)
    return dy / op.emit("Sqrt", (x - 1) * (x + 1))


@rule("Atanh")
def atanh(op: RuleContext, dy: Value) -> Value:
    """Y = artanh X; dX = dY / (1 - X^2)."""
    return dy / _one_minus_square(op.input)
