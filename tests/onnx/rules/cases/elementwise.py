"""Rows of elementwise arithmetic and elementary functions."""

import math

import numpy as np

from tests.onnx.rules.table import (
    Case,
    away_from_zero,
    constant,
    exactly,
    normal,
    positive,
    run_time,
    uniform,
)

# Every way two operands can broadcast: equal, scalar, row, column, missing leading axes, both sides.
SHAPES = [
    ((2, 3), (2, 3)),
    ((2, 3), ()),
    ((), (3, 2)),
    ((2, 3), (3,)),
    ((2, 3), (2, 1)),
    ((3,), (2, 4, 3)),
    ((2, 1, 3), (4, 1)),
    ((1,), (1, 2)),
]

ELEMENTARY = {
    "Neg": normal,
    "Abs": away_from_zero,
    "Reciprocal": away_from_zero,
    "Exp": normal,
    "Log": positive,
    "Sqrt": positive,
    "Sigmoid": normal,
    "Tanh": normal,
    "Sin": normal,
    "Cos": normal,
}

# ONNX Runtime has no float64 kernels for these; the reference evaluator computes them in float64.
ELEMENTARY_IN_REFERENCE = {
    "Tan": lambda *shape: uniform(-1.2, 1.2, *shape),
    "Asin": lambda *shape: uniform(-0.9, 0.9, *shape),
    "Acos": lambda *shape: uniform(-0.9, 0.9, *shape),
    "Atan": normal,
    "Sinh": normal,
    "Cosh": normal,
    "Asinh": normal,
    "Acosh": lambda *shape: uniform(1.1, 3.0, *shape),
    "Atanh": lambda *shape: uniform(-0.9, 0.9, *shape),
}

erf = np.vectorize(math.erf, otypes=[np.float64])


CASES = [
    *(Case(op, [normal(*a), normal(*b)]) for op in ("Add", "Sub", "Mul") for a, b in SHAPES),
    *(Case("Div", [normal(*a), away_from_zero(*b)], fan_out=False) for a, b in SHAPES),
    Case("Div", [normal(2, 3), constant(4.0, np.float64)], note="constant divisor"),
    *(
        Case(op, [normal(*a), normal(*b)], note="empty")
        for op in ("Add", "Mul")
        for a, b in [((0, 3), (3,)), ((2, 0), (2, 1)), ((1,), (0,))]
    ),
    *(Case(op, [draw(*shape)]) for op, draw in ELEMENTARY.items() for shape in [(2, 3), (), (4, 1, 2)]),
    *(Case(op, [draw(*shape)]) for op, draw in ELEMENTARY_IN_REFERENCE.items() for shape in [(2, 3), ()]),
    *(Case("Erf", [normal(*shape)], forward=erf) for shape in [(2, 3), ()]),
    *(Case(op, [normal(0, 3)], note="empty") for op in ("Neg", "Exp", "Abs")),
    # values at which a careless formula overflows or divides 0 by 0
    Case("Sigmoid", [exactly([-800.0, 0.0, 800.0])], note="saturated", expected=[[0, 0.25, 0]]),
    Case("Tanh", [exactly([-800.0, 0.0, 800.0])], note="saturated", expected=[[0, 1, 0]]),
    Case("Erf", [exactly([-60.0, 0.0, 60.0])], note="saturated", expected=[[0, 2 / np.sqrt(np.pi), 0]]),
    Case("Atan", [exactly([-1e100, 0.0, 1e100])], note="large", expected=[[0, 1, 0]]),
    Case("Asinh", [exactly([-1e150, 0.0, 1e150])], note="large", expected=[[0, 1, 0]]),
    Case("Abs", [exactly([-2.0, 0.0, 3.0])], note="kink at 0", expected=[[-1, 0, 1]]),
    # powers
    *(Case("Pow", [positive(*a), normal(*b)], fan_out=False) for a, b in SHAPES),
    Case("Pow", [positive(2, 3), positive(2, 3)], note="x to the x"),
    *(
        Case("Pow", [away_from_zero(2, 3), constant(exponent, np.float64)], note=f"exponent {exponent}")
        for exponent in (-2.0, -1.0, 1.0, 2.0, 3.0, 4.0, [3.0], [[2.0], [3.0]])
    ),
    *(
        Case("Pow", [positive(2, 3), constant(exponent, np.float64)], note=f"exponent {exponent}")
        for exponent in (-0.5, 0.5, 1.5, [[0.5]])
    ),
    Case(
        "Pow",
        [positive(3), constant([[2.0], [0.5], [0.0], [-1.0]], np.float64)],
        note="exponents in a column",
    ),
    Case("Pow", [away_from_zero(2, 3), constant([2, 0, 3], np.int64)], note="integer exponents"),
    Case("Pow", [away_from_zero(2, 3), run_time([2, -1, 3], np.int64)], note="integer exponents at run time"),
    Case(
        "Pow",
        [away_from_zero(2, 3), run_time([2.0, -1.0, 3.0], np.float64)],
        wrt=[0],
        note="negative base and run-time exponent",
    ),
    Case(
        "Pow", [exactly([-2.0, 0.0, 3.0]), constant(0.0, np.float64)], note="exponent 0", expected=[[0, 0, 0]]
    ),
    Case(
        "Pow",
        [exactly([-2.0, 0.0, 3.0]), constant(2.0, np.float64)],
        note="square at 0",
        expected=[[-4, 0, 6]],
    ),
    Case(
        "Pow",
        [exactly([-2.0, 0.0, 3.0]), constant([[1.0], [3.0]], np.float64)],
        note="cube at 0",
        expected=[[1 + 12, 1, 1 + 27]],
    ),
    Case(
        "Pow",
        [exactly([0.0, 0.0, 0.0, 0.0]), exactly([0.0, 1.0, 2.0, 2.5])],
        note="base 0, run-time exponent",
        expected=[[0, 1, 0, 0], [0, 0, 0, 0]],
    ),
    Case(
        "Pow",
        [exactly([-2.0, -3.0]), exactly([2.0, 3.0])],
        note="negative base has no gradient by the exponent",
        expected=[[-4, 27], [0, 0]],
    ),
    Case(
        "Sqrt",
        [exactly([[0.0, 0.25]])],
        note="infinite at 0, taken at the smallest number",
        expected=[[[0.5 / np.sqrt(np.float64(5e-324)), 1.0]]],
    ),
    # variadic
    *(
        Case("Sum", [normal(*shape) for shape in shapes])
        for shapes in [[(2, 3)], [(2, 3), (2, 3)], [(2, 3), (3,), (2, 1)], [(), (2, 3), (4, 1, 1), (1,)]]
    ),
    *(
        Case("Mean", [normal(*shape) for shape in shapes])
        for shapes in [[(2, 3)], [(2, 3), (2, 3)], [(2, 3), (3,), (2, 1)]]
    ),
    Case(
        "Mean",
        [normal(), normal(2, 3), normal(4, 1, 1), normal(1)],
        forward=lambda *xs: sum(xs) / len(xs),
        gradient_dtype="float32",  # the reference evaluator cannot broadcast its first operand
    ),
    # the remainder of a division
    Case(
        "Mod",
        [exactly([5.3, -5.3, 5.3, -5.3, 0.7]), exactly([2.0, 2.0, -2.0, -2.0, 3.0])],
        {"fmod": 1},
        fan_out=False,
    ),
    Case("Mod", [exactly([[5.3, -7.1, 0.4]]), exactly([[2.2], [-3.0]])], {"fmod": 1}, note="broadcast"),
    Case(
        "Mod",
        [exactly([6.0, -6.0]), exactly([2.0, 4.0])],
        {"fmod": 1},
        note="at a jump",
        expected=[[1, 1], [-3, 1]],
    ),
]
