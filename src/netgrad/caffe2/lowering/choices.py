"""Choosing the largest, and distinct elements; and the gradient operators of that."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.onnx.builder import Value
from netgrad.onnx.rules.placing import numbering


@lowers("TopK")
def _top_k(c: Context, x: Value) -> Sequence[Value]:
    """The ``k`` largest along an axis, their places on it, and their numbers in the whole tensor."""
    b, axis = c.b, c.axis(x, c.argument("axis", -1))
    count = c.argument("k", 0)
    if count < 1:
        raise c.refused("the argument 'k' is missing, or less than 1")
    values, places = b.ops("TopK", x, b.ints([count]), outputs=2, axis=axis)
    if c.outputs < 3:
        return [values, places]
    return [values, places, b.reshape(b.op("GatherElements", numbering(b, x), places, axis=axis), [-1])]


@lowers("TopKGradient")
def _top_k_gradient(c: Context, dy: Value, places: Value, x: Value) -> Value:
    axis = c.axis(x, c.argument("axis", -1))
    return c.b.assume_like(c.b.op("ScatterElements", c.b.zeros_like(x), places, dy, axis=axis), x)


@lowers("RowWiseArgMax")
def _row_wise_arg_max(c: Context, x: Value) -> Value:
    return c.b.op("ArgMax", x, axis=1, keepdims=1)


@lowers("Unique")
def _unique(c: Context, x: Value) -> Sequence[Value]:
    """The distinct elements of a vector, in order, and for each of its elements which it is."""
    distinct, _, which, _ = c.b.ops("Unique", x, outputs=4, axis=0, sorted=1)
    return [distinct, c.b.cast(which, ir.DataType.INT32)][: c.outputs]
