"""Rows for operators that came later: lists, rows of tables, padded segments, categories, decoders."""

from __future__ import annotations

import numpy as np

from tests.caffe2.operator_cases import Array, Blobs, Case, away, inside, normal, positive, unary
from tests.caffe2.other_cases import fixed
from tests.caffe2.segment_cases import ids_of

LENGTHS = np.array([2, 0, 3, 1], np.int32)
ROWS = np.array([2, 0, 2], np.int64)
BYTES = 'GivenTensorByteStringToUInt8Fill()->(y) {shape=[2,2],values=["ABCD"]}'


def rms(g: Blobs) -> dict[str, Array]:
    inverse = 1 / np.sqrt((g["x"] ** 2).mean(-1) + 0.1)
    return {"y": g["x"] * inverse[:, None] * g["s"] + g["b"], "r": inverse}


def copied(g: Blobs) -> dict[str, Array]:
    found = g["x"].copy()
    found[ROWS] = g["w"]
    return {"y": found}


def shrunk(g: Blobs) -> dict[str, Array]:
    found = g["x"].copy()
    for row in ROWS:
        found[row] = np.sign(found[row]) * np.maximum(np.abs(found[row]) - 0.2, 0)
    return {"y": found}


def padded(g: Blobs) -> dict[str, Array]:
    found = np.full((4, 3, 2), -0.5)
    for segment in range(4):
        own = g["x"][ids_of(LENGTHS) == segment]
        found[segment, : len(own)] = own
    return {"y": found.reshape(12, 2)}


def by_place(g: Blobs) -> dict[str, Array]:
    ends = np.cumsum(LENGTHS)
    parts = [g["i"][end - size : end] for end, size in zip(ends, LENGTHS, strict=True)]
    return {"y": np.stack([(g["x"][part] * g["w"][: len(part), None]).sum(0) for part in parts])}


def decayed(g: Blobs) -> dict[str, Array]:
    first = 0.8 * g["m"] + 0.2 * g["g"]
    history = g["h"] + g["g"] ** 2
    step = first / (1 - 0.8**4) / (np.sqrt(history) + 0.01) + 0.3 * g["x"]
    return {"y": g["x"] + g["r"] * step, "n": first, "k": history}


def decoded(scores: Array, sizes: Array, *, merge: bool) -> dict[str, Array]:
    """Sequence by sequence, step by step."""
    counts, values = [], []
    for sequence, size in enumerate(sizes):
        before, count = 0, 0
        for step in range(size):
            best = int(scores[step, sequence].argmax())
            if best and not (merge and best == before):
                values.append(best)
                count += 1
            before = best
        counts.append(count)
    return {"n": np.array(counts), "y": np.array(values)}


DIGITS = np.array([7, 59, 23, 7], np.int64)
CORES = {"a": normal(3, 1, 2, 2), "b": normal(4, 2, 2, 3), "c": normal(5, 3, 2, 1)}


def train(g: Blobs) -> dict[str, Array]:
    """The matrix entry by entry: G0[i0, o0] G1[i1, o1], where a core is a matrix for each pair of digits."""
    last, first = g["w"][:12].reshape(3, 1, 2, 2), g["w"][12:].reshape(2, 2, 1, 2)
    matrix = np.einsum("iaxc,jyae->ijce", first, last)
    return {"y": g["x"] @ matrix.reshape(6, 4) + g["b"]}


def table(g: Blobs) -> dict[str, Array]:
    rows = []
    for index in DIGITS:
        digits = index % 3, index // 3 % 4, index // 12
        cores = [g[name][digit] for name, digit in zip("abc", digits, strict=True)]
        rows.append(np.einsum("xip,pjq,qky->ijk", *cores).reshape(-1))
    sums = [np.sum(part, 0) for part in np.split(np.stack(rows), [3, 3])]
    return {"y": np.stack(sums)}


def at_offsets(g: Blobs) -> dict[str, Array]:
    """Place by place, by bilinear samples of the image with zeros around."""
    image = np.pad(g["x"], ((0, 0), (0, 0), (3, 3), (3, 3)))
    found = np.zeros((1, 3, 2, 3))
    for row, column in np.ndindex(2, 3):
        for k, (down, over) in enumerate(np.ndindex(2, 2)):
            y = row * 2 + down + g["o"][0, 2 * k, row, column] + 3
            x = column + over + g["o"][0, 2 * k + 1, row, column] + 3
            top, left = int(np.floor(y)), int(np.floor(x))
            q = image[0, :, top : top + 2, left : left + 2]
            sample = np.array([1 - y + top, y - top]) @ q @ np.array([1 - x + left, x - left])
            found[0, :, row, column] += g["w"][:, :, down, over] @ sample
    return {"y": found + (g["b"][None, :, None, None] if "b" in g else 0)}


DEFORMED = {
    "x": normal(1, 2, 4, 4),
    "o": np.random.default_rng(8).uniform(0.1, 0.4, (1, 8, 2, 3)),
    "w": normal(3, 2, 2, 2),
}

SCORES = np.eye(3)[np.array([[1, 2], [1, 2], [0, 0], [1, 2], [2, 2]])]  # steps, batch

LATER = [
    # ---- single elements
    unary("Mish(x)->(y)", lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    unary("Log1p(x)->(y)", np.log1p, inside(3, 4)),
    unary("Log1p(x)->(y)", lambda x: x - x**2 / 2, np.array([1e-6, -1e-7, 0.0]), wrt=()),
    unary("AliasWithName(x)->(y)", lambda x: x, wrt=()),
    fixed("IsNaN(x)->(y)", {"x": np.array([1.0, np.nan, np.inf])}, y=[0, 1, 0]),
    Case(
        "RMSNorm(x,s,b)->(y,r) {eps=0.1}",
        {"x": normal(3, 4), "s": normal(4), "b": normal(4)},
        rms,
        ("x", "s", "b"),
    ),
    # ---- lists of blobs
    fixed("AsyncNetBarrier(x,w)->(y,z)", {"x": np.ones(2), "w": np.zeros(3)}, y=[1, 1], z=[0, 0, 0]),
    fixed("DataCouple(x,w)->(y)", {"x": np.ones(2), "w": np.zeros(3)}, y=[1, 1]),
    fixed("ScaleBlobs(x,w)->(y,z) {scale=3.0}", {"x": np.ones(2), "w": np.ones(1)}, y=[3, 3], z=[3]),
    fixed("SumRelu(x,w)->(y)", {"x": np.array([1.0, -2.0]), "w": np.array([2.0, 1.0])}, y=[3, 0]),
    # ---- rows of tables
    Case("CopyRowsToTensor(x,i,w)->(y)", {"x": away(4, 2), "i": ROWS, "w": away(2)}, copied, ("x", "w")),
    Case("SparseLpRegularizer(x,i)->(y) {p=1.0,reg_lambda=0.2}", {"x": away(4, 2), "i": ROWS}, shrunk, ()),
    Case(
        "SparseLpRegularizer(x,i)->(y) {reg_lambda=0.2}",
        {"x": away(4, 2), "i": ROWS},
        lambda g: {"y": g["x"] * np.array([[0.8], [1], [0.8**2], [1]])},
        (),
    ),
    Case(
        "DecayAdagrad(x,m,h,g,r,i)->(y,n,k) {beta1=0.8,epsilon=0.01,weight_decay=0.3}",
        {
            "x": away(3),
            "m": away(3),
            "h": positive(3),
            "g": away(3),
            "r": np.array([0.1]),
            "i": np.array([3]),
        },
        decayed,
        (),
    ),
    # ---- segments
    Case(
        "LengthsPad(x,l)->(y) {target_length=3,padding_value=-0.5}",
        {"x": away(6, 2), "l": LENGTHS},
        padded,
    ),
    fixed("LengthsToOffsets(l)->(y)", {"l": LENGTHS}, y=[0, 2, 2, 5]),
    fixed("LengthsToOffsets(l)->(y) {include_last_offset=1}", {"l": LENGTHS}, y=[0, 2, 2, 5, 6]),
    Case(
        "SparseLengthsPositionalWeightedSum(x,w,i,l)->(y)",
        {"x": away(4, 2), "w": away(5), "i": np.array([3, 1, 1, 0, 2, 2]), "l": LENGTHS},
        by_place,
        (),
    ),
    # ---- learning rates
    *(
        fixed(
            'LearningRate(i)->(y) {base_lr=0.2,policy="slope",num_iter_1=10,num_iter_2=20,multiplier_1=1.0,'
            "multiplier_2=0.5}",
            {"i": np.array([iteration])},
            y=0.2 * multiplier,
        )
        for iteration, multiplier in ((9, 1.0), (14, 0.8), (40, 0.5))
    ),
    # ---- tensor trains
    Case(
        "TT(x,b,w)->(y) {inp_sizes=[2,3],out_sizes=[2,2],tt_ranks=[1,2,1]}",
        {"x": normal(3, 6), "b": normal(4), "w": normal(12 + 8)},
        train,
        (),
    ),
    Case(
        "TTSparseLengthsSum(a,b,c,i,l)->(y,u,v,n)",
        {**CORES, "i": DIGITS, "l": np.array([3, 0, 1], np.int32)},
        table,
        ("a", "b", "c"),
    ),
    # ---- convolutions at offsets
    Case("DeformConv(x,o,w)->(y) {kernel=2,stride_h=2,stride_w=1}", DEFORMED, at_offsets, ("x", "o", "w")),
    Case(
        "DeformConv(x,o,w,b)->(y) {kernel=2,stride_h=2,stride_w=1}",
        {**DEFORMED, "b": normal(3)},
        at_offsets,
        ("x", "o", "w", "b"),
    ),
    # ---- lists and categories
    fixed(BYTES, {}, y=[[65, 66], [67, 68]]),
    fixed("GivenTensorInt16Fill()->(y) {shape=[3],values=[1,-2,3]}", {}, y=[1, -2, 3]),
    fixed(
        "BatchBucketize(x,i,b,l)->(y)",
        {
            "x": np.array([[1.0, 9.0, 3.0], [0.5, 9.0, 5.0]]),
            "i": np.array([2, 0], np.int32),
            "b": np.array([3.0, 4.0, 0.5], np.float32),
            "l": np.array([2, 1], np.int32),
        },
        y=[[0, 1], [2, 0]],
    ),
    fixed("DenseVectorToIdList(x)->(n,y)", {"x": np.array([[1.0, 0, -2], [0, 0, 0]])}, n=[2, 0], y=[0, 2]),
    fixed(
        "MergeDenseFeatureTensors(x,p)->(n,k,y) {feature_ids=[11,14]}",
        {"x": np.array([[1.0, 2], [3, 4]]), "p": np.array([[False, True], [True, True]])},
        n=[1, 2],
        k=[14, 11, 14],
        y=[2, 3, 4],
    ),
    fixed(
        "StumpFuncIndex(x)->(y,z) {threshold=1.5}", {"x": np.array([[1, 1.5], [3, 0]])}, y=[0, 1, 3], z=[2]
    ),
    fixed(  # digits 2, 1 and 0 (of which 9 is not known); the second column counts threefold
        "NGramFromCategorical(x)->(y) {col_ids=[0,2],categorical_limits=[3,2],vals=[5,7,8,4,-2]}",
        {"x": np.array([[8.4, 0, -1.5], [6.5, 0, 9], [9, 0, 4.2]])},
        y=[2 + 3, 1, 0],
    ),
    *(
        Case(
            f"CTCGreedyDecoder(x,l)->(n,y) {{merge_repeated={merge}}}",
            {"x": SCORES, "l": np.array([5, 4], np.int32)},
            lambda g, merge=merge: decoded(g["x"], g["l"], merge=bool(merge)),
            (),
        )
        for merge in (0, 1)
    ),
    fixed("CTCGreedyDecoder(x)->(n,y)", {"x": SCORES}, n=[3, 2], y=[1, 1, 2, 2, 2]),
]
