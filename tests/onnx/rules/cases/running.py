"""Rows of running sums and arithmetic sequences."""

from tests.onnx.rules.table import Case, constant, exactly, normal, run_time

CASES = [
    *(
        Case("CumSum", [normal(3, 4), constant(axis)], attributes, note=f"axis {axis}")
        for axis in (0, -1)
        for attributes in ({}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1})
    ),
    Case("CumSum", [normal(2, 3, 2), run_time([1])], {"reverse": 1}, note="axis at run time"),
    Case("CumSum", [normal(1, 3), constant(0)], note="axis of size 1"),
    Case("CumSum", [normal(0, 3), constant(1)], note="empty"),
    Case("Range", [exactly(0.5), exactly(2.75), exactly(0.5)], fan_out=False),
    Case("Range", [exactly(2.0), exactly(-1.25), exactly(-0.75)], fan_out=False, note="downwards"),
    Case("Range", [exactly(2.0), constant(4.2, "float64"), constant(1.0, "float64")], note="constant limit"),
    Case("Range", [exactly(2.0), exactly(1.0), exactly(1.0)], note="empty", expected=[0, 0, 0]),
]
