"""Rows of a table that are given by their numbers: copied over, and pulled towards zero."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.segments import beside, ones, whole
from netgrad.onnx.builder import Value
from netgrad.onnx.rules.placing import length, scatter_along


def _hits(c: Context, table: Value, numbers: Value) -> Value:
    """How often each row of a table is named, int64."""
    numbers = c.b.reshape(whole(c.b, numbers), [-1])
    return scatter_along(c.b, ones(c.b, numbers), 0, numbers, length(c.b, table, 0))


@lowers("CopyRowsToTensor")
def _copy_rows(c: Context, table: Value, numbers: Value, row: Value) -> Value:
    """The table with one row at all the places with the given numbers."""
    if c.rank(table) != 2 or c.static(table, 1) != c.static(row, 0):
        raise c.refused("the width of input tensor should match lengths of row")
    return c.b.where(beside(c.b, _hits(c, table, numbers) > 0, table), c.b.unsqueeze(row, [0]), table)


@lowers("CopyRowsToTensorGradient")
def _copy_rows_gradient(c: Context, dy: Value, numbers: Value) -> Sequence[Value]:
    """The gradient of the table, which is zero in the rows that are copied over, and that of the row.

    The original's operator reads dy alone and passes all of it on, as if nothing were copied over.
    """
    copied = beside(c.b, _hits(c, dy, numbers) > 0, dy)
    row = c.b.reduce_sum(c.b.where(copied, dy, 0.0), [0])
    return [c.b.where(copied, 0.0, dy), row][: c.outputs]


@lowers("SparseLpRegularizer")
def _sparse_lp_regularizer(c: Context, table: Value, numbers: Value, *_: Value) -> Value:
    """Each time that a row is named: ``p`` 2 takes a share ``reg_lambda`` off, 1 that much from all sizes."""
    b, amount, p = c.b, c.argument("reg_lambda", 0.0), c.argument("p", 2.0)
    if p not in (1.0, 2.0):
        raise c.refused(f"argument 'p' is {p}, and must be 1 or 2")
    if not 0.0 < amount < 1.0:
        raise c.refused(f"argument 'reg_lambda' is {amount}, and must lie between 0 and 1")
    wide = b.cast(table, ir.DataType.FLOAT)
    times = b.cast(beside(b, _hits(c, table, numbers), table), ir.DataType.FLOAT)
    if p == 2.0:
        moved = wide * b.binary("Pow", 1.0 - amount, times)
    else:
        moved = b.op("Sign", wide) * b.op(
            "Max", b.op("Abs", wide) - times * amount, b.constant(np.float32(0))
        )
    return b.cast(moved, table.dtype or ir.DataType.FLOAT)
