"""Keys and classes as truth values and places, and figures about classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.segments import segment_ids, whole
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.placing import count_up, length, scatter_along


def _classes(b: Builder, size: Value) -> Value:
    return count_up(b, b.reshape(whole(b, size), [1]))


def _hits(b: Builder, indices: Value, size: Value) -> Value:
    return b.reshape(whole(b, indices), [-1, 1]).equals(_classes(b, size))


@lowers("SegmentOneHot")
def _segment_one_hot(c: Context, lengths: Value, indices: Value, size: Value) -> Value:
    """Numbers of shape (segments, classes): 1 where a class is among the indices of a segment."""
    b = c.b
    ids = segment_ids(b, lengths, length(b, indices, 0))
    hits = b.cast(_hits(b, indices, size), ir.DataType.INT64)
    shape = b.concat([length(b, lengths, 0), b.reshape(whole(b, size), [1])], 0)
    return b.cast(scatter_along(b, hits, 0, ids, shape) > 0, ir.DataType.FLOAT)


@lowers("BatchOneHot")
def _batch_one_hot(c: Context, x: Value, lengths: Value, values: Value) -> Value:
    """1 where a column of the matrix has one of the values listed for it: of shape (rows, values)."""
    b = c.b
    columns = b.op("Gather", x, segment_ids(b, lengths, length(b, values, 0)), axis=1)
    assert x.dtype is not None, "the element type of every blob is known"
    return b.cast(columns.equals(values), x.dtype)


@lowers("IsMemberOf")
def _is_member(c: Context, x: Value) -> Value:
    """Whether each element is among the numbers of the argument."""
    b, listed = c.b, c.numbers("value")
    if not listed or any(isinstance(number, bytes) for number in listed):
        raise c.refused("the argument 'value' lists no numbers")
    hits = b.unsqueeze(x, [c.rank(x)]).equals(b.constant(np.asarray(listed), x.dtype))
    found = b.op("ReduceMax", b.cast(hits, ir.DataType.INT32), b.ints([c.rank(x)]), keepdims=0)
    return b.cast(found, ir.DataType.BOOL)


@lowers("Find")
def _find(c: Context, index: Value, query: Value) -> Value:
    """Where each element of the second input lies in the first, at the last place; or ``missing_value``."""
    b = c.b
    hits = b.unsqueeze(query, [c.rank(query)]).equals(b.reshape(index, [-1]))
    places = b.where(hits, count_up(b, b.reshape(b.size_along(index, range(c.rank(index))), [1])), -1)
    last = b.op("ReduceMax", places, b.ints([c.rank(query)]), keepdims=0)
    assert index.dtype is not None, "the element type of every blob is known"
    return b.cast(b.where(last >= 0, last, c.argument("missing_value", -1)), index.dtype)


@lowers("MultiClassAccuracy")
def _accuracies(c: Context, scores: Value, labels: Value) -> Sequence[Value]:
    """For each class the share of its rows whose largest score it is, 0 without rows; and their number."""
    b = c.b
    classes = length(b, scores, 1)
    labels = whole(b, labels)
    right = b.cast(b.op("ArgMax", scores, axis=1, keepdims=0).equals(labels), ir.DataType.INT64)
    ones = b.fill(b.shape_of(labels), 1, ir.DataType.INT64)
    hits, amounts = (scatter_along(b, terms, 0, labels, classes) for terms in (right, ones))
    counts = b.cast(b.op("Max", amounts, b.constant(np.asarray(1))), ir.DataType.FLOAT)
    return [b.cast(hits, ir.DataType.FLOAT) / counts, b.cast(amounts, ir.DataType.INT32)]


@lowers("Perplexity")
def _perplexity(c: Context, probabilities: Value) -> Value:
    """Exp of the mean of -ln p."""
    logarithms = c.b.op("Log", probabilities)
    return c.b.op("Exp", -c.b.reduce_mean(logarithms, range(c.rank(probabilities))))


@lowers("Bucketize")
def _bucketize(c: Context, x: Value) -> Value:
    """Which bucket an element lies in, int32; a bucket has its upper bound in it."""
    bounds = np.asarray(c.numbers("boundaries"), np.float64)
    assert x.dtype is not None, "the element type of a blob is known"
    above = c.b.unsqueeze(x, [c.rank(x)]) > c.b.constant(bounds, x.dtype)
    return c.b.cast(c.b.reduce_sum(c.b.cast(above, ir.DataType.INT64), [c.rank(x)]), ir.DataType.INT32)


@lowers("BatchBucketize")
def _batch_bucketize(c: Context, x: Value, columns: Value, bounds: Value, lengths: Value) -> Value:
    """Which bucket elements of some columns lie in; each has as many bounds as its length says."""
    b = c.b
    owners = segment_ids(b, lengths, length(b, bounds, 0))
    own = b.op("Gather", x, b.op("Gather", whole(b, columns), owners, axis=0), axis=1)
    above = b.cast(own > bounds, ir.DataType.INT64)
    shape = b.concat([length(b, x, 0), length(b, lengths, 0)], 0)
    return b.cast(scatter_along(b, above, 1, owners, shape), ir.DataType.INT32)


@lowers("LengthsSplit")
def _lengths_split(c: Context, sizes: Value, parts: Value | None = None) -> Value:
    """Each length as a sum of ``n_split`` ones that differ by 1 at most, the larger ones in front."""
    b = c.b
    if parts is not None:
        count = b.reshape(b.cast(parts, ir.DataType.INT64), [1])
    elif c.argument("n_split", -1) < 1:
        raise c.refused("the argument 'n_split' is missing, or less than 1")
    else:
        count = b.ints([c.argument("n_split", -1)])
    whole = b.unsqueeze(b.cast(sizes, ir.DataType.INT64), [1])
    each = whole / count
    more = b.cast(count_up(b, count) < whole - each * count, ir.DataType.INT64)
    return b.cast(b.reshape(each + more, [-1]), ir.DataType.INT32)
