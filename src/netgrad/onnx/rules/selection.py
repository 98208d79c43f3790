"""Gradient rules of operators that pass operands on: chosen, bounded, masked, converted or as they are."""

from __future__ import annotations

import numpy as np

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule

# ---- unchanged and converted -------------------------------------------------------------------------


@rule("Identity")
def identity(op: RuleContext, dy: Value) -> Value:
    """Y = X; dX = dY."""
    return dy


@rule("Cast", attributes=("to", "saturate", "round_mode"))
def cast(op: RuleContext, dy: Value) -> Value:
    """Y = X in another element type; dX = dY in the type of X.

    Between floating-point types rounding is not differentiated; nothing flows through an integer type.
    """
    return _in_type_of(op, dy)


@rule("CastLike", attributes=("saturate", "round_mode"), not_differentiable=(1,))
def cast_like(op: RuleContext, dy: Value) -> Value:
    """Y = X in the element type of the second input; dX = dY in the type of X."""
    return _in_type_of(op, dy)


def _in_type_of(op: RuleContext, dy: Value) -> Value:
    dtype = op.input.dtype
    return op.emit("CastLike", dy, op.input) if dtype is None else op.builder.cast(dy, dtype)


# ---- a choice by condition ---------------------------------------------------------------------------


@rule("Where", not_differentiable=(0,), broadcasts=True)
def where(op: RuleContext, dy: Value) -> tuple[None, Value | None, Value | None]:
    """Y = C ? A : B; dA = C ? dY : 0, dB = C ? 0 : dY."""
    return None, *_divided(op, op.required(0), dy)


def _divided(op: RuleContext, condition: Value, dy: Value) -> tuple[Value, Value]:
    """``dy`` where the condition holds, and ``dy`` where it does not; the two add up to ``dy`` exactly."""
    if op.exposed:
        return op.builder.where(condition, dy, 0), op.builder.where(condition, 0, dy)
    yes = op.masked(condition, dy)
    return yes, dy - yes


# ---- extremes ----------------------------------------------------------------------------------------


@rule("Max", "Min", broadcasts=True)
def extreme(op: RuleContext, dy: Value) -> list[Value]:
    """Y = max(X_1, .., X_n), or min; dX_i = dY where X_i is the first to equal Y, else 0.

    Kink: at a tie the first of the equal operands takes the whole cotangent, so that the contributions always
    add up to dY: Max(X, X) has the derivative 1.
    """
    contributions: list[Value] = []
    operands, y = op.comparable()
    rest = dy
    for operand in operands[:-1]:
        assert operand is not None, "no operand is left out"
        taken, rest = _divided(op, operand.equals(y), rest)
        contributions.append(taken)
    return [*contributions, rest]


@rule("Clip", broadcasts=True)
def clip(op: RuleContext, dy: Value) -> list[Value | None]:
    """Y = min(max(X, L), H) with an optional L and H; dX = dY where Y = X.

    dH = dY where max(X, L) > H, dL = dY where X < L and L <= H, each summed to a scalar.

    Kink: at a bound the cotangent goes to X, none to the bound; with L > H, Y is H everywhere.
    """
    x, low, high = op.input, op.optional(1), op.optional(2)
    contributions: list[Value | None] = [None] * len(op.inputs)
    if op.wants(0):
        contributions[0] = dy if low is None and high is None else op.masked(_passes(op), dy)
    if low is not None and op.wants(1):
        below = x < low
        contributions[1] = op.masked(below if high is None else op.emit("And", below, low <= high), dy)
    if high is not None and op.wants(2):
        contributions[2] = op.masked((x if low is None else op.emit("Max", x, low)) > high, dy)
    return contributions


def _passes(op: RuleContext) -> Value:
    """Whether the first input is the output."""
    (x, *_), y = op.comparable()
    assert x is not None, "the first input is required"
    return x.equals(y)


# ---- dropout -----------------------------------------------------------------------------------------


def _drops(op: RuleContext) -> bool:
    """Whether the Dropout may drop elements: False where it is known before the run that it does not."""
    ratio, training = op.optional(1), op.optional(2)
    if training is None or (training.constant is not None and not np.any(training.constant)):
        return False
    return ratio is None or ratio.constant is None or bool(np.any(ratio.constant))


@rule(
    "Dropout",
    attributes=("seed",),
    not_differentiable=(1, 2),
    needs_outputs=lambda op: 2 if _drops(op) else 1,
)
def dropout(op: RuleContext, dy: Value, dmask: Value | None = None) -> list[Value | None]:
    """Y = M X / (1 - r) in training with the mask M of this run, else Y = X; dX = dY M / (1 - r), else dY.

    Source: https://onnx.ai/onnx/operators/onnx__Dropout.html; M is all true where nothing is dropped.
    """
    dx = dy
    mask = op.optional_output(1)
    if _drops(op):
        assert mask is not None, "the frame adds the mask"
        dx = op.masked(mask, dy) * _scale(op, dy)
    return [dx, *[None] * (len(op.inputs) - 1)]


def _scale(op: RuleContext, dy: Value) -> Value:
    """1 / (1 - r) while training, else 1: a scalar of the element type of ``dy``."""
    ratio, training = op.optional(1), op.optional(2)
    assert training is not None, "a Dropout without training_mode drops nothing"
    dtype = op.floating(dy)
    if ratio is None or ratio.constant is not None:
        fixed = 0.5 if ratio is None or ratio.constant is None else float(ratio.constant.reshape(()))
        scale = op.builder.scalar(1.0 / (1.0 - fixed), dy)
    else:
        scale = op.emit("Reciprocal", 1 - op.builder.cast(ratio, dtype))
    return scale if training.constant is not None else op.builder.where(training, scale, 1)
