"""Rows of padding around ranges of rows, added, removed and summed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.segments import beside, whole, within_segments
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.placing import joined, length, lengths


def _widths(c: Context) -> tuple[int, int]:
    """How many rows of padding come before and behind a range."""
    before = c.argument("padding_width", 1)
    behind = c.argument("end_padding_width", -1)
    return before, before if behind < 0 else behind


def _ranges(b: Builder, rows: Value, sizes: Value | None) -> Value:
    """The lengths of the ranges; without any, all rows are one."""
    return length(b, rows, 0) if sizes is None else whole(b, sizes)


def _starts(b: Builder, sizes: Value) -> Value:
    return b.op("CumSum", sizes, b.constant(np.asarray(0)), exclusive=1)


def _row(b: Builder, given: Value | None, rows: Value) -> Value:
    """A row of padding: zeros unless it is given."""
    assert rows.rank is not None, "the rank of every blob is known"
    assert rows.dtype is not None, "the element type of every blob is known"
    shape = joined(b, [b.ints([1]), *([lengths(b, rows, 1, rows.rank)] if rows.rank > 1 else [])])
    return b.fill(shape, 0.0, rows.dtype) if given is None else b.op("Reshape", given, shape)


@lowers("AddPadding")
def _add(
    c: Context, rows: Value, sizes: Value | None = None, first: Value | None = None, last: Value | None = None
) -> Sequence[Value]:
    """Zeros, or a given row, before each range, and behind it, the same unless another is given."""
    b, (before, behind) = c.b, _widths(c)
    sizes = _ranges(b, rows, sizes)
    longer = sizes + (before + behind)
    ids, within = within_segments(b, longer)
    inner = within - before
    beyond = inner >= b.op("Gather", sizes, ids, axis=0)
    # Row 0 is the padding in front, row 1 that behind.
    places = b.where(
        inner < 0, 0, b.where(beyond, 1, b.op("Gather", _starts(b, sizes), ids, axis=0) + inner + 2)
    )
    edges = [_row(b, first, rows), _row(b, first if last is None else last, rows)]
    padded = b.op("Gather", b.concat([*edges, rows], 0), places, axis=0)
    shape, ranges = rows.static_shape, sizes.dim(0)
    if shape is not None and isinstance(ranges, int):
        padded = b.assume_shape(padded, (shape[0] + ranges * (before + behind), *shape[1:]))
    return [padded, b.cast(longer, ir.DataType.INT32)][: c.outputs]


@lowers("RemovePadding")
def _remove(c: Context, rows: Value, sizes: Value | None = None) -> Sequence[Value]:
    """The opposite of AddPadding."""
    b, (before, behind) = c.b, _widths(c)
    sizes = _ranges(b, rows, sizes)
    shorter = sizes - (before + behind)
    ids, within = within_segments(b, shorter)
    places = b.op("Gather", _starts(b, sizes), ids, axis=0) + within + before
    return [b.op("Gather", rows, places, axis=0), b.cast(shorter, ir.DataType.INT32)][: c.outputs]


@lowers("GatherPadding")
def _gather(c: Context, rows: Value, sizes: Value | None = None) -> Sequence[Value]:
    """The sums of the padding rows before ranges, and behind them; or of both, with one output."""
    b, (before, behind) = c.b, _widths(c)
    sizes = _ranges(b, rows, sizes)
    ids, within = within_segments(b, sizes)
    in_front = within < before
    at_end = within >= b.op("Gather", sizes, ids, axis=0) - behind
    masks = [in_front, at_end] if c.outputs > 1 else [b.op("Or", in_front, at_end)]
    return [b.reduce_sum(b.where(beside(b, mask, rows), rows, 0.0), [0]) for mask in masks]
