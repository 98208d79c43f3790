"""Rows of Det; singular matrices are among them, where the gradient is that of a polynomial all the same."""

from tests.onnx.rules.table import Case, exactly, normal

_RANK_2 = [[1.0, 2.0, -1.0], [0.5, 1.0, 3.0], [1.5, 3.0, 2.0]]
_RANK_1 = [[1.0, 2.0, -1.0], [2.0, 4.0, -2.0], [-0.5, -1.0, 0.5]]

CASES = [
    Case("Det", [normal(3, 3)]),
    Case("Det", [normal(2, 2, 2)]),
    Case("Det", [normal(2, 1, 3, 3)], note="two batch axes"),
    Case("Det", [normal(2, 1, 1)], note="one by one"),
    Case("Det", [normal(4, 4)], second_order=False, note="second order is tried on smaller ones"),
    Case("Det", [exactly(_RANK_2)], note="singular"),
    Case("Det", [exactly([_RANK_1, _RANK_2])], note="rank 1", second_order=True),
    Case("Det", [normal(0, 3, 3)], note="empty batch"),
]
