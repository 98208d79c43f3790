"""Dense rows as lists of what is in them, categories as numbers, and classes read off their scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.placing import count_up, length


def _true_places(b: Builder, mask: Value) -> tuple[Value, Value]:
    """How many elements of each row of a matrix are true, int32, and their columns, row by row, int64."""
    counts = b.cast(b.reduce_sum(b.cast(mask, ir.DataType.INT64), [1]), ir.DataType.INT32)
    return counts, b.squeeze(b.slice(b.op("NonZero", mask), 0, 1, 2), [0])


def _kept(b: Builder, mask: Value, x: Value) -> Value:
    """The elements of a matrix where the mask is true, row by row."""
    return b.op("Compress", b.reshape(x, [-1]), b.reshape(mask, [-1]))


@lowers("DenseVectorToIdList")
def _dense_to_ids(c: Context, x: Value) -> Sequence[Value]:
    """For each row how many elements are not zero as whole numbers, a half being one, and which ones."""
    if x.is_floating:  # the whole part of what is a half more
        x = c.b.cast(x + 0.5, ir.DataType.INT64)
    counts, columns = _true_places(c.b, c.b.op("Not", x.equals(0)))
    return [counts, c.b.cast(columns, ir.DataType.INT32)]


@lowers("MergeDenseFeatureTensors")
def _merge_dense(c: Context, x: Value, presence: Value) -> Sequence[Value]:
    """For each row how many features are present, their ids, and their values."""
    ids = c.integers("feature_ids")
    if c.rank(x) != 2 or c.static(x, 1) != len(ids):
        raise c.refused(f"there are {len(ids)} feature_ids, and a matrix with as many columns is needed")
    counts, columns = _true_places(c.b, presence)
    keys = c.b.op("Gather", c.b.ints(ids), columns, axis=0)
    return [counts, keys, _kept(c.b, presence, x)]


@lowers("StumpFuncIndex")
def _stump_indices(c: Context, x: Value) -> Sequence[Value]:
    """Which elements, counted in row-major order, are at most the threshold, and which are above it."""
    flat = c.b.reshape(x, [-1])
    above = flat > c.argument("threshold", 0.0)
    numbers = c.b.cast(count_up(c.b, length(c.b, flat, 0)), ir.DataType.INT64)
    return [c.b.op("Compress", numbers, mask) for mask in (c.b.op("Not", above), above)]


@lowers("NGramFromCategorical")
def _n_grams(c: Context, x: Value) -> Value:
    """The categories of some columns as one number, the first column's digit being the lowest.

    The digit of a column is the place of its rounded element in the vocabulary of the column, the last one if
    it stands there several times, and 0 if it isn't there. ``vals`` has the vocabularies one after the other,
    ``categorical_limits`` their sizes.
    """
    b = c.b
    columns, sizes = (c.integers(name) for name in ("col_ids", "categorical_limits"))
    words = np.asarray(c.numbers("vals"), np.int64)
    if not columns or len(columns) != len(sizes) or min(sizes) < 1 or len(words) != sum(sizes):
        raise c.refused("it needs col_ids, as many categorical_limits, and vals that these add up to")
    rounded = b.op("Sign", x) * b.op("Floor", b.op("Abs", x) + 0.5) if x.is_floating else x
    rounded = b.cast(rounded, ir.DataType.INT64)
    total: Value | None = None
    start, base = 0, 1
    for column, size in zip(columns, sizes, strict=True):
        hits = b.slice(rounded, 1, column, column + 1).equals(b.constant(words[start : start + size]))
        places = b.where(hits, b.constant(np.arange(size)), 0)
        digit = b.reduce("ReduceMax", places, [1], keepdims=False) * base
        total = digit if total is None else total + digit
        start, base = start + size, base * size
    assert total is not None, "there is a column"
    return total


@lowers("CTCGreedyDecoder")
def _greedy(c: Context, scores: Value, sizes: Value | None = None) -> Sequence[Value]:
    """The most likely class of each step without blanks, class 0, and unless told otherwise repetitions.

    Scores are of shape (steps, batch, classes). Outputs: how many classes each sequence has, and those of all
    sequences one after the other, both int32.
    """
    b = c.b
    best = b.transpose(b.op("ArgMax", scores, axis=2, keepdims=0), [1, 0])  # (batch, steps)
    keep = best > 0
    if c.argument("merge_repeated", True):
        before = b.slice(b.concat([b.slice(best, 1, 0, 1) * 0, best], 1), 1, 0, -1)
        keep = b.op("And", keep, b.op("Not", best.equals(before)))
    if sizes is not None:
        steps = count_up(b, length(b, scores, 0))
        keep = b.op("And", keep, steps < b.unsqueeze(b.cast(sizes, ir.DataType.INT64), [1]))
    counts = b.reduce_sum(b.cast(keep, ir.DataType.INT64), [1])
    return [b.cast(counts, ir.DataType.INT32), b.cast(_kept(b, keep, best), ir.DataType.INT32)]
