"""Operators around parameters and rows that have no gradient: rows and elements set, tests, clipping."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.onnx.builder import Value


@lowers("ScatterAssign")
def _scatter_assign(c: Context, data: Value, indices: Value, rows: Value) -> Value:
    """Write rows; of a row that is written twice one of the values stays."""
    places = c.b.reshape(c.b.cast(indices, ir.DataType.INT64), [-1, 1])
    count = c.b.slice(c.b.shape_of(places), 0, 0, 1)
    rest = c.b.slice(c.b.shape_of(data), 0, 1, 2**62)
    return c.b.op("ScatterND", data, places, c.b.op("Reshape", rows, c.b.concat([count, rest], 0)))


@lowers("Scatter")
def _scatter(c: Context, data: Value, indices: Value, updates: Value) -> Value:
    """Write elements at places along an axis; of one that is written twice one of the values stays."""
    if updates.dtype != data.dtype:
        raise c.refused(f"its updates are {updates.dtype}, and its data is {data.dtype}")
    return c.b.op("ScatterElements", data, indices, updates, axis=c.axis(data, c.argument("axis", 1)))


@lowers("IsEmpty", "HasElements")
def _is_empty(c: Context, *tensors: Value) -> Value:
    """Whether a tensor has no element, or any of several has one."""
    counts = [c.b.op("Size", tensor) for tensor in tensors]
    total = counts[0] if len(counts) == 1 else c.b.op("Sum", *[_as_double(c, one) for one in counts])
    empty = total.equals(0)
    return empty if c.definition.type == "IsEmpty" else c.b.op("Not", empty)


def _as_double(c: Context, x: Value) -> Value:
    return c.b.cast(x, ir.DataType.DOUBLE)


@lowers("ClipTensorByScaling")
def _clip_tensor_by_scaling(c: Context, x: Value, size: Value, further: Value | None = None) -> Value:
    """Multiply by threshold / size where size is above the threshold, times a further input."""
    if not c.has("threshold"):
        raise c.refused("the argument 'threshold' is missing")
    measured = c.b.reshape(size, [])
    limit = c.b.scalar(c.argument("threshold", 1.0), measured)
    if further is not None:
        limit = limit * c.b.reshape(further, [])
    return x * c.b.where(measured > limit, limit / measured, 1.0)


@lowers("OneHot")
def _one_hot(c: Context, indices: Value, size: Value) -> Value:
    """A row per index, 1 at its place."""
    places = c.b.op("Range", c.b.constant(np.int64(0)), _whole(c, size), c.b.constant(np.int64(1)))
    hits = c.b.unsqueeze(c.b.cast(indices, ir.DataType.INT64), [1]).equals(c.b.unsqueeze(places, [0]))
    return c.b.cast(hits, ir.DataType.FLOAT)


def _whole(c: Context, x: Value) -> Value:
    return c.b.reshape(c.b.cast(x, ir.DataType.INT64), [])


@lowers("Range")
def _range(c: Context, *bounds: Value) -> Value:
    """Numbers from start (0) to before stop by step (1)."""
    ends = [c.b.reshape(bound, []) for bound in bounds]
    start, step = c.b.scalar(0, ends[0]), c.b.scalar(1, ends[0])
    if len(ends) > 1:
        start = ends.pop(0)
    if len(ends) > 1:
        step = ends.pop()
    return c.b.op("Range", start, ends[0], step)


@lowers("ReplaceNaN")
def _replace_nan(c: Context, x: Value) -> Value:
    return c.b.where(c.b.op("IsNaN", x), c.argument("value", 0.0), x)
