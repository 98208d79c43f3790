"""Rows of operators that choose, bound, mask or convert."""

import numpy as np
from onnx import TensorProto

from tests.onnx.rules.table import Case, constant, distinct, exactly, normal, run_time, uniform

C23 = np.array([[True, False, True], [False, True, True]])

CASES = [
    Case("Identity", [normal(2, 3)]),
    Case("Identity", [normal()]),
    Case("Cast", [normal(2, 3)], {"to": TensorProto.DOUBLE}),
    Case("CastLike", [normal(2, 3), constant(0.0, np.float64)], wrt=[0]),
    # Where
    Case("Where", [run_time(C23, bool), normal(2, 3), normal(2, 3)]),
    Case("Where", [constant(C23, bool), normal(2, 3), normal(2, 3)], note="constant condition"),
    Case("Where", [run_time(C23, bool), normal(), normal(3)], note="broadcast operands"),
    Case(
        "Where", [run_time([[True], [False]], bool), normal(2, 3), normal(1, 3)], note="broadcast condition"
    ),
    Case("Where", [run_time(True, bool), normal(2, 3), normal(2, 1)], note="scalar condition"),
    Case("Where", [run_time(C23, bool), normal(4, 1, 1), normal(1)], note="all broadcast"),
    Case("Where", [run_time(C23, bool), normal(2, 3), constant(-20.0, np.float64)], wrt=[1], note="mask"),
    Case("Where", [run_time(np.zeros((0, 3)), bool), normal(0, 3), normal(3)], note="empty"),
    # Max, Min
    *(Case(op, [distinct(2, 3)]) for op in ("Max", "Min")),
    *(
        Case(op, [uniform(-1, 0.9, 2, 3), uniform(-0.95, 1, 2, 3)], note="two", fan_out=False)
        for op in ("Max", "Min")
    ),
    *(
        Case(
            op,
            [exactly([[1.0, -2.0, 0.5]]), exactly([[0.8], [-1.0]]), exactly(0.2), exactly([3.0, 0.1, -4.0])],
        )
        for op in ("Max", "Min")
    ),
    Case("Max", [distinct(2, 3), constant(0.0, np.float64)], note="with a constant"),
    Case("Max", [constant(0.0, np.float64), distinct(2, 3)], note="after a constant"),
    Case("Max", [normal(0, 3), normal(3)], note="empty"),
    Case(
        "Max",
        [exactly([1.0, 2.0, 3.0]), exactly([1.0, 3.0, 2.0]), exactly([1.0, 3.0, 3.0])],
        note="ties",
        expected=[[1, 0, 1], [0, 1, 0], [0, 0, 0]],
    ),
    Case(
        "Min",
        [exactly([1.0, 2.0, 2.0]), exactly([1.0, 3.0, 2.0])],
        note="ties",
        expected=[[1, 1, 1], [0, 0, 0]],
    ),
    Case(
        "Max",
        [exactly([[-1.0, 0.0, 1.0], [0.0, 2.0, 0.0]]), exactly(0.0)],
        note="ties with a scalar",
        expected=[[[0, 1, 1], [1, 1, 1]], 1],
    ),
    # Clip
    Case("Clip", [distinct(2, 3)], note="no bounds"),
    Case(
        "Clip", [distinct(3, 4), constant(-0.35, np.float64), constant(0.35, np.float64)], note="both bounds"
    ),
    Case("Clip", [distinct(3, 4), constant(-0.35, np.float64)], note="lower bound"),
    Case("Clip", [distinct(3, 4), None, constant(0.35, np.float64)], note="upper bound"),
    Case("Clip", [distinct(3, 4), exactly(-0.35), exactly(0.35)], note="bounds differentiated"),
    Case("Clip", [distinct(3, 4), exactly(-0.35)], note="lower bound differentiated"),
    Case("Clip", [distinct(3, 4), None, exactly(0.35)], note="upper bound differentiated"),
    Case(
        "Clip",
        [distinct(3, 4), exactly(0.3), exactly(-0.2)],
        note="bounds crossed",
        forward=lambda x, low, high: np.minimum(np.maximum(x, low), high),
    ),
    Case(
        "Clip",
        [exactly([-2.0, -1.0, 0.0, 1.0, 2.0]), exactly(-1.0), exactly(1.0)],
        note="at the bounds",
        expected=[[0, 1, 1, 1, 0], 1, 1],
    ),
    Case(
        "Clip",
        [exactly([-2.0, 1.0, 2.0]), exactly(1.0), exactly(1.0)],
        note="equal bounds",
        expected=[[0, 1, 0], 1, 1],
    ),
    # Dropout that drops nothing
    Case("Dropout", [normal(2, 3)], note="inference"),
    Case("Dropout", [normal(2, 3)], {"seed": 3}, outputs=2, note="inference with mask"),
    Case("Dropout", [normal(2, 3), constant(0.25, np.float32)], note="inference with a ratio"),
    Case("Dropout", [normal(2, 3), constant(0.25, np.float32), constant(False, bool)], note="not training"),
    Case(
        "Dropout",
        [normal(2, 3), constant(0.25, np.float32), run_time(False, bool)],
        note="not training, known at run time",
    ),
    Case(
        "Dropout", [normal(2, 3), constant(0.0, np.float32), constant(True, bool)], note="training, ratio 0"
    ),
    Case(
        "Dropout",
        [normal(2, 3), run_time(0.0, np.float32), constant(True, bool)],
        note="training, ratio 0 known at run time",
    ),
]
