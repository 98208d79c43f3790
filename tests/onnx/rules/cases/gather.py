"""Rows of operators that pick elements by index."""

import numpy as np

from tests.onnx.rules.table import Case, constant, distinct, exactly, normal, run_time


def one_hot(axis: int) -> object:
    """OneHot in float64, for which ONNX Runtime has no kernel."""

    def forward(indices: np.ndarray, depth: np.ndarray, values: np.ndarray) -> np.ndarray:
        count = int(depth)
        inside = (indices >= -count) & (indices < count)
        hot = (indices[..., None] % count == np.arange(count)) & inside[..., None]
        return np.moveaxis(np.where(hot, values[1], values[0]), -1, axis)

    return forward


CASES = [
    # ---- Gather --------------------------------------------------------------------------------------
    Case("Gather", [normal(4, 3), constant([2, 0])]),
    Case("Gather", [normal(4, 3), constant([1, 2])], note="neighbours"),
    Case("Gather", [normal(4, 3), constant([3, 1, 0, 2])], note="a permutation"),
    Case("Gather", [normal(2, 3), constant([-1, 2, -3])], {"axis": -1}, note="negative indices that repeat"),
    Case("Gather", [normal(2, 3), run_time([-1, 2, -3])], {"axis": -1}, note="negative indices at run time"),
    Case("Gather", [normal(3, 2), constant([1] * 7 + [0])], note="many equal"),
    Case("Gather", [normal(2, 3, 4), constant([[0, 2, 2], [1, 1, 2]])], {"axis": 1},
         note="matrix of indices"),
    Case("Gather", [normal(2, 3, 4), run_time([[0, 2, 2], [1, 1, 2]])], {"axis": 1},
         note="matrix of indices at run time"),
    Case("Gather", [normal(5, 3), run_time([[4, 2], [4, 4], [0, -5]])], note="embedding"),
    Case("Gather", [normal(5, 3), run_time([[4, 2], [4, 4]], "int32")], note="int32"),
    Case("Gather", [normal(2, 3, 2), constant(1)], {"axis": 1}, note="one index"),
    Case("Gather", [normal(2, 3, 2), constant(-1)], {"axis": 2}, note="one negative index"),
    Case("Gather", [normal(2, 3, 2), run_time(-2)], {"axis": 1}, note="one index at run time"),
    Case("Gather", [normal(4), run_time([3, 3, 0])], note="vector"),
    Case("Gather", [normal(4), run_time(2)], note="one of a vector"),
    Case("Gather", [normal(4, 3), constant(np.zeros((2, 0)))], note="nothing"),
    Case("Gather", [normal(4, 3), run_time(np.zeros((0, 2), np.int64))], note="nothing at run time"),
    Case("Gather", [normal(4, 0), run_time([[1, 2]])], note="empty"),
    # ---- GatherElements ------------------------------------------------------------------------------
    Case("GatherElements", [normal(3, 2), constant([[0, 2], [1, 2]])], note="fewer indices than data"),
    Case("GatherElements", [normal(2, 2), constant([[0, 1, 1, -2], [1, 1, 1, 0]])], {"axis": 1},
         note="more indices than data"),
    Case("GatherElements", [normal(3, 2), run_time([[0, -1], [1, 2], [0, 0], [2, 2]])], {"axis": -2}),
    Case("GatherElements", [normal(3, 2), run_time([[1]])], note="a single index"),
    Case("GatherElements", [normal(3), run_time(np.zeros(0, np.int64))], note="nothing"),
    # ---- GatherND ------------------------------------------------------------------------------------
    Case("GatherND", [normal(3, 4), constant([[0, 1], [2, -1]])]),
    Case("GatherND", [normal(3, 4), constant([[0, 1], [2, 3], [-3, -3], [0, 1]])], note="repeated"),
    Case("GatherND", [normal(3, 4), run_time([[2], [0], [-1]])], note="rows at run time"),
    Case("GatherND", [normal(3, 2, 4), run_time([[[0, 1]], [[2, 0]], [[-3, -1]]])], note="pairs at run time"),
    Case("GatherND", [normal(2, 3, 4), run_time([0, -1, 2])], note="one element"),
    Case("GatherND", [normal(2, 3, 4), constant([[1], [-1]])], {"batch_dims": 1}),
    Case("GatherND", [normal(2, 3, 4), run_time([[[1, 0], [1, 0]], [[-1, 3], [2, -1]]])], {"batch_dims": 1},
         note="pairs at run time"),
    Case("GatherND", [normal(2, 3, 4), run_time([[[1], [0], [-1]], [[3], [3], [2]]])], {"batch_dims": 2}),
    Case("GatherND", [normal(3, 4), run_time(np.zeros((0, 2), np.int64))], note="nothing"),
    # ---- TopK ----------------------------------------------------------------------------------------
    Case("TopK", [distinct(3, 4), constant([2])], outputs=2),
    Case("TopK", [distinct(3, 4), run_time([3])], {"axis": 0, "largest": 0}, outputs=2),
    Case("TopK", [distinct(2, 5, 2), constant([3])], {"axis": 1, "sorted": 0}, outputs=2),
    Case("TopK", [distinct(3, 4), constant([4])], {"axis": -1, "largest": 0}, outputs=2, note="all of them"),
    Case("TopK", [exactly([[2.0, 5.0, 5.0, 5.0]]), constant([2])], outputs=2, note="ties",
         expected=[[[0.0, 1.0, 1.0, 0.0]]]),
    # ---- Unique --------------------------------------------------------------------------------------
    Case("Unique", [distinct(2, 3)], outputs=4),
    Case("Unique", [distinct(5)], {"sorted": 0}, outputs=("y0", "", "y2")),
    Case("Unique", [distinct(4, 3)], {"axis": 0}),
    Case("Unique", [distinct(2, 4, 3)], {"axis": -2, "sorted": 0}, outputs=2),
    Case("Unique", [exactly([2.0, 1.0, 1.0, 3.0, 2.0])], note="equal entries", expected=[[1, 1, 0, 1, 0]]),
    Case("Unique", [exactly([[2.0, 1.0], [0.0, 3.0], [2.0, 1.0]])], {"axis": 0}, note="equal entries",
         expected=[[[1, 1], [1, 1], [0, 0]]]),
    # ---- OneHot --------------------------------------------------------------------------------------
    *(
        Case("OneHot", [run_time([1, 0, -1, 3, 7]), constant(4), normal(2)], {"axis": axis},
             forward=one_hot(axis), note="an index out of range")
        for axis in (-1, 0)
    ),
    Case("OneHot", [constant([[1, 0], [2, 2]]), run_time(3), normal(2)], {"axis": 1},
         forward=one_hot(1), note="depth at run time"),
]  # fmt: skip
