"""Summaries of blobs."""

from __future__ import annotations

import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.onnx.builder import Value


@lowers("Summarize")
def _summarize(c: Context, x: Value) -> Value:
    """Minimum, maximum, mean and unbiased deviation, which is 0 of one element."""
    b = c.b
    if c.argument("to_file", False):
        raise c.refused("only a workspace writes summaries to a file: leave to_file out")
    flat = b.reshape(x, [-1])
    mean = b.reduce_mean(flat, [0], keepdims=True)
    others = b.cast(b.op("Size", flat), flat.dtype or ir.DataType.FLOAT) - 1.0
    squares = b.reduce_sum((flat - mean) * (flat - mean), [0], keepdims=True)
    deviation = b.op("Sqrt", squares / b.op("Max", others, b.scalar(1.0, flat)))
    smallest, largest = (b.reduce(kind, flat, [0], keepdims=True) for kind in ("ReduceMin", "ReduceMax"))
    return b.concat([smallest, largest, mean, deviation], 0)


@lowers("NormalizeL1")
def _normalize_l1(c: Context, x: Value) -> Value:
    """Divided by the sum of absolute values along an axis; zeros stay zeros."""
    axis = c.axis(x, c.argument("axis", -1))
    total = c.b.reduce_sum(c.b.op("Abs", x), [axis], keepdims=True)
    return x / c.b.where(total.equals(0.0), 1.0, total)
