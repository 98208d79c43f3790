"""Rows of Concat and Split."""

from tests.onnx.rules.table import Case, constant, normal, run_time

CASES = [
    Case("Concat", [normal(2, 3), normal(1, 3)], {"axis": 0}),
    Case("Concat", [normal(2, 3), normal(2, 3)], {"axis": 1}, note="equal parts"),
    Case("Concat", [normal(2, 3, 2), normal(2, 1, 2), normal(2, 4, 2)], {"axis": -2}),
    Case("Concat", [normal(2, 3), normal(2, 1)], {"axis": -1}),
    Case("Concat", [normal(2, 3)], {"axis": 0}, note="a single part"),
    Case("Concat", [normal(2, 3), normal(1, 3), normal(2, 3)], {"axis": 0}, note="one wanted", wrt=[1]),
    Case("Concat", [normal(2, 3), normal(1, 3), normal(2, 3)], {"axis": 0}, note="two wanted", wrt=[0, 2]),
    Case("Concat", [normal(2, 3), normal(0, 3), normal(1, 3)], {"axis": 0}, note="an empty part"),
    Case(
        "Split",
        [normal(2, 1, 6), constant([1, 5])],
        {"axis": -1},
        "a negative axis, one output unread",
        outputs=2,
        of=[1],
    ),
    Case("Split", [normal(2, 6)], {"axis": 1, "num_outputs": 3}, outputs=3),
    Case("Split", [normal(7, 2)], {"num_outputs": 3}, outputs=3, note="a smaller last part"),
    Case("Split", [normal(6, 2), constant([1, 3, 2])], outputs=3),
    Case("Split", [normal(2, 6), constant([1, 3, 2])], {"axis": -1}, outputs=3),
    Case("Split", [normal(2, 6), run_time([3, 1, 2])], {"axis": 1}, outputs=3, note="sizes at run time"),
    Case("Split", [normal(2, 6), constant([6])], {"axis": 1}, note="a single part"),
    Case("Split", [normal(2, 6), constant([1, 3, 2])], {"axis": 1}, outputs=3, of=[1], note="middle used"),
    Case("Split", [normal(2, 6), constant([1, 3, 2])], {"axis": 1}, outputs=3, of=[0, 2], note="ends used"),
    Case("Split", [normal(2, 6), constant([1, 3, 2])], {"axis": 1}, outputs=3, of=[2], note="last used"),
    Case(
        "Split",
        [normal(2, 6), run_time([3, 1, 2])],
        {"axis": -1},
        outputs=3,
        of=[1],
        note="middle used, sizes at run time",
    ),
    Case("Split", [normal(2, 6), constant([0, 4, 2])], {"axis": 1}, outputs=3, note="an empty part"),
]
