"""Rows of Softmax and LogSoftmax."""

from tests.onnx.rules.table import Case, exactly, normal

# Scores whose exponentials overflow and underflow in every element type.
HUGE = [[1000.0, -1000.0, 0.0], [0.5, 0.25, -900.0]]
TIED = [[1000.0, 999.5, 1000.25], [-1000.0, -999.5, -1000.5]]

CASES = [
    *(
        Case(op, [normal(2, 3, 4)], {"axis": axis})
        for op in ("Softmax", "LogSoftmax")
        for axis in (0, 1, 2, -1, -2, -3)
    ),
    *(Case(op, [normal(3, 2)], note="axis left out") for op in ("Softmax", "LogSoftmax")),
    *(Case(op, [normal(5)], {"axis": 0}) for op in ("Softmax", "LogSoftmax")),
    *(Case(op, [exactly(TIED)], note="scores near 1000") for op in ("Softmax", "LogSoftmax")),
    Case("LogSoftmax", [exactly(HUGE)], note="scores from -1000 to 1000"),
    *(Case(op, [normal(4, 1)], note="one class", expected=[[[0.0]] * 4]) for op in ("Softmax", "LogSoftmax")),
    *(
        Case(op, [normal(0, 3)], note="no rows", expected=[exactly([]).draw(None).reshape(0, 3)])
        for op in ("Softmax", "LogSoftmax")
    ),
]
