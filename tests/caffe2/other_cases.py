"""Rows for operators without a gradient: keys, classes, lengths and counts; and for some that are rare."""

from __future__ import annotations

import numpy as np

from tests.caffe2.operator_cases import Array, Case, apart, normal, positive, sigmoid
from tests.caffe2.segment_cases import LENGTHS, ids_of

STARTS = np.array([0, 2, 2, 5])
MASK = np.array([True, False, False, True, False])


def fixed(net: str, blobs: dict[str, Array], **outputs: object) -> Case:
    """A row of an operator of few integers, whose outputs can be read off its description."""
    return Case(net, blobs, lambda g: {name: np.asarray(value) for name, value in outputs.items()}, ())


def top(values: Array, lengths: Array, count: int) -> dict[str, Array]:
    found, places = np.zeros((len(lengths), count)), np.full((len(lengths), count), -1)
    for segment in range(len(lengths)):
        rows = values[ids_of(lengths) == segment]
        order = np.argsort(-rows)[:count]
        found[segment, : len(order)], places[segment, : len(order)] = rows[order], order
    return {"y": found, "i": places}


ENCODED = [
    fixed(
        "OneHot(i,n)->(y)",
        {"i": np.array([2, 0], np.int64), "n": np.array([3], np.int64)},
        y=[[False, False, True], [True, False, False]],
    ),
    fixed(
        "SegmentOneHot(l,i,n)->(y)",
        {"l": np.array([2, 0, 1], np.int32), "i": np.array([2, 0, 1]), "n": np.array([3], np.int64)},
        y=[[True, False, True], [False, False, False], [False, True, False]],
    ),
    fixed(
        "BatchOneHot(x,l,v)->(y)",
        {
            "x": np.array([[2, 1], [3, 5]], np.int64),
            "l": np.array([2, 1], np.int32),
            "v": np.array([2, 3, 5], np.int64),
        },
        y=[[1, 0, 0], [0, 1, 1]],
    ),
    fixed(
        "IsMemberOf(x)->(y) {value=[3,7]}",
        {"x": np.array([[3, 4], [7, 0]], np.int64)},
        y=[[True, False], [True, False]],
    ),
    fixed(
        "Find(i,q)->(y) {missing_value=-5}",
        {"i": np.array([4, 2, 4], np.int64), "q": np.array([[2, 4], [9, 2]], np.int64)},
        y=[[1, 2], [-5, 1]],
    ),
    fixed(
        "MultiClassAccuracy(x,t)->(y,n)",
        {
            "x": np.array([[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.8, 0.1, 0.1]]),
            "t": np.array([0, 1, 1], np.int32),
        },
        y=[1.0, 0.5, 0.0],
        n=[1, 2, 0],
    ),
    Case(
        "Perplexity(x)->(y)", {"x": positive(5)}, lambda g: {"y": np.prod(g["x"]) ** (-1 / len(g["x"]))}, ()
    ),
]

COUNTS = [
    fixed("Range(n)->(y)", {"n": np.array([4], np.int32)}, y=[0, 1, 2, 3]),
    fixed(
        "Range(a,n,s)->(y)",
        {"a": np.array([1.0]), "n": np.array([2.0]), "s": np.array([0.25])},
        y=[1.0, 1.25, 1.5, 1.75],
    ),
    fixed("DiagonalFill()->(y) {shape=[2,3],value=2.5}", {}, y=[[2.5, 0, 0], [0, 2.5, 0]]),
    fixed("Float16ConstantFill()->(y) {shape=[2],value=0.5}", {}, y=[0.5, 0.5]),
    fixed("IsEmpty(x)->(y)", {"x": normal(2, 0)}, y=True),
    fixed("HasElements(x,w)->(y)", {"x": normal(2, 0), "w": normal(1)}, y=True),
    fixed(
        "SumInt(x,w,x)->(y)", {"x": np.array([1, 2], np.int32), "w": np.array([5, 6], np.int32)}, y=[7, 10]
    ),
    fixed("SumElementsInt(x)->(y)", {"x": np.array([[1, 2], [3, 4]], np.int32)}, y=10),
]

OF_LENGTHS = [
    Case("LengthsToRanges(n)->(y)", {"n": LENGTHS}, lambda g: {"y": np.stack([STARTS, g["n"]], 1)}, ()),
    Case(
        "SegmentIdsToRanges(s)->(y)",
        {"s": ids_of(LENGTHS)},
        lambda g: {"y": np.stack([STARTS, LENGTHS], 1)},
        (),
    ),
    Case(
        "LengthsToWeights(n)->(y) {power=2.0}",
        {"n": LENGTHS},
        lambda g: {"y": np.repeat(LENGTHS, LENGTHS) ** -2.0},
        (),
    ),
    Case(
        "SegmentIdsToLengthWeights(s)->(y)",
        {"s": ids_of(LENGTHS)},
        lambda g: {"y": np.repeat(LENGTHS, LENGTHS) ** -0.5},
        (),
    ),
    fixed("LengthsToShape(n)->(y)", {"n": np.array([4, 4, 4], np.int32)}, y=[3, 4]),
    Case(
        "LengthsGather(x,n,i)->(y)",
        {"x": normal(6, 2), "n": LENGTHS, "i": np.array([2, 1, 2, 0], np.int32)},
        lambda g: {"y": g["x"][[2, 3, 4, 2, 3, 4, 0, 1]]},
        (),
    ),
    Case("LengthsTopK(x,n)->(y,i) {k=2}", {"x": apart(6), "n": LENGTHS}, lambda g: top(g["x"], g["n"], 2)),
]

CHOSEN = [
    Case(
        "Conditional(c,x,w)->(y)",
        {"c": MASK, "x": normal(5, 2), "w": normal(5, 2)},
        lambda g: {"y": np.where(g["c"][:, None], g["x"], g["w"])},
        (),
    ),
    Case(
        "BooleanUnmask(m,x,o,w)->(y)",
        {"m": MASK, "x": normal(2), "o": ~MASK, "w": normal(3)},
        lambda g: {"y": np.array([g["x"][0], g["w"][0], g["w"][1], g["x"][1], g["w"][2]])},
        (),
    ),
    Case(
        "ScatterAssign(x,i,w)->(x)",
        {"x": normal(4, 2), "i": np.array([2, 0], np.int32), "w": normal(2, 2)},
        lambda g: {"x": np.stack([g["w"][1], g["x"][1], g["w"][0], g["x"][3]])},
        (),
    ),
]

ELEMENTWISE = [
    *(
        Case(
            f"ClipTensorByScaling(x,n,f)->(y) {{threshold={threshold}}}",
            {"x": normal(3), "n": np.array([2.0]), "f": np.array([0.5])},
            lambda g, threshold=threshold: {"y": g["x"] * min(1, 0.5 * threshold / 2)},
            (),
        )
        for threshold in (3.0, 5.0)
    ),
    Case(
        "Glu(x)->(y) {dim=1}",
        {"x": normal(2, 6, 2)},
        lambda g: {"y": g["x"][:, :3] * sigmoid(g["x"][:, 3:])},
        (),
    ),
    fixed("ReplaceNaN(x)->(y) {value=7.0}", {"x": np.array([1.0, np.nan])}, y=[1.0, 7.0]),
    Case(
        "BatchBoxCox(x,a,b)->(y)",
        {"x": positive(3, 2), "a": np.array([0.0, 2.0]), "b": np.array([0.5, 0.25])},
        lambda g: {
            "y": np.stack([np.log(g["x"][:, 0] + 0.5), ((g["x"][:, 1] + 0.25) ** 2 - 1) / 2], 1),
        },
        (),
    ),
]

OTHERS = [*ENCODED, *COUNTS, *OF_LENGTHS, *CHOSEN, *ELEMENTWISE]
