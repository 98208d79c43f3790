"""Where zero meets infinity: which cotangents may be zero by selection, and which may be infinite.

The chain rule multiplies, and 0 times infinity is NaN. Three patterns in which the derivative is finite all
the same are met in practice:

* ``Where(x > 0, Log(x), 0)``: the element of Log(x) that is not selected gets the cotangent 0, and the
  derivative of Log there may be infinite or NaN. The product has to be 0. Such values are *shadowed*.
* ``Log(Relu(x))``: the cotangent that reaches Relu may be infinite where
  Relu's derivative is 0. Such values are *exposed*.
* ``1 / (1 + Exp(-x))``: where Exp overflows, the result is 0 and so is its derivative, but the derivative of
  Exp is infinite. Such values are *vanishing*.

All are found by looking from each operator along elementwise operators only: one that mixes elements
(MatMul, Conv, a reduction) mixes zeros and infinities with other numbers. So ordinary nets, in which a
Conv or a MatMul stands between a selection and the next singular operator, pay nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from netgrad.core.operator import Operator
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.view import TensorInfo

# fmt: off
_SELECTING = frozenset({
    "Where", "Max", "Min", "Clip", "Compress", "GatherElements", "GatherND", "ReduceMax", "ReduceMin", "TopK",
    "ScatterElements", "ScatterND",
})
# fmt: on
"""Operators whose result ignores elements of an operand, whatever these hold.

Gather, Slice and Split are left out: they stand behind normalisations in every transformer, where the guard
would cost more than it is worth.
"""

_POLES = frozenset({"Log", "Reciprocal", "Acos", "Acosh", "Asin", "Atanh"})
"""Operators with an infinite derivative somewhere; Div and Pow depend on their second operand."""

_OVERFLOWING = frozenset({"Exp", "Sinh", "Cosh", "Tan", "Sqrt", "Mul"})
"""Operators whose derivative, or a factor of it, is infinite or NaN where their operand is out of range."""

_VANISHING_TOGETHER = frozenset(
    {"Add", "Mul", "Sum", "Identity", "Cast", "Reshape", "Unsqueeze", "Squeeze", "Expand"}
)
"""Operators whose result is infinite where an operand is (and no other is of the opposite sign, or 0)."""

# fmt: off
_ELEMENTWISE = frozenset({
    "Abs", "Acos", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", "Cast", "CastLike", "Celu", "Clip",
    "Cos", "Cosh", "Div", "Dropout", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu",
    "Log", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "PRelu", "Pow", "Reciprocal", "Relu",
    "Selu", "Shrink", "Sigmoid", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish",
    "Tan", "Tanh", "ThresholdedRelu", "Where", "Concat", "Expand", "Flatten", "Identity", "Reshape",
    "Squeeze", "Transpose", "Unsqueeze",
})
# fmt: on
"""Operators whose result depends, element by element, on one element of each operand."""


@dataclass(frozen=True)
class Singularities:
    """Names of the values at which a product of 0 and infinity may arise.

    Attributes:
        shadowed: Values of which a selection may ignore elements: a cotangent of 0 means "no influence".
        exposed: Values whose cotangent may be infinite.
        vanishing: Values in a denominator: where they are infinite they have no influence.
    """

    shadowed: frozenset[str] = frozenset()
    exposed: frozenset[str] = frozenset()
    vanishing: frozenset[str] = frozenset()


NOWHERE: Final = Singularities()
"""No such values, or nothing known of them."""


def _has_pole(op: Operator, types: Mapping[str, TensorInfo]) -> bool:
    """Whether the derivative of ``op`` by its operand can be infinite at a finite operand."""
    if op.type in ("Div", "Pow") and len(op.inputs) == 2:
        constant = types.get(op.inputs[1], TensorInfo()).constant
        if constant is None:
            return True
        return bool(np.any(constant == 0)) if op.type == "Div" else bool(np.any(constant < 1))
    return op.type in _POLES


def _denominator(op: Operator) -> str:
    """The operand of which an infinite value makes the result 0, or ``""``."""
    if op.type == "Div" and len(op.inputs) == 2:
        return op.inputs[1]
    return op.inputs[0] if op.type == "Reciprocal" else ""


def singularities(operators: Iterable[Operator], types: Mapping[str, TensorInfo]) -> Singularities:
    """Find the shadowed, exposed and vanishing values of a net (see the module's docstring).

    Args:
        operators: The net, in order.
        types: What is known of every value, by name.
    """
    shadowed: set[str] = set()
    exposed: set[str] = set()
    vanishing: set[str] = set()
    for op in reversed(list(operators)):
        if op.domain:
            continue
        passes = op.type in _ELEMENTWISE
        names = [name for name in op.inputs if name]
        if op.type in _SELECTING or (passes and not shadowed.isdisjoint(op.outputs)):
            shadowed.update(names)
        if _has_pole(op, types) or (passes and not exposed.isdisjoint(op.outputs)):
            exposed.update(names)
        if op.type in _VANISHING_TOGETHER and not vanishing.isdisjoint(op.outputs):
            vanishing.update(names)
        elif _denominator(op):
            vanishing.add(_denominator(op))
    return Singularities(frozenset(shadowed), frozenset(exposed), frozenset(vanishing))


def may_be_singular(op: RuleContext) -> bool:
    """Whether the operator's derivative can be infinite or NaN while its cotangent is 0."""
    if op.operator.domain:
        return False
    kind = op.operator.type
    if kind in ("Mul", "Div"):
        # A finite constant as the other factor keeps the derivative by this one finite.
        factors = [1] if kind == "Div" and not op.wants(1) else [1 - k for k in (0, 1) if op.wants(k)]
        constants = [op.required(k).constant for k in factors]
        return not all(
            c is not None and np.all(np.isfinite(c)) and not (kind == "Div" and np.any(c == 0))
            for c in constants
        )
    return kind in _POLES or kind in _OVERFLOWING or kind == "Pow"


def without_spurious_nan(builder: Builder, dy: Value, contribution: Value) -> Value:
    """``contribution`` with 0 in place of a NaN that comes of a cotangent of 0.

    A NaN that comes of any other cotangent is kept, and so is a contribution that is 0 as a number: its
    own derivative by ``dy`` is then the operator's, as second derivatives need it.
    """
    spurious = builder.op("And", builder.op("IsNaN", contribution), dy.equals(0))
    return builder.where(spurious, 0, contribution)
