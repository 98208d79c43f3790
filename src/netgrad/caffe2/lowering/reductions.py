"""Sums, means and maxima over dims, and their gradient operators."""

from __future__ import annotations

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


def _reduced(c: Context, b: Builder, x: Value, type_: str) -> Value:
    axes = [c.axis(x, int(axis)) for axis in c.numbers("axes")] or list(range(c.rank(x)))
    return b.reduce(type_, x, axes, keepdims=c.argument("keepdims", True))


@lowers(*_REDUCTIONS)
def _reduce(c: Context, x: Value) -> Value:
    return _reduced(c, c.b, x, _REDUCTIONS[c.definition.type])


@lowers(*(f"{type_}Gradient" for type_ in _REDUCTIONS))
def _reduce_gradient(c: Context, dy: Value, x: Value, y: Value) -> list[Value]:
    type_ = _REDUCTIONS[c.definition.type.removesuffix("Gradient")]
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
    if not sizes and type_ == "ReduceFrontSum" and c.rank(x) == 1:
        return _summed_in_order(b, x)
    if not sizes:
        return b.reduce(reduction, x, axes, keepdims=False)
    # As a matrix, whose rows or columns are reduced as far as their lengths say.
    matrix = b.op("Flatten", x, axis=count if end == "Front" else c.rank(x) - count)
    axis = 0 if end == "Front" else 1
    lengths = b.unsqueeze(b.cast(sizes[0], ir.DataType.INT64), [axis])
    numbers = b.unsqueeze(count_up(b, length(b, matrix, axis)), [1 - axis])
    if reduction == "ReduceMax":
        lengths = b.op("Max", lengths, b.constant(np.asarray(1)))  # the first element counts in any case
        reduced = b.reduce(reduction, b.where(numbers < lengths, matrix, -np.inf), [axis], keepdims=False)
    else:
        reduced = b.reduce_sum(b.where(numbers < lengths, matrix, 0.0), [axis])
        if reduction == "ReduceMean":
            reduced = reduced / b.squeeze(b.cast(lengths, x.dtype or ir.DataType.FLOAT), [axis])
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
    sizes = rest[1:] if type_.endswith("Max") else rest
    if x.dtype == ir.DataType.INT64 and not type_.endswith("Max"):
        assert dy.dtype is not None, "the element type of every blob is known"
        x = c.b.assume_shape(c.b.fill(x, 0, dy.dtype), (None,) * c.static(x, 0))
    return gradients(c.b, lambda b, given: [_one_end(c, b, given, type_)], [x], [dy], sizes)


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
    return gradients(
        c.b, lambda b, given: [b.reduce("ReduceMax", given[0], [axis], keepdims=False)], [x], [dy]
    )
