"""Rows of elementwise arithmetic and elementary functions."""

from tests.onnx.rules.table import Case, away_from_zero, normal, positive

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

CASES = [
    *(Case(op, [normal(*a), normal(*b)]) for op in ("Add", "Sub", "Mul") for a, b in SHAPES),
    *(Case("Div", [normal(*a), away_from_zero(*b)], fan_out=False) for a, b in SHAPES),
    Case("Neg", [normal(2, 3)]),
    Case("Exp", [normal(2, 3)]),
    Case("Log", [positive(2, 3)]),
    Case("Sqrt", [positive(2, 3)]),
    Case("Sin", [normal(2, 3)]),
    Case("Cos", [normal(2, 3)]),
]
