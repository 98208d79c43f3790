"""Makers of elementwise operators: functions of one number, broadcasting, selections."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.onnx.random_graphs.makers import maker, register
from tests.onnx.random_graphs.writer import Drawn, Writer

Bound = Callable[[float], float]


def _same(bound: float) -> float:
    return bound


def _one(bound: float) -> float:
    return 1.0


def _unary(op_type: str, bound: Bound, attributes: dict[str, Any], g: Writer) -> None:
    x = g.any()
    given = {name: g.choose(*values) for name, values in attributes.items() if g.chance(0.6)}
    g.keep(g.emit(op_type, x, **given), x.shape, bound(x.bound))


# Operator: bound of the result, choices for attributes, first opset, float64 on ONNX Runtime at every opset.
_UNARY: dict[str, tuple[Bound, dict[str, Any], int, bool]] = {
    "Tanh": (_one, {}, 13, True),
    "Sigmoid": (_one, {}, 13, True),
    "Sin": (_one, {}, 13, True),
    "Cos": (_one, {}, 13, True),
    "Neg": (_same, {}, 13, True),
    "Abs": (_same, {}, 13, True),
    "Relu": (_same, {}, 13, True),
    "Identity": (_same, {}, 13, True),
    "Exp": (math.exp, {}, 13, True),
    "Dropout": (_same, {}, 13, True),
    "HardSigmoid": (_one, {"alpha": [0.3, 0.5], "beta": [0.4, 0.6]}, 13, True),
    "Softplus": (lambda b: b + 1, {}, 13, False),
    "Softsign": (_one, {}, 13, False),
    "Elu": (_same, {"alpha": [0.5, 1.5]}, 13, False),
    "Selu": (lambda b: 2 * b + 1, {}, 13, False),
    "LeakyRelu": (_same, {"alpha": [0.1, 0.5]}, 13, False),
    "ThresholdedRelu": (_same, {"alpha": [0.3, 0.7]}, 13, False),
    "Erf": (_one, {}, 13, False),
    "Atan": (lambda b: 1.6, {}, 13, False),
    "Asinh": (_same, {}, 13, False),
    "Sinh": (math.sinh, {}, 13, False),
    "Cosh": (math.cosh, {}, 13, False),
    "HardSwish": (lambda b: b + 1, {}, 14, False),
    "Mish": (lambda b: b + 1, {}, 18, False),
    "Gelu": (lambda b: b + 1, {"approximate": ["none", "tanh"]}, 20, False),
}
for _type, (_bound, _attributes, _since, _double) in _UNARY.items():
    register(_type, partial(_unary, _type, _bound, _attributes), since=_since, double=_double, weight=0.5)


def _of_inside(op_type: str, scale: float, bound: float, g: Writer) -> None:
    """A function that is defined within a range only: of a tanh that is scaled to it."""
    x = g.any()
    inside = g.emit("Mul", g.emit("Tanh", x), g.real(scale))
    g.keep(g.emit(op_type, inside), x.shape, bound)


for _type, _scale, _largest in [
    ("Asin", 0.9, 1.2),
    ("Acos", 0.9, 2.8),
    ("Atanh", 0.9, 1.5),
    ("Tan", 1.1, 2.0),
]:
    register(_type, partial(_of_inside, _type, _scale, _largest), double=False, weight=0.3)


def _of_positive(op_type: str, g: Writer) -> None:
    x = g.positive(g.any())
    bound = {"Log": max(1.3, math.log(x.bound)), "Sqrt": math.sqrt(x.bound), "Reciprocal": 3.4}[op_type]
    g.keep(g.emit(op_type, x), x.shape, bound)


for _type in ("Log", "Sqrt", "Reciprocal"):
    register(_type, partial(_of_positive, _type), weight=0.7)


@maker(double=False, weight=0.3)
def acosh(g: Writer) -> None:
    x = g.any()
    large = g.emit("Add", g.emit("Mul", x, x), g.real(1.3))
    g.keep(g.emit("Acosh", large), x.shape, math.acosh(x.bound**2 + 1.3))


register("Swish", partial(_unary, "Swish", _same, {"alpha": [0.5, 1.5]}), since=24, until=24, weight=2.0)


@maker(weight=0.4)
def rounding(g: Writer) -> None:
    """A piecewise constant factor: no gradient flows through it, and it counts in the other's."""
    x, op_type = g.any(), g.choose("Round", "Floor", "Ceil", "Sign")
    step = g.emit(op_type, x)
    g.keep(g.emit("Mul", step, x), x.shape, (x.bound + 1) * x.bound)


def _shape(*values: Drawn) -> tuple[int, ...]:
    return tuple(np.broadcast_shapes(*(value.shape for value in values)))


def _binary(op_type: str, g: Writer) -> None:
    a = g.any()
    b = g.partner(a)
    if g.chance(0.5):
        a, b = b, a
    bound = {
        "Add": a.bound + b.bound,
        "Sub": a.bound + b.bound,
        "Mul": a.bound * b.bound,
        "Max": max(a.bound, b.bound),
        "Min": max(a.bound, b.bound),
    }[op_type]
    g.keep(g.emit(op_type, a, b), _shape(a, b), bound)


for _type in ("Add", "Sub", "Mul", "Max", "Min"):
    register(_type, partial(_binary, _type), weight=2.0 if _type in ("Add", "Mul") else 1.0)


@maker()
def div(g: Writer) -> None:
    a = g.any()
    b = g.partner(a)
    below = g.positive(b)
    g.keep(g.emit("Div", a, below), _shape(a, b), a.bound / 0.3)


@maker()
def power(g: Writer) -> None:
    a = g.any()
    if g.chance(0.4):
        exponent = g.choose(2.0, 3.0, 1.0, -1.0, 0.5)
        base = a if exponent in (2.0, 3.0) else g.positive(a)
        bound = 3.4 if exponent < 0 else max(base.bound, 1.0) ** exponent
        g.keep(g.emit("Pow", base, g.real(exponent)), a.shape, bound)
        return
    b = g.partner(a)
    base = g.positive(a)
    exponent_name = g.emit("Tanh", b)
    g.keep(g.emit("Pow", base, exponent_name), _shape(a, b), max(base.bound, 3.4))


@maker(weight=0.5)
def remainder(g: Writer) -> None:
    a = g.any()
    b = g.partner(a)
    below = g.positive(b)
    g.keep(g.emit("Mod", a, below, fmod=1), _shape(a, b), a.bound)


@maker()
def variadic(g: Writer) -> None:
    op_type = g.choose("Sum", "Max", "Min", *(["Mean"] if g.shared.kernels == "any" else []))
    values = [g.any()]
    for _ in range(g.number(0, 3)):
        widest = Drawn("", _shape(*values), 1.0)
        values.append(g.partner(widest))
    bound = sum(v.bound for v in values) if op_type == "Sum" else max(v.bound for v in values)
    g.keep(g.emit(op_type, *values), _shape(*values), bound)


@maker(double=False, weight=0.5)
def parametric_relu(g: Writer) -> None:
    x = g.any()
    shape = [1 if g.chance(0.3) else dim for dim in x.shape[g.number(0, x.rank) :]]
    g.keep(g.emit("PRelu", x, g.weight(*shape)), x.shape, x.bound)


@maker()
def where(g: Writer) -> None:
    a = g.any()
    b = g.partner(a)
    tested = g.partner(Drawn("", _shape(a, b), 1.0))
    condition = g.emit(g.choose("Greater", "Less", "GreaterOrEqual", "LessOrEqual"), tested, g.real(0.1))
    if g.chance(0.3):
        condition = g.emit("Not", condition)
    if g.chance(0.3):
        condition = g.emit(g.choose("And", "Or", "Xor"), condition, g.emit("Greater", a, g.real(-0.2)))
    g.keep(g.emit("Where", condition, a, b), _shape(tested, a, b), max(a.bound, b.bound))


@maker()
def clip(g: Writer) -> None:
    x = g.any()
    low = g.weight(scale=-0.2, low=-0.6) if g.chance(0.7) else ""
    high = g.weight(scale=0.7, low=0.2) if g.chance(0.7) else ""
    if g.chance(0.3):
        y = g.pick(lambda each: each.rank == 0)
        high = high if y is None else g.emit("Add", g.emit("Abs", y), g.real(0.1))
    operands = [x, low, high] if high else [x, low] if low else [x]
    g.keep(g.emit("Clip", *operands), x.shape, max(x.bound, 5.0) if high else max(x.bound, 0.6))


@maker(weight=0.4)
def cast(g: Writer) -> None:
    x = g.any()
    if g.opset >= 15 and g.chance(0.5):
        g.keep(g.emit("CastLike", x, g.any()), x.shape, x.bound)
    elif g.chance(0.5):
        g.keep(g.emit("Cast", x, to=g.element_type), x.shape, x.bound)
    else:
        truth = g.emit("Cast", g.emit("Greater", x, g.real(0.0)), to=g.element_type)
        g.keep(g.emit("Mul", truth, x), x.shape, x.bound)


@maker(weight=0.4)
def stable_softplus(g: Writer) -> None:
    """What exporters write: max(x, 0) + log(1 + exp(-|x|)), whose corners cancel."""
    x = g.any()
    tail = g.emit("Exp", g.emit("Neg", g.emit("Abs", x)))
    head = g.emit("Max", x, g.real(0.0))
    g.keep(g.emit("Add", head, g.emit("Log", g.emit("Add", g.real(1.0), tail))), x.shape, x.bound + 1)
