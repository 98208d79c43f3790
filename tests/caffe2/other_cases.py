"""Rows for operators without a gradient: keys, classes, lengths and counts; and for some that are rare."""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.caffe2.operator_cases import Array, Blobs, Case, apart, normal, positive, sigmoid
from tests.caffe2.segment_cases import LENGTHS, ids_of

STARTS = np.array([0, 2, 2, 5])
MASK = np.array([True, False, False, True, False])


def fixed(net: str, blobs: dict[str, Array], **outputs: object) -> Case:
    """A row of an operator of few integers, whose outputs can be read off its description."""
    return Case(net, blobs, lambda g: {name: np.asarray(value) for name, value in outputs.items()}, ())


def scattered(g: Blobs, axis: int) -> dict[str, Array]:
    """A copy of x with the elements of w at places i along an axis."""
    y = g["x"].copy()
    for place in np.ndindex(g["i"].shape):
        at = list(place)
        at[axis] = g["i"][place]
        y[tuple(at)] = g["w"][place]
    return {"y": y}


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
        y=[[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
    ),
    fixed(
        "SegmentOneHot(l,i,n)->(y)",
        {"l": np.array([2, 0, 1], np.int32), "i": np.array([2, 0, 1]), "n": np.array([3], np.int64)},
        y=[[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
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
    fixed(
        "DiagonalFill(x)->(y) {value=2}",
        {"x": normal(2, 2, 2)},
        y=[[[2, 0], [0, 0]], [[0, 0], [0, 2]]],
    ),
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
    Case(
        "LengthsTopK(x,n)->(y,i) {k=2}",
        {"x": apart(0), "n": np.zeros(3, np.int32)},
        lambda g: {"y": np.zeros((3, 2)), "i": np.full((3, 2), -1)},
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
    *(
        Case(
            f"Scatter(x,i,w)->(y) {arguments}".strip(),
            {"x": normal(3, 4), "i": np.array(places), "w": normal(3, 2)},
            partial(scattered, axis=axis),
            (),
        )
        for arguments, axis, places in (
            ("", 1, [[0, 3], [1, 2], [3, 0]]),
            ("{axis=0}", 0, [[0, 2], [1, 1], [2, 0]]),
            ("{axis=-1}", 1, [[2, 1], [0, 3], [1, 0]]),
        )
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

# ---- operators that are rare -------------------------------------------------------------------------


def padded(x: Array, lengths: Array, before: int, behind: int, first: Array, last: Array) -> Array:
    parts, start = [], 0
    for count in lengths:
        parts += [first[None]] * before + [x[start : start + count]] + [last[None]] * behind
        start += count
    return np.concatenate(parts)


def without_padding(x: Array, lengths: Array, before: int, behind: int) -> Array:
    parts, start = [], 0
    for count in lengths:
        parts.append(x[start + before : start + count - behind])
        start += count
    return np.concatenate(parts)


def steps(x: Array, lengths: Array) -> Array:
    """Rows of each sequence as a batch with the steps in front."""
    batch = np.zeros((lengths.max(), len(lengths), *x.shape[1:]))
    start = 0
    for sequence, count in enumerate(lengths):
        batch[:count, sequence] = x[start : start + count]
        start += count
    return batch


def reversed_steps(x: Array, lengths: Array) -> Array:
    result = x.copy()
    for sequence, count in enumerate(lengths):
        result[:count, sequence] = x[:count, sequence][::-1]
    return result


def in_batch(x: Array, size: int) -> Array:
    """The image of every place in a block, row by row."""
    return np.concatenate([x[:, :, i::size, j::size] for i in range(size) for j in range(size)])


def out_of_batch(x: Array, size: int) -> Array:
    images = np.split(x, size * size)
    n, channels, height, width = images[0].shape
    result = np.zeros((n, channels, height * size, width * size))
    for number, image in enumerate(images):
        result[:, :, number // size :: size, number % size :: size] = image
    return result


def sparse(g: Blobs, width: int, default: float) -> Array:
    dense = np.full((len(g["n"]), width), default)
    dense[ids_of(g["n"]), g["i"]] = g["x"]
    return dense


def entropy(p: Array) -> Array:
    return -(p * np.log(p) + (1 - p) * np.log(1 - p))


COLUMNS = np.array([1, 0, 2, 3, 1, 2], np.int32)
CHANCES = {"x": sigmoid(normal(4)), "t": sigmoid(normal(4))}

RARE = [
    Case(
        "AddPadding(x,n,a,b)->(y,m) {padding_width=2,end_padding_width=1}",
        {"x": normal(6, 2), "n": LENGTHS, "a": normal(2), "b": normal(2)},
        lambda g: {"y": padded(g["x"], g["n"], 2, 1, g["a"], g["b"]), "m": g["n"] + 3},
        ("x", "a", "b"),
    ),
    Case(
        "AddPadding(x,n,a)->(y,m)",
        {"x": normal(6, 2), "n": LENGTHS, "a": normal(2)},
        lambda g: {"y": padded(g["x"], g["n"], 1, 1, g["a"], g["a"])},
        ("x", "a"),
    ),
    Case(
        "AddPadding(x)->(y) {padding_width=2}",
        {"x": normal(3, 2)},
        lambda g: {"y": padded(g["x"], np.array([3]), 2, 2, np.zeros(2), np.zeros(2))},
    ),
    Case(
        "RemovePadding(x,n)->(y,m) {end_padding_width=0}",
        {"x": normal(6, 2), "n": np.array([2, 1, 3], np.int32)},
        lambda g: {"y": without_padding(g["x"], g["n"], 1, 0), "m": g["n"] - 1},
    ),
    Case(
        "GatherPadding(x,n)->(a,b) {padding_width=1}",
        {"x": normal(6, 2), "n": np.array([2, 4], np.int32)},
        lambda g: {"a": g["x"][0] + g["x"][2], "b": g["x"][1] + g["x"][5]},
        (),
    ),
    Case(
        "PackRNNSequence(x,n)->(y)",
        {"x": normal(6, 2), "n": LENGTHS},
        lambda g: {"y": steps(g["x"], g["n"])},
    ),
    Case(
        "UnpackRNNSequence(x,n)->(y)",
        {"x": normal(3, 4, 2), "n": LENGTHS},
        lambda g: {"y": np.concatenate([g["x"][:count, k] for k, count in enumerate(g["n"])])},
    ),
    Case(
        "ReversePackedSegs(x,n)->(y)",
        {"x": normal(3, 4, 2), "n": LENGTHS},
        lambda g: {"y": reversed_steps(g["x"], g["n"])},
    ),
    Case(
        "BatchPermutation(x,i)->(y)",
        {"x": normal(3, 2), "i": np.array([2, 0, 1], np.int32)},
        lambda g: {"y": g["x"][g["i"]]},
    ),
    Case(
        "SplitByLengths(x,n)->(a,y) {axis=0}",
        {"x": normal(6, 2), "n": LENGTHS},
        lambda g: {"a": g["x"][:2], "y": g["x"][2:]},
    ),
    Case(
        "SplitByLengths(x,n)->(a,y) {axis=0,use_scaling_lengths=1}",
        {"x": normal(8, 2), "n": np.array([1, 3], np.int32)},
        lambda g: {"a": g["x"][:2], "y": g["x"][2:]},
    ),
    Case(
        "SquareRootDivide(x,s)->(y)",
        {"x": normal(3, 2), "s": np.array([4.0, 0.0, 2.0])},
        lambda g: {"y": g["x"] / np.sqrt([[4.0], [1.0], [2.0]])},
    ),
    Case(
        "BatchSparseToDense(n,i,x)->(y) {dense_last_dim=4,default_value=-1.5}",
        {"n": LENGTHS, "i": COLUMNS, "x": normal(6)},
        lambda g: {"y": sparse(g, 4, -1.5)},
    ),
    Case(
        "BatchDenseToSparse(n,i,x)->(y)",
        {"n": LENGTHS, "i": COLUMNS, "x": normal(4, 5)},
        lambda g: {"y": g["x"][ids_of(g["n"]), g["i"]]},
    ),
    Case(
        "SpaceToBatch(x)->(y) {pad=1}",
        {"x": normal(2, 3, 2, 4)},
        lambda g: {"y": in_batch(np.pad(g["x"], ((0, 0), (0, 0), (1, 1), (1, 1))), 2)},
    ),
    Case(
        "BatchToSpace(x)->(y) {pad_t=1,pad_l=0,pad_b=0,pad_r=2,block_size=3}",
        {"x": normal(18, 1, 2, 2)},
        lambda g: {"y": out_of_batch(g["x"], 3)[:, :, 1:, :-2]},
    ),
    Case(
        "IntegralImage(x)->(y)",
        {"x": normal(2, 2, 3, 4)},
        lambda g: {"y": np.pad(g["x"].cumsum(2).cumsum(3), ((0, 0), (0, 0), (1, 0), (1, 0)))},
    ),
    *(
        Case(
            "BatchMoments(x)->(m,s)",
            {"x": normal(2, 3, 2, 2)},
            lambda g: {"m": g["x"].mean((0, 2, 3)), "s": (g["x"] ** 2).mean((0, 2, 3))},
            of=of,
        )
        for of in "ms"
    ),
    Case(
        "BernoulliJSD(x,t)->(y)",
        CHANCES,
        lambda g: {"y": entropy((g["x"] + g["t"]) / 2) - (entropy(g["x"]) + entropy(g["t"])) / 2},
    ),
    Case(
        "ResizeNearest3D(x)->(y) {temporal_scale=2.0,height_scale=1.0,width_scale=1.5}",
        {"x": normal(1, 2, 2, 3, 4)},
        lambda g: {"y": g["x"][:, :, [0, 0, 1, 1]][..., [0, 0, 1, 2, 2, 3]]},
    ),
    Case(
        "ReduceFrontWeightedSum(x,w)->(y) {num_reduce_dim=2}",
        {"x": normal(2, 3, 2, 2), "w": normal(6)},
        lambda g: {"y": np.tensordot(g["w"], g["x"].reshape(6, 2, 2), 1)},
    ),
]

OTHERS = [*ENCODED, *COUNTS, *OF_LENGTHS, *CHOSEN, *ELEMENTWISE, *RARE]
