"""Rows of reductions."""

import numpy as np

from tests.onnx.rules.table import (
    Case,
    Tensor,
    away_from_zero,
    constant,
    distinct,
    exactly,
    normal,
    positive,
    run_time,
)

# How each reduction's input is drawn: ReduceLogSum needs a positive sum, the extrema no ties, L1 no zero.
INPUT = {
    "ReduceSum": normal,
    "ReduceMean": normal,
    "ReduceMax": distinct,
    "ReduceMin": distinct,
    "ReduceL1": away_from_zero,
    "ReduceL2": normal,
    "ReduceLogSum": positive,
    "ReduceLogSumExp": normal,
    "ReduceProd": normal,
    "ReduceSumSquare": normal,
}

# Shape, axes, attributes: each form that a reduction has.
FORMS: list[tuple[tuple[int, ...], Tensor | None, dict[str, int]]] = [
    ((2, 3), None, {}),
    ((2, 3), None, {"keepdims": 0}),
    ((3, 2), None, {"noop_with_empty_axes": 1}),
    ((2, 3), constant([]), {"noop_with_empty_axes": 1}),
    ((2, 3, 2), constant([-2]), {"keepdims": 0}),
    ((2, 3, 4), constant([-1, 0]), {"keepdims": 0}),
    ((4, 1, 3), constant([1, 2]), {"keepdims": 1}),
    ((2, 3, 2), run_time([-2]), {"keepdims": 0}),
    ((2, 3, 2), run_time([0, -1]), {"keepdims": 1}),
    ((2, 3), run_time([]), {"keepdims": 0}),
    ((2, 3), run_time([]), {"noop_with_empty_axes": 1}),
    ((), None, {}),
]


def _note(axes: Tensor | None) -> str:
    if axes is None:
        return "no axes"
    values = axes.draw(np.random.default_rng(0)).tolist()
    return f"axes {values}{' at run time' if axes.fed else ''}".replace(" ", "")


def _row(op: str, shape: tuple[int, ...], axes: Tensor | None, attributes: dict[str, int]) -> Case:
    inputs = [INPUT[op](*shape), *([] if axes is None else [axes])]
    return Case(op, inputs, attributes, note=_note(axes), fan_out=False)


EMPTY = exactly(np.zeros((2, 0, 3)))
NOTHING = np.zeros((2, 0, 3))

CASES = [
    *(_row(op, *form) for op in INPUT for form in FORMS),
    # Tensors without elements: nothing to differentiate, but shape and type have to be right.
    *(
        Case(
            op,
            [EMPTY, constant([axis])],
            {"keepdims": keepdims},
            note=f"empty, axis {axis}",
            expected=[NOTHING],
        )
        for op in INPUT
        for axis, keepdims in ((1, 0), (1, 1), (0, 0))
        # A maximum over no elements does not exist; over a batch of two it has no elements either.
        if not (op in ("ReduceMax", "ReduceMin") and axis == 1)
    ),
    # Ties share.
    Case(
        "ReduceMax",
        [exactly([[2.0, 7.0, 7.0], [1.0, 1.0, 1.0]]), constant([1])],
        note="ties",
        expected=[[[0.0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3]]],
    ),
    Case(
        "ReduceMin",
        [exactly([[2.0, 7.0], [2.0, 1.0]])],
        {"keepdims": 0},
        note="one least",
        expected=[[[0.0, 0.0], [0.0, 1.0]]],
    ),
    Case(
        "ReduceMin",
        [exactly([[1.0, 7.0], [2.0, 1.0]]), constant([-1, -2])],
        note="ties",
        expected=[[[0.5, 0.0], [0.0, 0.5]]],
    ),
    # Corners of norms.
    Case("ReduceL1", [exactly([[0.0, -2.0, 3.0]])], note="a zero", expected=[[[0.0, -1.0, 1.0]]]),
    Case(
        "ReduceL2",
        [exactly([[0.0, 0.0], [3.0, -4.0]]), constant([1])],
        note="zero vector",
        expected=[[[0.0, 0.0], [0.6, -0.8]]],
    ),
    # Scores whose exponentials overflow; a row that is masked altogether.
    Case(
        "ReduceLogSumExp",
        [exactly([[1000.0, 999.5, 998.0], [-1000.0, -1000.5, -999.0]]), constant([1])],
        note="scores near 1000",
    ),
    Case(
        "ReduceLogSumExp",
        [exactly([[-np.inf, -np.inf], [0.5, -np.inf]]), constant([1])],
        note="masked",
        expected=[[[0.0, 0.0], [1.0, 0.0]]],
    ),
    # Zeros among the factors: none, one, two, three, and a longer line.
    Case(
        "ReduceProd",
        [exactly([[2.0, 3.0, 4.0], [5.0, 0.0, 7.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]]), constant([-1])],
        note="zeros",
    ),
    Case(
        "ReduceProd",
        [exactly([[2.0, 0.0, -1.5], [0.5, 3.0, 4.0]])],
        {"keepdims": 0},
        note="one zero, all axes",
    ),
    Case(
        "ReduceProd",
        [exactly([[2.0, 0.0, -1.5], [0.5, 0.0, 4.0]]), run_time([1])],
        note="a zero in each, run time",
    ),
    Case("ReduceProd", [positive(2, 11), constant([1])], note="eleven factors"),
    Case("ReduceProd", [positive(2, 3), constant([0])], note="two factors"),
    Case("ReduceProd", [exactly([1.5, 0.0, -0.5, 2.0, 0.75, 1.25, -1.5])], note="seven factors, one zero"),
]
