"""Rows for operators on segments of rows: by ids, by lengths, packed and masked."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.caffe2.operator_cases import Array, Blobs, Case, apart, normal, positive

SORTED = np.array([0, 0, 1, 2, 2, 2], np.int32)
UNSORTED = np.array([3, 0, 1, 0, 3, 0], np.int64)
LENGTHS = np.array([2, 0, 3, 1], np.int32)
INDICES = np.array([3, 0, 3, 1, 2, 0], np.int64)


def by_ids(
    rows: Array, ids: Array, reduce: Callable[[Array], Array], count: int | None = None
) -> dict[str, Array]:
    """The reduction of each segment, zeros for an empty one."""
    result = np.zeros(((ids.max() + 1 if count is None else count), *rows.shape[1:]))
    for segment in range(len(result)):
        chosen = rows[ids == segment]
        if len(chosen):
            result[segment] = reduce(chosen)
    return {"y": result}


def total(rows: Array) -> Array:
    return rows.sum(0)


def average(rows: Array) -> Array:
    return rows.mean(0)


def weighted(g: Blobs, rows: Array) -> Array:
    return rows * g["w"].reshape((-1, *[1] * (rows.ndim - 1)))


def ids_of(lengths: Array) -> Array:
    return np.repeat(np.arange(len(lengths)), lengths)


def _of_ids(order: str, ids: Array) -> list[Case]:
    found = []
    for kind, reduce in {"Sum": total, "Mean": average}.items():
        found += [
            Case(
                f"{order}Segment{kind}(x,s)->(y)",
                {"x": normal(6, 2), "s": ids},
                lambda g, reduce=reduce: by_ids(g["x"], g["s"], reduce),
            ),
            Case(
                f"Sparse{order}Segment{kind}(x,i,s)->(y)",
                {"x": normal(4, 2, 2), "i": INDICES, "s": ids},
                lambda g, reduce=reduce: by_ids(g["x"][g["i"]], g["s"], reduce),
            ),
        ]
    return [
        *found,
        Case(
            f"{order}SegmentWeightedSum(x,w,s)->(y)",
            {"x": normal(6, 2), "w": normal(6), "s": ids},
            lambda g: by_ids(weighted(g, g["x"]), g["s"], total),
        ),
        Case(
            f"Sparse{order}SegmentWeightedSum(x,w,i,s)->(y)",
            {"x": normal(4, 2), "w": normal(6), "i": INDICES, "s": ids},
            lambda g: by_ids(weighted(g, g["x"][g["i"]]), g["s"], total),
        ),
    ]


def log_sum_exp(rows: Array) -> Array:
    return np.log(np.exp(rows).sum(0))


def log_mean_exp(rows: Array) -> Array:
    return np.log(np.exp(rows).mean(0))


RANGES = {
    "Sum": total,
    "Mean": average,
    "Max": lambda rows: rows.max(0),
    "LogSumExp": log_sum_exp,
    "LogMeanExp": log_mean_exp,
}

BY_IDS = [
    *_of_ids("Sorted", SORTED),
    *_of_ids("Unsorted", UNSORTED),
    Case(
        "UnsortedSegmentSum(x,s)->(y) {num_segments=6}",
        {"x": normal(6), "s": UNSORTED},
        lambda g: by_ids(g["x"], g["s"], total, 6),
    ),
    Case(
        "SortedSegmentSum(x,s)->(y)",
        {"x": normal(0, 3), "s": np.zeros(0, np.int32)},
        lambda g: {"y": np.zeros((0, 3))},
        (),
    ),
    *(
        Case(
            f"SortedSegmentRange{kind}(x,s)->(y)",
            {"x": apart(6, 2), "s": SORTED},
            lambda g, reduce=reduce: by_ids(g["x"], g["s"], reduce),
        )
        for kind, reduce in RANGES.items()
    ),
    Case(
        "LengthsToSegmentIds(n)->(y)",
        {"n": np.array([0, 2, 0, 0, 3, 0], np.int32)},
        lambda g: {"y": np.array([1, 1, 4, 4, 4])},
        (),
    ),
    Case(
        "SegmentIdsToLengths(s)->(y)",
        {"s": np.array([0, 0, 2, 2, 2], np.int32)},
        lambda g: {"y": np.array([2, 0, 3])},
        (),
    ),
    Case(
        "SegmentIdsToLengths(s,d)->(y)",
        {"s": np.array([0, 0, 2], np.int64), "d": normal(4, 1)},
        lambda g: {"y": np.array([2, 0, 1, 0])},
        (),
    ),
    Case("LengthsRangeFill(n)->(y)", {"n": LENGTHS}, lambda g: {"y": np.array([0, 1, 0, 1, 2, 0])}, ()),
]

BY_LENGTHS = [
    Case(
        "SparseLengthsSum(x,i,n)->(y)",
        {"x": np.array([[2048.0], [1.0]], np.float16), "i": np.array([0, 1]), "n": np.array([2], np.int32)},
        lambda g: {"y": np.array([[2049.0]], np.float32)},  # no half
        (),
    ),
    *(
        Case(
            f"{sparse}Lengths{kind}Gradient(dy,n)->(y)",
            {"dy": normal(4, 2), "n": LENGTHS},
            lambda g, mean=kind == "Mean": {
                "y": np.repeat(g["dy"] / (np.maximum(g["n"], 1)[:, None] if mean else 1), g["n"], axis=0)
            },
            (),
        )
        for sparse in ("", "Sparse")
        for kind in ("Sum", "Mean")  # what early makers wrote, and saved nets still have
    ),
    Case("LengthsSum(x,n)->(y)", {"x": normal(6, 2), "n": LENGTHS}, lambda g: by_lengths(g, g["x"], total)),
    Case("LengthsSum(x,n)->(y)", {"x": normal(6), "n": LENGTHS}, lambda g: by_lengths(g, g["x"], total)),
    Case(
        "LengthsMean(x,n)->(y)", {"x": normal(6, 2), "n": LENGTHS}, lambda g: by_lengths(g, g["x"], average)
    ),
    *(
        Case(
            f"Lengths{kind}(x,n)->(y)",
            {"x": normal(14, 3), "n": np.array([9, 0, 5], np.int64)},
            lambda g, reduce=reduce: by_lengths(g, g["x"], reduce),
        )
        for kind, reduce in {"Sum": total, "Mean": average}.items()
    ),
    Case(
        "LengthsMax(x,n)->(y)",
        {"x": apart(6, 2), "n": LENGTHS},
        lambda g: by_lengths(g, g["x"], lambda rows: rows.max(0)),
    ),
    *(
        Case(
            f"LengthsWeightedSum(x,w,n)->(y) {{grad_on_weights={on}}}",
            {"x": normal(6, 2), "w": normal(6), "n": LENGTHS},
            lambda g: by_lengths(g, weighted(g, g["x"]), total),
            wrt,
        )
        for on, wrt in ((0, ("x",)), (1, ("x", "w")))
    ),
    Case(
        "SparseLengthsSum(x,i,n)->(y)",
        {"x": normal(4, 2), "i": INDICES, "n": LENGTHS},
        lambda g: by_lengths(g, g["x"][g["i"]], total),
    ),
    Case(
        "SparseLengthsSum(x,i,n)->(y)",
        {"x": normal(4, 2), "i": np.zeros(0, np.int64), "n": np.zeros(3, np.int32)},
        lambda g: {"y": np.zeros((3, 2))},
        (),
    ),
    Case(
        "SparseLengthsMean(x,i,n)->(y)",
        {"x": normal(4, 2), "i": INDICES.astype(np.int32), "n": LENGTHS},
        lambda g: by_lengths(g, g["x"][g["i"]], average),
    ),
    *(
        Case(
            f"SparseLengthsWeightedSum(x,w,i,n)->(y) {{grad_on_weights={on}}}",
            {"x": normal(4, 2), "w": positive(6), "i": INDICES, "n": LENGTHS},
            lambda g: by_lengths(g, weighted(g, g["x"][g["i"]]), total),
            wrt,
        )
        for on, wrt in ((0, ("x",)), (1, ("x", "w")))
    ),
    Case(
        "LengthsTile(x,n)->(y)",
        {"x": normal(4, 2), "n": LENGTHS},
        lambda g: {"y": np.repeat(g["x"], g["n"], axis=0)},
    ),
]


def by_lengths(g: Blobs, rows: Array, reduce: Callable[[Array], Array]) -> dict[str, Array]:
    return by_ids(rows, ids_of(g["n"]), reduce, len(g["n"]))


def packed(rows: Array, lengths: Array, fill: float = 0.0) -> Array:
    result = np.full((len(lengths), lengths.max(), *rows.shape[1:]), fill)
    start = 0
    for row, count in enumerate(lengths):
        result[row, :count] = rows[start : start + count]
        start += count
    return result


def unpacked(batch: Array, lengths: Array) -> Array:
    return np.concatenate([row[:count] for row, count in zip(batch, lengths, strict=True)])


def masked(x: Array, axis: int, hidden: Callable[[Array, Array], Array], fill: float) -> Array:
    matrix = x.reshape(int(np.prod(x.shape[:axis])), -1)
    rows, columns = np.indices(matrix.shape)
    return np.where(hidden(rows, columns), fill, matrix).reshape(x.shape)


def by_keys(g: Blobs, mask: list[int]) -> dict[str, Array]:
    lengths = g.get("n", np.array([len(g["i"])]))
    dense = np.zeros((len(lengths), len(mask), *g["d"].shape))
    dense[:] = g["d"]
    present = np.zeros(dense.shape[:2], bool)
    for row, key, value in zip(ids_of(lengths), g["i"], g["x"], strict=True):
        if key in mask:
            dense[row, mask.index(key)] = value
            present[row, mask.index(key)] = True
    return {"y": dense, "p": present} if "n" in g else {"y": dense[0]}


PACKED = [
    Case(
        "PackSegments(n,x)->(y,p) {return_presence_mask=1}",
        {"n": LENGTHS, "x": normal(6, 2)},
        lambda g: {
            "y": packed(g["x"], g["n"]),
            "p": np.arange(3) < g["n"][:, None],
        },
    ),
    Case(
        "PackSegments(n,x)->(y) {pad_minf=1}",
        {"n": LENGTHS, "x": normal(6)},
        lambda g: {"y": packed(g["x"], g["n"], -np.inf)},
        (),
    ),
    Case(
        "UnpackSegments(n,x)->(y)",
        {"n": LENGTHS.astype(np.int64), "x": normal(4, 3, 2)},
        lambda g: {"y": unpacked(g["x"], g["n"])},
    ),
    Case(
        "BooleanMask(x,m)->(y,kept)",
        {"x": normal(5, 2), "m": np.array([True, False, True, True, False])},
        lambda g: {"y": g["x"][g["m"]], "kept": np.flatnonzero(g["m"])},
    ),
    Case(
        "BooleanMaskLengths(n,m)->(y)",
        {"n": LENGTHS, "m": np.array([True, False, True, True, False, False])},
        lambda g: {"y": np.array([1, 0, 2, 0])},
        (),
    ),
    Case(
        'SequenceMask(x,n)->(y) {mode="sequence",fill_val=-7.0}',
        {"x": normal(4, 3), "n": LENGTHS},
        lambda g: {"y": masked(g["x"], 1, lambda i, j: j >= g["n"][i], -7.0)},
    ),
    Case(
        'SequenceMask(x,n)->(y) {mode="sequence",axis=1,repeat_from_axis=2,fill_val=-7.0}',
        {"x": normal(4, 3, 2), "n": LENGTHS},
        lambda g: {"y": np.where((np.arange(3) >= g["n"][:, None])[:, :, None], -7.0, g["x"])},
    ),
    Case(
        'SequenceMask(x,n)->(y) {mode="window",radius=1,fill_val=-7.0}',
        {"x": normal(4, 5), "n": LENGTHS},
        lambda g: {"y": masked(g["x"], 1, lambda i, j: abs(j - g["n"][i]) > 1, -7.0)},
    ),
    *(
        Case(
            f'SequenceMask(x)->(y) {{mode="{mode}",axis=2,fill_val=-7.0}}',
            {"x": normal(2, 2, 5)},
            lambda g, hidden=hidden: {"y": masked(g["x"], 2, hidden, -7.0)},
        )
        for mode, hidden in {
            "upper": lambda i, j: j > i,
            "lower": lambda i, j: j < i,
            "upperdiag": lambda i, j: j >= i,
            "lowerdiag": lambda i, j: j <= i,
        }.items()
    ),
    Case(
        'SequenceMask(x)->(y) {mode="upper",axis=2,batch=0,fill_val=-7.0}',
        {"x": normal(2, 4, 3)},
        lambda g: {"y": np.where(np.arange(3) > np.arange(4)[:, None], -7.0, g["x"])},
    ),
    Case(
        "SparseToDenseMask(i,x,d,n)->(y,p) {mask=[7,2,9],return_presence_mask=1}",
        {
            "i": np.array([2, 7, 5, 9, 9, 2], np.int64),
            "x": normal(6, 2),
            "d": normal(2),
            "n": LENGTHS,
        },
        lambda g: by_keys(g, [7, 2, 9]),
    ),
    Case(
        "SparseToDenseMask(i,x,d)->(y) {mask=[7,2,9]}",
        {"i": np.array([2, 7, 5], np.int32), "x": normal(3), "d": np.asarray(1.5)},
        lambda g: by_keys(g, [7, 2, 9]),
    ),
]

SEGMENTS = [*BY_IDS, *BY_LENGTHS, *PACKED]
