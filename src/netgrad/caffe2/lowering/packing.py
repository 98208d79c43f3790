"""Rows packed into batches, masked, and placed by keys; and their gradient operators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.segments import beside, segment_ids, whole, within_segments
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.placing import count_up, joined, length, lengths, pad_axis, product

# ---- segments as a batch -----------------------------------------------------------------------------


def _tail(b: Builder, x: Value, first: int) -> list[Value]:
    """The dims of ``x`` from ``first`` on, as a list to join."""
    assert x.rank is not None, "the rank of every blob is known"
    return [lengths(b, x, first, x.rank)] if x.rank > first else []


def _reshaped(b: Builder, x: Value, shape: Sequence[Value]) -> Value:
    return b.op("Reshape", x, joined(b, list(shape)), allowzero=1)


def packed(b: Builder, sizes: Value, rows: Value, fill: float = 0.0, most: int = -1) -> tuple[Value, Value]:
    """Rows of each segment side by side, behind them ``fill``; and which places are rows.

    There are as many places as the longest segment has rows, or ``most``, which cuts longer segments.
    """
    sizes = whole(b, sizes)
    longest = b.reduce("ReduceMax", b.concat([sizes, b.ints([0])], 0), [0], keepdims=True)
    if most >= 0:
        longest = b.ints([most])
    starts = b.op("CumSum", sizes, b.constant(np.asarray(0)), exclusive=1)
    step = count_up(b, longest)
    inside = b.op("Less", step, b.unsqueeze(sizes, [1]))
    # The padding is row 0, so that lengths that add up to more than there are rows read outside, and fail.
    places = b.where(inside, b.unsqueeze(starts, [1]) + step + 1, 0)
    return b.op("Gather", _behind(b, fill, rows), places, axis=0), inside


def _behind(b: Builder, fill: float, rows: Value) -> Value:
    """``rows`` behind one that holds ``fill``."""
    assert rows.dtype is not None, "the element type of every blob is known"
    row = b.fill(joined(b, [b.ints([1]), *_tail(b, rows, 1)]), fill, rows.dtype)
    return b.concat([row, rows], 0)


def unpacked(b: Builder, sizes: Value, batch: Value, *, cut: bool = False) -> Value:
    """The opposite of `packed`. Rows that the batch has no places for fail, or with ``cut`` are zeros."""
    ids, within = within_segments(b, sizes)
    width = length(b, batch, 1)
    rows = _reshaped(b, batch, [product(b, batch, 0, 2), *_tail(b, batch, 2)])
    inside = b.op("Less", within, width)
    places = ids * width + within
    if cut:
        return b.op("Gather", _behind(b, 0.0, rows), b.where(inside, places + 1, 0), axis=0)
    outside = product(b, batch, 0, 2)
    return b.op("Gather", rows, b.where(inside, places, outside), axis=0)


@lowers("PackSegments")
def _pack(c: Context, sizes: Value, rows: Value) -> Sequence[Value]:
    """With ``pad_minf`` the padding is -inf, else zeros; with ``max_length`` there are so many places.

    It fails where the lengths add up to another number of rows. As the gradient of UnpackSegments it
    reads only the rows that this has kept.
    """
    b, most = c.b, c.argument("max_length", -1)
    fill = -np.inf if c.argument("pad_minf", False) and rows.is_floating else 0.0
    if most >= 0 and c.definition.is_gradient_op:
        sizes = b.op("Min", whole(b, sizes), b.ints([most]))
    total = b.reduce_sum(whole(b, sizes), [0], keepdims=True)
    rows = b.assume_like(_reshaped(b, rows, [total, *_tail(b, rows, 1)]), rows)
    batch, inside = packed(b, sizes, rows, fill, most)
    return [batch, inside] if c.outputs > 1 else [batch]


@lowers("UnpackSegments")
def _unpack(c: Context, sizes: Value, batch: Value) -> Value:
    """With ``max_length`` segments give so many rows at most.

    As the gradient of PackSegments it gives zeros for the rows that this has cut, which have no influence.
    """
    most = c.argument("max_length", -1)
    if most >= 0 and not c.definition.is_gradient_op:
        sizes = c.b.op("Min", whole(c.b, sizes), c.b.ints([most]))
    return unpacked(c.b, sizes, batch, cut=most >= 0 and c.definition.is_gradient_op)


def _turned(b: Builder, batch: Value) -> Value:
    assert batch.rank is not None, "the rank of every blob is known"
    return b.transpose(batch, [1, 0, *range(2, batch.rank)])


@lowers("PackRNNSequence")
def _pack_steps(c: Context, rows: Value, sizes: Value) -> Value:
    """As PackSegments, with the steps in front of the segments."""
    return _turned(c.b, packed(c.b, sizes, rows)[0])


@lowers("UnpackRNNSequence")
def _unpack_steps(c: Context, batch: Value, sizes: Value) -> Value:
    return unpacked(c.b, sizes, _turned(c.b, batch))


@lowers("ReversePackedSegs")
def _reverse(c: Context, batch: Value, sizes: Value) -> Value:
    """Each sequence of a batch (steps, sequences, ...) turned round; its padding stays."""
    return c.b.op("ReverseSequence", batch, whole(c.b, sizes), time_axis=0, batch_axis=1)


# ---- masks -------------------------------------------------------------------------------------------


def _rank_of_kept(b: Builder, mask: Value) -> Value:
    """1, 2, ... for the rows that a mask keeps, 0 for the others."""
    kept = b.cast(mask, ir.DataType.INT64)
    return kept * b.op("CumSum", kept, b.constant(np.asarray(0)))


@lowers("BooleanMask")
def _boolean_mask(c: Context, x: Value, mask: Value) -> Sequence[Value]:
    """The rows that the mask keeps, and their numbers."""
    kept = c.b.op("Compress", x, mask, axis=0)
    if c.outputs == 1:
        return [kept]
    return [kept, c.b.op("Compress", count_up(c.b, length(c.b, mask, 0)), mask, axis=0)]


@lowers("BooleanMaskGradient")
def _boolean_mask_gradient(c: Context, mask: Value, dy: Value) -> Value:
    return c.b.op("Gather", pad_axis(c.b, dy, 0, 1, 0), _rank_of_kept(c.b, mask), axis=0)


@lowers("BooleanMaskLengths")
def _boolean_mask_lengths(c: Context, sizes: Value, mask: Value) -> Value:
    """How many rows of each segment the mask keeps."""
    b = c.b
    ids = segment_ids(b, sizes, length(b, mask, 0))
    none = b.fill(b.shape_of(sizes), 0, ir.DataType.INT64)
    kept = b.cast(mask, ir.DataType.INT64)
    counts = b.op("ScatterElements", none, ids, kept, axis=0, reduction="add")
    return b.cast(counts, sizes.dtype or ir.DataType.INT32)


@lowers("SequenceMask")
def _sequence_mask(c: Context, x: Value, per_row: Value | None = None) -> Value:
    """``fill_val`` at masked places of ``x`` as a matrix, or zeros in a gradient.

    Masked, of column j of row i: j at or past the length of the row in mode sequence; farther than ``radius``
    from its centre in mode window; j > i in mode upper, j < i lower, j >= i upperdiag, j <= i lowerdiag. With
    ``repeat_from_axis`` the dims from there on are no columns; with ``batch`` those up to it are no rows, and
    what is said of the rows holds for each of them.
    """
    b, rank = c.b, c.rank(x)
    axis = c.axis(x, c.argument("axis", 1))
    end = c.axis(x, c.argument("repeat_from_axis", rank))
    first = c.axis(x, c.argument("batch", -1)) + 1 if c.has("batch") else 0
    mode = c.argument("mode", "")
    rows = b.unsqueeze(count_up(b, product(b, x, first, axis)), [1])
    columns = count_up(b, product(b, x, axis, end))
    compared = {
        "upper": "Greater",
        "lower": "Less",
        "upperdiag": "GreaterOrEqual",
        "lowerdiag": "LessOrEqual",
    }
    if mode in compared:
        masked = b.op(compared[mode], columns, rows)
    elif mode not in ("sequence", "window") or per_row is None:
        raise c.refused(f"the mode is {mode!r} with {len(c.definition.input)} inputs")
    elif mode == "sequence":
        masked = columns >= b.reshape(whole(b, per_row), [-1, 1])
    else:
        distance = b.op("Abs", columns - b.reshape(whole(b, per_row), [-1, 1]))
        masked = distance > c.argument("radius", 10)
    shape = joined(b, [lengths(b, x, first, end), b.ints([1] * (rank - end))])
    fill = 0.0 if c.argument("grad", False) else c.argument("fill_val", -np.inf)
    return b.assume_like(b.where(b.op("Reshape", masked, shape, allowzero=1), fill, x), x)


# ---- values by keys ----------------------------------------------------------------------------------


def _places_of_keys(c: Context, keys: Value, sizes: Value | None) -> tuple[Value, Value, Value]:
    """Where the value of each key goes, whether its key is in the mask, and how many places there are."""
    b = c.b
    wanted = b.ints(c.integers("mask"))
    hits = b.unsqueeze(whole(b, keys), [1]).equals(wanted)
    column = b.op("ArgMax", b.cast(hits, ir.DataType.INT32), axis=1, keepdims=0)
    found = b.cast(
        b.op("ReduceMax", b.cast(hits, ir.DataType.INT32), b.ints([1]), keepdims=0), ir.DataType.BOOL
    )
    width = len(c.numbers("mask"))
    if sizes is None:
        return column, found, b.ints([width])
    ids = segment_ids(b, sizes, length(b, keys, 0))
    return ids * width + column, found, length(b, sizes, 0) * width


def _last_by_place(b: Builder, places: Value, found: Value, count: Value) -> Value:
    """For each place the number of the last value that goes there, or -1."""
    numbers = b.where(found, count_up(b, length(b, places, 0)), -1)
    nobody = b.fill(count, -1, ir.DataType.INT64)
    return b.op("ScatterElements", nobody, places, numbers, axis=0, reduction="max")


@lowers("SparseToDenseMask")
def _sparse_to_dense_mask(
    c: Context, keys: Value, values: Value, default: Value, sizes: Value | None = None
) -> Sequence[Value]:
    """The last value of each key of the mask, else the default; a row of them for each length."""
    b = c.b
    width = len(c.numbers("mask"))
    if not width:
        raise c.refused("the argument 'mask' is missing or empty")
    places, found, count = _places_of_keys(c, keys, sizes)
    last = _last_by_place(b, places, found, count)
    item = [lengths(b, default, 0, c.rank(default))] if c.rank(default) else []
    source = b.concat(
        [_reshaped(b, values, [length(b, values, 0), *item]), _reshaped(b, default, [b.ints([1]), *item])], 0
    )
    # -1 is the default behind the values.
    flat = b.op("Gather", source, last, axis=0)
    front = [b.ints([width])] if sizes is None else [length(b, sizes, 0), b.ints([width])]
    dense = _reshaped(b, flat, [*front, *item])
    return [dense, _reshaped(b, last >= 0, front)] if c.outputs > 1 else [dense]


@lowers("SparseToDenseMaskGradient")
def _sparse_to_dense_mask_gradient(c: Context, keys: Value, dy: Value, sizes: Value | None = None) -> Value:
    """Of equal keys only the last has a value in the result, and gets a gradient."""
    b = c.b
    places, found, count = _places_of_keys(c, keys, sizes)
    last = _last_by_place(b, places, found, count)
    in_use = b.op("Gather", last, places, axis=0).equals(count_up(b, length(b, keys, 0)))
    rows = _reshaped(b, dy, [count, *_tail(b, dy, 1 if sizes is None else 2)])
    return b.where(beside(b, in_use, rows), b.op("Gather", rows, places, axis=0), 0.0)
