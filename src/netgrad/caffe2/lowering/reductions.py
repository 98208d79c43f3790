"""Sums, means and maxima over dims, and their gradient operators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.segments import beside, whole
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.placing import count_up, length
from netgrad.onnx.rules.placing import lengths as dims


@lowers("SumElements", "SumElementsInt", "SumSqrElements")
def _sum_elements(c: Context, x: Value) -> Value:
    return _summed(c, c.b, x)


def _summed(c: Context, b: Builder, x: Value) -> Value:
    axes = range(c.rank(x))
    terms = x * x if c.definition.type.startswith("SumSqr") else x
    return b.reduce_mean(terms, axes) if c.argument("average", False) else b.reduce_sum(terms, axes)


@lowers("SumElementsGradient")
def _sum_elements_gradient(c: Context, x: Value, dy: Value) -> list[Value]:
    return gradients(c.b, lambda b, given: [_summed(c, b, given[0])], [x], [c.b.reshape(dy, [])])


_REDUCTIONS = {
    "ReduceSum": "ReduceSum",
    "ReduceMean": "ReduceMean",
    "ReduceMax": "ReduceMax",
    "ReduceMin": "ReduceMin",
    "ReduceL1": "ReduceL1",
    "ReduceL2": "ReduceL2",
}


def _axes(c: Context, x: Value) -> list[int]:
    return [c.axis(x, axis) for axis in c.integers("axes")] or list(range(c.rank(x)))


def _reduced(c: Context, b: Builder, x: Value, type_: str) -> Value:
    if c.rank(x) == 0 and type_ in ("ReduceL1", "ReduceL2"):
        return b.op("Abs", x)
    return b.reduce(type_, x, _axes(c, x), keepdims=c.argument("keepdims", True))


def _to_extremes(b: Builder, x: Value, y: Value, dy: Value, axes: Sequence[int]) -> Value:
    """Every element that equals the extremum gets its whole gradient, as in the original.

    Args:
        b: Writes the operators.
        x: What was reduced.
        y: Its maxima or minima, without the axes, unless there are none.
        dy: Their gradients.
        axes: The axes that were reduced, in order.
    """
    extreme, slope = (b.unsqueeze(value, axes) for value in (y, dy))
    return b.assume_like(b.where(x.equals(extreme), slope, 0.0), x)


@lowers(*_REDUCTIONS)
def _reduce(c: Context, x: Value) -> Value:
    return _reduced(c, c.b, x, _REDUCTIONS[c.definition.type])


@lowers(*(f"{type_}Gradient" for type_ in _REDUCTIONS))
def _reduce_gradient(c: Context, dy: Value, x: Value, y: Value) -> list[Value]:
    type_ = _REDUCTIONS[c.definition.type.removesuffix("Gradient")]
    if type_ in ("ReduceMax", "ReduceMin"):
        removed = [] if c.argument("keepdims", True) else sorted(_axes(c, x))
        return [_to_extremes(c.b, x, y, dy, removed)]
    return gradients(c.b, lambda b, given: [_reduced(c, b, given[0], type_)], [x], [dy])


# ---- over the first or the last dims -----------------------------------------------------------------

_ENDS = {
    f"Reduce{end}{kind}": (end, f"Reduce{kind}")
    for end in ("Front", "Back")
    for kind in ("Sum", "Mean", "Max")
}


def _one_end(c: Context, b: Builder, given: list[Value], type_: str) -> Value:
    x, *sizes = given
    end, reduction = _ENDS[type_]
    count = c.argument("num_reduce_dim", 1)
    axes = list(range(count) if end == "Front" else range(c.rank(x) - count, c.rank(x)))
    if not sizes and type_ == "ReduceFrontSum" and c.rank(x) == len(axes) == 1:
        return _summed_in_order(b, x)
    if not sizes:
        return b.reduce(reduction, x, axes, keepdims=False)
    # As a matrix, whose rows or columns are reduced as far as their lengths say.
    matrix = b.op("Flatten", x, axis=count if end == "Front" else c.rank(x) - count)
    axis = 0 if end == "Front" else 1
    if reduction == "ReduceMax":  # the first element counts in any case
        inside = _counted(b, matrix, sizes[0], axis, at_least=1)
        reduced = b.reduce(reduction, b.where(inside, matrix, -np.inf), [axis], keepdims=False)
    else:
        inside = _counted(b, matrix, sizes[0], axis, at_least=0)
        reduced = b.reduce_sum(b.where(inside, matrix, 0.0), [axis])
        if reduction == "ReduceMean":
            reduced = reduced / b.cast(sizes[0], x.dtype or ir.DataType.FLOAT)
    kept = range(count, c.rank(x)) if end == "Front" else range(c.rank(x) - count)
    if len(kept) == 1:
        return reduced
    return b.op("Reshape", reduced, dims(b, x, kept.start, kept.stop), allowzero=1)


def _summed_in_order(b: Builder, x: Value) -> Value:
    """The sum of a vector, one element after the other, rounded as in the original.

    ONNX Runtime adds the elements of a vector in several lanes, but the rows of a matrix in their order.
    Weights that settle, as those of Adadelta with a rate of 1, are at the mercy of the last bit.
    """
    column = b.unsqueeze(x, [1])
    twice = b.op("Concat", column, column, axis=1)
    return b.op("Gather", b.reduce_sum(twice, [0]), b.constant(np.asarray(0)), axis=0)


@lowers(*_ENDS)
def _reduce_one_end(c: Context, *given: Value) -> Value:
    """With lengths, only so many of the first elements count."""
    return _one_end(c, c.b, list(given), c.definition.type)


@lowers(*(f"{type_}Gradient" for type_ in _ENDS))
def _reduce_one_end_gradient(c: Context, dy: Value, x: Value, *rest: Value) -> list[Value]:
    """Of sums and means, ``x`` may also be its shape, as int64."""
    type_ = c.definition.type.removesuffix("Gradient")
    if type_.endswith("Max"):
        return [_to_maxima(c, dy, x, *rest)]
    if x.dtype == ir.DataType.INT64 and dy.is_floating:
        assert dy.dtype is not None, "the element type of every blob is known"
        x = c.b.assume_shape(c.b.fill(x, 0, dy.dtype), (None,) * c.static(x, 0))
    return gradients(c.b, lambda b, given: [_one_end(c, b, given, type_)], [x], [dy], rest)


def _to_maxima(c: Context, dy: Value, x: Value, y: Value, sizes: Value | None = None) -> Value:
    """The gradient of maxima over the first or the last dims."""
    b, count = c.b, c.argument("num_reduce_dim", 1)
    front = _ENDS[c.definition.type.removesuffix("Gradient")][0] == "Front"
    if sizes is None:
        axes = range(count) if front else range(c.rank(x) - count, c.rank(x))
        return _to_extremes(b, x, y, dy, axes)
    axis = 0 if front else 1
    matrix = b.op("Flatten", x, axis=count if front else c.rank(x) - count)
    y, dy = (b.reshape(value, [-1]) for value in (y, dy))
    inside = _counted(b, matrix, sizes, axis, at_least=1)
    return b.reshape_like(b.where(inside, _to_extremes(b, matrix, y, dy, [axis]), 0.0), x)


def _counted(b: Builder, matrix: Value, sizes: Value, axis: int, at_least: int) -> Value:
    """Which elements of the rows or columns of a matrix count by their lengths: a truth value for each."""
    lengths = b.unsqueeze(b.cast(sizes, ir.DataType.INT64), [axis])
    if at_least:
        lengths = b.op("Max", lengths, b.constant(np.asarray(at_least)))
    return b.unsqueeze(count_up(b, length(b, matrix, axis)), [1 - axis]) < lengths


@lowers("ReduceFrontWeightedSum")
def _front_weighted_sum(c: Context, x: Value, weights: Value) -> Value:
    count = c.argument("num_reduce_dim", 1)
    rows = x if count == 1 else c.b.op("Flatten", x, axis=count)
    reduced = c.b.reduce_sum(rows * beside(c.b, weights, rows), [0])
    if count == 1:
        return reduced
    return c.b.op("Reshape", reduced, dims(c.b, x, count, c.rank(x)), allowzero=1)


@lowers("ReduceFrontWeightedSumGradient")
def _front_weighted_sum_gradient(c: Context, weights: Value, dy: Value, shape: Value) -> Value:
    row = c.b.unsqueeze(dy, [0])
    by_row = row * beside(c.b, weights, row)
    count = c.argument("num_reduce_dim", 1)
    if count == 1:
        return by_row
    result = c.b.op("Reshape", by_row, whole(c.b, shape), allowzero=1)
    return c.b.assume_shape(result, (None,) * (c.rank(dy) + count))


# ---- over rows and columns ---------------------------------------------------------------------------

_ROWS_AND_COLUMNS = {"RowwiseMax": 2, "ColwiseMax": 1}


@lowers(*_ROWS_AND_COLUMNS)
def _matrix_max(c: Context, x: Value) -> Value:
    """The maximum of each row, or column, of each matrix of a batch."""
    return c.b.reduce("ReduceMax", x, [_ROWS_AND_COLUMNS[c.definition.type]], keepdims=False)


@lowers(*(f"{type_}Gradient" for type_ in _ROWS_AND_COLUMNS))
def _matrix_max_gradient(c: Context, x: Value, y: Value, dy: Value) -> list[Value]:
    axis = _ROWS_AND_COLUMNS[c.definition.type.removesuffix("Gradient")]
    return [_to_extremes(c.b, x, y, dy, [axis])]
