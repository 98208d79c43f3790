"""Rows of ScatterElements and ScatterND."""

from tests.onnx.rules.table import Case, Tensor, away_from_zero, constant, distinct, exactly, normal, run_time

REPEATED = [[0, 1, 0], [2, -3, 0]]  # along axis 0 of a tensor with 3 rows
PAIRS = [[0, 1], [2, -1], [0, 1]]


def between(*shape: int) -> Tensor:
    """As `distinct`, and different from each of its values."""
    return Tensor(lambda rng: distinct(*shape).draw(rng) + 0.05)


CASES = [
    # ---- ScatterElements -----------------------------------------------------------------------------
    Case("ScatterElements", [normal(3, 4), constant([[0, 1], [2, -3]]), normal(2, 2)], note="distinct"),
    Case("ScatterElements", [normal(3, 4), run_time([[0, -1, 2]]), normal(1, 3)], {"axis": 1}),
    Case("ScatterElements", [normal(3, 4), run_time([[0], [1], [2]]), normal(3, 1)], {"axis": -1},
         note="negative axis"),
    Case("ScatterElements", [normal(3), constant([0, 2, 0]), normal(3)], note="the last of equal ones wins",
         fan_out=False),
    Case("ScatterElements", [normal(3), run_time([]), normal(0)], note="nothing"),
    Case("ScatterElements", [normal(3, 3), run_time(REPEATED), normal(2, 3)], {"reduction": "add"}),
    Case("ScatterElements", [normal(3, 3), constant([[0, 1], [-2, 0]]), normal(2, 2)],
         {"axis": 1, "reduction": "add"}),
    Case("ScatterElements", [normal(3, 3), run_time(REPEATED), away_from_zero(2, 3)], {"reduction": "mul"}),
    Case("ScatterElements", [normal(3, 3), constant([[0, 1], [2, -3]]), normal(2, 2)], {"reduction": "mul"},
         note="distinct"),
    Case("ScatterElements",
         [exactly([2.0, 3.0, 0.5]), constant([0, 0, 1, 2, 2]), exactly([0.0, 7.0, 0.0, 4.0, 5.0])],
         {"reduction": "mul"}, note="an update of 0"),
    Case("ScatterElements", [exactly([2.0, 3.0]), run_time([0, 0, 0, 1]), exactly([0.0, 7.0, 0.0, 4.0])],
         {"reduction": "mul"}, note="two updates of 0 at one place"),
    Case("ScatterElements", [exactly([0.0, 3.0]), constant([0, 1]), exactly([0.0, 7.0])],
         {"reduction": "mul"}, note="distinct, with zeros"),
    *(
        Case("ScatterElements", [distinct(3, 3), run_time(REPEATED), between(2, 3)], {"reduction": reduction})
        for reduction in ("max", "min")
    ),
    Case("ScatterElements",
         [exactly([4.0, 1.0, 7.0]), constant([0, 0, 1, 1, 2]), exactly([4.0, 4.0, 3.0, 3.0, 6.0])],
         {"reduction": "max"}, note="ties", expected=[[1 / 3, 0.0, 1.0], [1 / 3, 1 / 3, 0.5, 0.5, 0.0]]),
    Case("ScatterElements", [exactly([4.0, 1.0]), constant([0, 1, 1]), exactly([4.0, 2.0, 3.0])],
         {"reduction": "min"}, note="ties", expected=[[0.5, 1.0], [0.5, 0.0, 0.0]]),
    # ---- TensorScatter -------------------------------------------------------------------------------
    Case("TensorScatter", [normal(2, 4, 3), normal(2, 2, 3), run_time([1, 2])], opset=24),
    Case("TensorScatter", [normal(2, 3, 4), normal(2, 3, 2), constant([2, 0])], {"axis": -1}, opset=24),
    Case("TensorScatter", [normal(2, 4, 3), normal(2, 2, 3), run_time([3, 1])],
         {"mode": "circular"}, opset=24),
    Case("TensorScatter", [normal(2, 4, 3), normal(2, 2, 3)], {"axis": 1}, opset=24, note="no indices"),
    # ---- ScatterND -----------------------------------------------------------------------------------
    Case("ScatterND", [normal(4, 2), constant([[2], [-4]]), normal(2, 2)], note="distinct rows"),
    Case("ScatterND", [normal(3, 4), run_time([[0, 1], [2, -1]]), normal(2)], note="elements at run time"),
    Case("ScatterND", [normal(3, 2), constant([[1], [1], [-2]]), normal(3, 2)],
         note="the last of equal ones wins"),
    Case("ScatterND", [normal(2, 3, 2), run_time([[[0, 1]], [[1, -3]]]), normal(2, 1, 2)],
         note="pairs at run time"),
    Case("ScatterND", [normal(3, 4), run_time(PAIRS), normal(3)], {"reduction": "add"}),
    Case("ScatterND", [normal(3, 2), constant([[1], [1], [-2]]), normal(3, 2)], {"reduction": "add"}),
    Case("ScatterND", [normal(3, 4), run_time(PAIRS), away_from_zero(3)], {"reduction": "mul"}),
    Case("ScatterND",
         [normal(3, 2), constant([[1], [1], [-2], [0]]), exactly([[0, 1.5], [2.5, 0], [3, -1], [0, 2]])],
         {"reduction": "mul"}, note="updates of 0"),
    *(
        Case("ScatterND", [distinct(3, 2, 2), run_time([[0, 1], [2, 0], [0, -1]]), between(3, 2)],
             {"reduction": reduction})
        for reduction in ("max", "min")
    ),
    Case("ScatterND", [exactly([[4.0, 1.0]]), constant([[0], [0]]), exactly([[4.0, 2.0], [3.0, 2.0]])],
         {"reduction": "max"}, note="ties", expected=[[[0.5, 0.0]], [[0.5, 0.5], [0.0, 0.5]]]),
]  # fmt: skip
