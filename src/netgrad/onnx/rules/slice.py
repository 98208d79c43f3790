"""Gradient rules of operators that keep part of a tensor: Slice and Compress."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.placing import (
    collect,
    collect_distinct,
    count_up,
    elements,
    length,
    numbering,
    pad_axes,
    scatter_flat,
)
from netgrad.onnx.rules.unranked import AxisView

# Exporters write the largest integer for "to the end"; no dim can reach this one.
_BEYOND_ANY_DIM = 1 << 62


@dataclass(frozen=True)
class _Cut:
    """What Slice does to one axis; bounds are integers or int64 tensors of shape (1,)."""

    axis: int
    start: int | Value
    end: int | Value
    step: int


@rule("Slice", not_differentiable=(1, 2, 3, 4))
def slice_(op: RuleContext, dy: Value) -> Value:
    """Y[j, ..] = X[start + j step, ..]; dX = dY at the places it was taken from, 0 elsewhere.

    All axes with step 1 together are one Pad. An axis with another step is one Gather (see `collect`). Where
    axes or steps are known only at run time, the places are found by slicing the elements' numbers.
    """
    b, x = op.builder, op.input
    cuts = _cuts(op)
    if cuts is None:
        return scatter_flat(b, dy, b.op("Slice", numbering(b, x), *op.inputs[1:]), x)
    dx = dy
    for cut in cuts:
        if cut.step != 1:
            dx = _collect_strided(b, dx, x, cut)
    margins = {cut.axis: _margins(b, dy, x, cut) for cut in cuts if cut.step == 1}
    margins = {axis: pair for axis, pair in margins.items() if not all(map(_is_zero, pair))}
    return pad_axes(b, dx, margins) if margins else dx


def _cuts(op: RuleContext) -> list[_Cut] | None:
    """The cut along each axis; None where axes, steps or the rank are known only at run time."""
    starts, ends, axes, steps = op.required(1), op.required(2), op.optional(3), op.optional(4)
    rank, count = op.input.rank, starts.dim(0)
    if rank is None or not isinstance(count, int):
        return None
    if (axes is not None and axes.constant is None) or (steps is not None and steps.constant is None):
        return None
    numbers = range(count) if axes is None or axes.constant is None else axes.constant.tolist()
    strides = [1] * count if steps is None or steps.constant is None else steps.constant.tolist()
    return [
        _Cut(axis % rank, _bound(op.builder, starts, k), _bound(op.builder, ends, k), step)
        for k, (axis, step) in enumerate(zip(numbers, strides, strict=True))
    ]


def _bound(b: Builder, bounds: Value, k: int) -> int | Value:
    if bounds.constant is not None:
        return int(bounds.constant[k])
    return b.cast(b.slice(bounds, 0, k, k + 1) if bounds.dim(0) != 1 else bounds, ir.DataType.INT64)


def _places(size: int, start: int, end: int, step: int) -> range:
    """The entries that a slice takes; unlike in Python, a start too far below goes to 0 with any step."""
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start, end = (bound + size if bound < 0 else bound for bound in (start, end))
    return range(min(max(start, 0), high), min(max(end, low), high), step)


def _margins(b: Builder, dy: Value, x: Value, cut: _Cut) -> tuple[Value, Value]:
    """How many entries were cut off before and after, with step 1: int64 of shape (1,), constant if known."""
    size = x.dim(cut.axis)
    if isinstance(size, int) and isinstance(cut.start, int) and isinstance(cut.end, int):
        places = _places(size, cut.start, cut.end, 1)
        return b.ints([places.start]), b.ints([size - max(places.start, places.stop)])
    cut_off = length(b, x, cut.axis) - length(b, dy, cut.axis)
    if cut.start == 0:
        return b.ints([0]), cut_off
    if isinstance(cut.end, int) and cut.end >= _BEYOND_ANY_DIM:
        return cut_off, b.ints([0])
    if isinstance(size, int) and isinstance(cut.start, int):
        before = b.ints([_places(size, cut.start, size, 1).start])
    else:
        # The runtime itself brings the bound into range: as many entries as lie before it.
        axis_itself = b.op("ConstantOfShape", length(b, x, cut.axis))
        before = b.op("Shape", b.slice(axis_itself, 0, 0, cut.start))
    return before, cut_off - before


def _is_zero(margin: Value) -> bool:
    return margin.constant is not None and not margin.constant.any()


def _collect_strided(b: Builder, dy: Value, x: Value, cut: _Cut) -> Value:
    size = x.dim(cut.axis)
    if isinstance(size, int) and isinstance(cut.start, int) and isinstance(cut.end, int):
        return collect(b, dy, cut.axis, _places(size, cut.start, cut.end, cut.step), size)
    places_found = b.slice(count_up(b, length(b, x, cut.axis)), 0, cut.start, cut.end, cut.step)
    return collect_distinct(b, dy, cut.axis, places_found, length(b, x, cut.axis))


@rule("Compress", attributes=("axis",), not_differentiable=(1,))
def compress(op: RuleContext, dy: Value) -> Value:
    """Y = the entries of X along an axis (or of X flattened) where a condition holds; dX = dY put back."""
    b, x, condition, axis = op.builder, op.input, op.required(1), op.attribute("axis")
    if axis is None:
        return scatter_flat(b, dy, b.op("Compress", count_up(b, elements(b, x)), condition), x)
    if x.rank is None:
        view = AxisView(b, x, axis)
        places = b.op("Compress", count_up(b, view.size), condition, axis=0)
        return b.reshape_like(collect_distinct(b, view.of(dy, elements(b, places)), 1, places, view.size), x)
    axis %= x.rank
    places = b.op("Compress", count_up(b, length(b, x, axis)), condition, axis=0)
    return collect_distinct(b, dy, axis, places, length(b, x, axis))
