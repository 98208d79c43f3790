"""Lengths, ids, ranges and weights of segments, made from each other; segments looked up and chosen from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.places import from_front
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.segments import (
    beside,
    number_of_segments,
    ones,
    segment_ids,
    summed_runs,
    whole,
    within_segments,
)
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.placing import count_up, length, resized, scatter_along

# ---- between ids and lengths -------------------------------------------------------------------------


@lowers("LengthsToSegmentIds")
def _to_ids(c: Context, lengths: Value) -> Value:
    return c.b.cast(segment_ids(c.b, lengths), ir.DataType.INT32)


def _lengths_of(c: Context, ids: Value, like: Value | None) -> Value:
    b, ids = c.b, whole(c.b, ids)
    segments = number_of_segments(c, ids) if like is None else length(b, like, 0)
    return scatter_along(b, ones(b, ids), 0, from_front(b, ids), segments)


@lowers("SegmentIdsToLengths")
def _to_lengths(c: Context, ids: Value, like: Value | None = None) -> Value:
    """As many as there are ids, or rows of the second input."""
    return c.b.cast(_lengths_of(c, ids, like), ir.DataType.INT32)


@lowers("LengthsRangeFill")
def _range_fill(c: Context, lengths: Value) -> Value:
    """0, 1, 2, ... up to each length."""
    return c.b.cast(within_segments(c.b, lengths)[1], ir.DataType.INT32)


def _starts(b: Builder, lengths: Value) -> Value:
    return b.op("CumSum", lengths, b.constant(np.asarray(0)), exclusive=1)


def _ranges(b: Builder, lengths: Value) -> Value:
    """The first row and the number of rows of each segment: int32 of shape (segments, 2)."""
    pair = [b.unsqueeze(column, [1]) for column in (_starts(b, lengths), lengths)]
    return b.cast(b.concat(pair, 1), ir.DataType.INT32)


@lowers("LengthsToRanges")
def _lengths_to_ranges(c: Context, lengths: Value) -> Value:
    return _ranges(c.b, whole(c.b, lengths))


@lowers("SegmentIdsToRanges")
def _ids_to_ranges(c: Context, ids: Value, like: Value | None = None) -> Value:
    """Segments behind the last one that has rows start at 0."""
    b, sizes = c.b, _lengths_of(c, ids, like)
    if like is None:
        return _ranges(b, sizes)
    last = b.reduce("ReduceMax", b.concat([whole(b, ids), b.ints([-1])], 0), [0], keepdims=True)
    there = b.unsqueeze(b.op("LessOrEqual", count_up(b, length(b, sizes, 0)), last), [1])
    return b.where(there, _ranges(b, sizes), 0)


@lowers("LengthsToOffsets")
def _to_offsets(c: Context, lengths: Value) -> Value:
    """Where each segment starts, and with ``include_last_offset`` where the last one ends."""
    b, number = c.b, whole(c.b, lengths)
    if c.argument("include_last_offset", False):
        number = b.concat([number, b.ints([0])], 0)
    return b.cast(_starts(b, number), lengths.dtype or ir.DataType.INT32)


def _weights(c: Context, lengths: Value, ids: Value) -> Value:
    """The length of each row's segment to the power of -``power``."""
    sizes = c.b.cast(c.b.op("Gather", lengths, ids, axis=0), ir.DataType.FLOAT)
    return sizes ** -c.argument("power", 0.5)


@lowers("LengthsToWeights")
def _lengths_to_weights(c: Context, lengths: Value) -> Value:
    return _weights(c, lengths, segment_ids(c.b, lengths))


@lowers("SegmentIdsToLengthWeights")
def _ids_to_weights(c: Context, ids: Value) -> Value:
    return _weights(c, _lengths_of(c, ids, None), whole(c.b, ids))


@lowers("LengthsToShape")
def _to_shape(c: Context, lengths: Value) -> Value:
    """How many lengths there are, and the length that all have."""
    b = c.b
    pair = b.concat([length(b, lengths, 0), b.slice(whole(b, lengths), 0, 0, 1)], 0)
    return b.cast(pair, ir.DataType.INT32)


# ---- segments of one length --------------------------------------------------------------------------


def _padded_places(c: Context, lengths: Value) -> tuple[Value, Value]:
    """Where rows of segments go that are padded to ``target_length`` rows, and how many rows there are."""
    b, target = c.b, c.argument("target_length", -1)
    if target < 1:
        raise c.refused("the argument 'target_length' is missing, or less than 1")
    ids, within = within_segments(b, lengths)
    total = length(b, lengths, 0) * target
    return b.where(within < target, ids * target + within, b.reshape(total, [])), total


@lowers("LengthsPad")
def _lengths_pad(c: Context, data: Value, lengths: Value) -> Value:
    """Each segment with rows of ``padding_value`` behind it, up to ``target_length`` rows.

    A longer segment has no place for its rows, and so fails.
    """
    b = c.b
    places, total = _padded_places(c, lengths)
    assert data.dtype is not None, "the element type of every blob is known"
    padding = c.single("padding_value") if c.has("padding_value") else -1
    empty = b.fill(resized(b, data, 0, total), padding, data.dtype)
    padded = b.op("ScatterND", empty, b.unsqueeze(places, [1]), data)
    count = lengths.dim(0)
    rows = count * c.argument("target_length", -1) if isinstance(count, int) else None
    return b.assume_shape(padded, None if data.shape is None else (rows, *data.shape[1:]))


@lowers("LengthsPadGradient")
def _lengths_pad_gradient(c: Context, dy: Value, lengths: Value) -> Value:
    return c.b.op("Gather", dy, _padded_places(c, lengths)[0], axis=0)


# ---- segments looked up ------------------------------------------------------------------------------


@lowers("LengthsGather")
def _lengths_gather(c: Context, items: Value, lengths: Value, indices: Value) -> Value:
    """The rows of the segments with the given numbers, one segment after the other."""
    b, lengths, indices = c.b, whole(c.b, lengths), from_front(c.b, indices)
    ids, within = within_segments(b, b.op("Gather", lengths, indices, axis=0))
    starts = b.op("Gather", b.op("Gather", _starts(b, lengths), indices, axis=0), ids, axis=0)
    return b.op("Gather", items, starts + within, axis=0)


@lowers("SparseLengthsPositionalWeightedSum")
def _positional(c: Context, data: Value, weights: Value, indices: Value, lengths: Value) -> Value:
    """Sums of looked-up rows, the k-th row of each segment times the k-th weight; of halves, floats."""
    b = c.b
    own = b.op("Gather", weights, within_segments(b, lengths)[1], axis=0)
    rows = b.op("Gather", data, from_front(b, indices), axis=0)
    if rows.dtype is ir.DataType.FLOAT16:
        rows = b.cast(rows, ir.DataType.FLOAT)
    return summed_runs(b, rows * beside(b, b.cast(own, rows.dtype or ir.DataType.FLOAT), rows), lengths)


@lowers("LengthsTopK")
def _lengths_top_k(c: Context, data: Value, lengths: Value) -> Sequence[Value]:
    """The ``k`` largest of each segment and their places in it; where there are fewer, 0 and -1."""
    b, count = c.b, c.argument("k", 0)
    if count < 1:
        raise c.refused("the argument 'k' is missing, or less than 1")
    lengths = whole(b, lengths)
    longest = b.reduce("ReduceMax", b.concat([lengths, b.ints([count])], 0), [0], keepdims=True)
    step = count_up(b, longest)
    inside = b.op("Less", step, b.unsqueeze(lengths, [1]))
    places = b.where(inside, b.unsqueeze(_starts(b, lengths), [1]) + step + 1, 0)
    least = b.constant(np.asarray([-np.inf]), data.dtype)
    rows = b.op("Gather", b.concat([least, b.reshape(data, [-1])], 0), places, axis=0)
    values, chosen = b.ops("TopK", rows, b.ints([count]), outputs=2, axis=1)
    exist = b.op("Less", b.constant(np.arange(count)), b.unsqueeze(lengths, [1]))
    return [b.where(exist, values, 0.0), b.cast(b.where(exist, chosen, -1), ir.DataType.INT32)]


@lowers("LengthsTopKGradient")
def _lengths_top_k_gradient(c: Context, lengths: Value, chosen: Value, dy: Value) -> Value:
    b, lengths = c.b, whole(c.b, lengths)
    total = b.reduce_sum(lengths, [0], keepdims=True)
    # What doesn't exist goes to a place behind all others, which is there even if nothing else is.
    places = b.where(chosen >= 0, b.unsqueeze(_starts(b, lengths), [1]) + whole(b, chosen), total)
    flat = b.reshape(dy, [-1])
    return b.slice(scatter_along(b, flat, 0, b.reshape(places, [-1]), total + 1), 0, 0, -1)
