"""Gradient rules of elementwise arithmetic and elementary functions."""

from __future__ import annotations

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule

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


@rule("Neg")
def neg(op: RuleContext, dy: Value) -> Value:
    """Y = -X; dX = -dY."""
    return -dy


# ---- elementary functions ----------------------------------------------------------------------------


@rule("Exp")
def exp(op: RuleContext, dy: Value) -> Value:
    """Y = e^X; dX = dY Y."""
    return dy * op.output


@rule("Log")
def log(op: RuleContext, dy: Value) -> Value:
    """Y = ln X; dX = dY / X."""
    return dy / op.input


@rule("Sqrt")
def sqrt(op: RuleContext, dy: Value) -> Value:
    """Y = X^(1/2); dX = dY / (2 Y)."""
    return dy / (op.output + op.output)


@rule("Sin")
def sin(op: RuleContext, dy: Value) -> Value:
    """Y = sin X; dX = dY cos X."""
    return dy * op.emit("Cos", op.input)


@rule("Cos")
def cos(op: RuleContext, dy: Value) -> Value:
    """Y = cos X; dX = -dY sin X."""
    return -(dy * op.emit("Sin", op.input))
