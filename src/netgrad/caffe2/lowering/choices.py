"""Choosing the largest, and distinct elements; and the gradient operators of that."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.lowering.arithmetic import chosen
from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.segments import beside
from netgrad.onnx.builder import Value
from netgrad.onnx.rules.placing import joined, length, lengths, numbering, pad_axes


@lowers("TopK")
def _top_k(c: Context, x: Value, wanted: Value | None = None) -> Sequence[Value]:
    """The ``k`` largest along an axis, their places on it, and their numbers in the whole tensor.

    k is an argument, or the second input. What there is less than that is zeros, at place -1.
    """
    b, axis = c.b, c.axis(x, c.argument("axis", -1))
    if wanted is not None:
        count = b.reshape(b.cast(wanted, ir.DataType.INT64), [1])
    elif c.argument("k", 0) < 1:
        raise c.refused("the argument 'k' is missing, or less than 1")
    else:
        count = b.ints([c.argument("k", 0)])
    there, size = count, x.dim(axis)
    if wanted is not None or not isinstance(size, int) or size < c.argument("k", 0):
        there = b.op("Min", count, length(b, x, axis))
    values, places = b.ops("TopK", x, there, outputs=2, axis=axis)
    numbers = b.op("GatherElements", numbering(b, x), places, axis=axis) if c.outputs > 2 else None
    if there is not count:
        margins = {axis: (b.ints([0]), count - there)}
        nowhere = b.scalar(-1, places)
        values, places = pad_axes(b, values, margins), pad_axes(b, places, margins, nowhere)
        numbers = None if numbers is None else pad_axes(b, numbers, margins, nowhere)
    return [values, places] if numbers is None else [values, places, b.reshape(numbers, [-1])]


@lowers("TopKGradient")
def _top_k_gradient(c: Context, dy: Value, places: Value, x: Value) -> Value:
    b, axis = c.b, c.axis(x, c.argument("axis", -1))
    slopes, there = b.where(places < 0, 0.0, dy), b.op("Max", places, b.scalar(0, places))
    spread = b.op("ScatterElements", b.zeros_like(x), there, slopes, axis=axis, reduction="add")
    return b.assume_like(spread, x)


@lowers("RowWiseArgMax")
def _row_wise_arg_max(c: Context, x: Value) -> Value:
    return c.b.op("ArgMax", x, axis=1, keepdims=1)


@lowers("Unique")
def _unique(c: Context, x: Value) -> Sequence[Value]:
    """The distinct elements of a vector, in order, and for each of its elements which it is.

    ONNX Runtime has a kernel for integers of 64 bits.
    """
    narrow = x.dtype is ir.DataType.INT32
    wide = c.b.cast(x, ir.DataType.INT64) if narrow else x
    distinct, _, which, _ = c.b.ops("Unique", wide, outputs=4, axis=0, sorted=1)
    if x.static_shape in ((0,), (1,)):
        distinct = c.b.assume_like(distinct, x)
    distinct = c.b.cast(distinct, ir.DataType.INT32) if narrow else distinct
    return [distinct, c.b.assume_like(c.b.cast(which, ir.DataType.INT32), x)][: c.outputs]


@lowers("Conditional")
def _conditional(c: Context, condition: Value, yes: Value, no: Value) -> Value:
    """A row of the second input where the condition holds, else one of the third."""
    return chosen(c.b, beside(c.b, condition, yes), yes, no)


@lowers("BooleanUnmask")
def _boolean_unmask(c: Context, *pairs: Value) -> Value:
    """What BooleanMask has taken apart, put together: masks and the rows that they keep, in turn.

    No two masks keep the same row. Rows that none keeps are zeros.
    """
    b = c.b
    places, first = [], b.ints([1])
    for mask, rows in zip(pairs[::2], pairs[1::2], strict=True):
        kept = b.cast(mask, ir.DataType.INT64)
        number = b.op("CumSum", kept, b.constant(np.asarray(0))) - 1
        places.append(kept * (number + first))
        first = first + length(b, rows, 0)
    rows = b.concat(pairs[1::2], 0)
    total = places[0] if len(places) == 1 else b.op("Max", *places)
    # Not by Pad, which ONNX Runtime doesn't have for all element types.
    none = b.fill(
        joined(b, [b.ints([1]), lengths(b, rows, 1, c.rank(rows))]), 0.0, rows.dtype or ir.DataType.FLOAT
    )
    return b.op("Gather", b.concat([none, rows], 0), total, axis=0)
