"""Rows of running products."""

from tests.onnx.rules.table import Case, away_from_zero, constant, exactly, run_time

_FORMS = ({}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1})
_ZEROS = [[1.5, 0.0, -0.7, 2.0, 1.2], [0.0, 1.1, 0.9, 0.0, -2.0], [0.4, -1.3, 0.8, 1.7, 0.6]]

CASES = [
    *(
        Case("CumProd", [away_from_zero(5, 4), constant(axis)], attributes, note=f"axis {axis}", opset=26)
        for axis in (0, -1)
        for attributes in _FORMS
    ),
    # No zero, one, or two among the factors: nothing may be divided by them.
    *(
        Case("CumProd", [exactly(_ZEROS), constant(1)], attributes, note="zeros", opset=26)
        for attributes in _FORMS
    ),
    *(
        Case("CumProd", [exactly(_ZEROS), run_time(-2)], attributes, note="axis at run time", opset=26)
        for attributes in _FORMS
    ),
    Case("CumProd", [away_from_zero(2, 3, 2), constant(1, "int32")], {"reverse": 1}, opset=26),
    Case("CumProd", [away_from_zero(1, 3), constant(0)], {"exclusive": 0}, note="axis of size 1", opset=26),
    Case("CumProd", [away_from_zero(4), constant(0)], note="vector", opset=26),
    Case("CumProd", [away_from_zero(0, 3), constant(1)], note="empty", opset=26),
    Case("CumProd", [away_from_zero(3, 0), constant(1)], {"exclusive": 1}, note="empty axis", opset=26),
]
