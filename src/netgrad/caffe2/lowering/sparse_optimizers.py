"""Updates of some rows of parameters. Each occurrence of a row counts on its own, in order, as in a loop.

A loop over occurrences would be slow. What a row has gathered when occurrence i is reached is a sum over its
earlier occurrences j, with a weight that depends on how many lie between: a product with a matrix that says
which pairs (i, j) are of one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.optimizers import adam_correction, root, scalar
from netgrad.caffe2.lowering.places import from_front
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.onnx.builder import Builder, Value


def _add_rows(c: Context, x: Value, rows: Value, more: Value) -> Value:
    """``x`` with ``more[i]`` added to ``x[rows[i]]`` for each i."""

    def pick(b: Builder, given: list[Value]) -> Sequence[Value]:
        return [b.op("Gather", given[0], given[1], axis=0)]

    return x + gradients(c.b, pick, [c.b.zeros_like(x)], [more], [rows])[0]


@dataclass(frozen=True)
class _Occurrences:
    """The rows that are updated, and which of them are the same.

    Attributes:
        rows: Row numbers, int64 of shape (K,).
        earlier: How many occurrences of the row come before, float of shape (K,).
        same: Whether occurrences i and j are of one row, bool of shape (K, K).
        rank: The rank of what holds the row numbers.
    """

    c: Context
    rows: Value
    earlier: Value
    same: Value
    rank: int

    @staticmethod
    def of(c: Context, indices: Value, like: Value) -> _Occurrences:
        """Those of a vector of row numbers, with floats of the element type of ``like``."""
        b = c.b
        assert like.dtype is not None, "the element type of a blob is known"
        rows = from_front(b, b.reshape(b.cast(indices, ir.DataType.INT64), [-1]))
        same = b.unsqueeze(rows, [1]).equals(b.unsqueeze(rows, [0]))
        zero, one = b.constant(np.int64(0)), b.constant(np.int64(1))
        order = b.op("Range", zero, b.size_along(rows, [0]), one)
        before = b.op("And", same, b.unsqueeze(order, [1]) > b.unsqueeze(order, [0]))
        earlier = b.reduce_sum(b.cast(before, like.dtype), [1])
        return _Occurrences(c, rows, earlier, same, c.rank(indices))

    def of_rows(self, x: Value) -> Value:
        """The rows of ``x`` as a matrix (K, D)."""
        return self.c.b.op("Flatten", self.c.b.op("Gather", x, self.rows, axis=0), axis=1)

    def matrix(self, x: Value) -> Value:
        """One row of ``x`` per occurrence, as a matrix (K, D); there may be none."""
        return self.c.b.op("Flatten", x, axis=self.rank)

    def add(self, x: Value, more: Value) -> Value:
        """``x`` with the rows of the matrix ``more`` added."""
        shape = self.c.b.concat([self.c.b.shape_of(self.rows), _rest(self.c, x)], 0)
        return _add_rows(self.c, x, self.rows, self.c.b.op("Reshape", more, shape, allowzero=1))

    def gathered(self, start: Value, more: Value, decay: float) -> tuple[Value, Value]:
        """What each occurrence finds and leaves in a state: s' = decay s + more, row by row in order.

        Args:
            start: The state before the first occurrence, one row per occurrence.
            more: What each occurrence adds, likewise.
            decay: What the state is multiplied by first.
        """
        b = self.c.b
        first, second = (b.unsqueeze(self.earlier, [axis]) for axis in (1, 0))
        between = first - second - 1.0
        is_before = b.op("And", self.same, between > -0.5)
        weights = b.where(is_before, b.binary("Pow", decay, b.op("Abs", between)), 0.0)
        before = start * b.binary("Pow", decay, first) + weights @ more
        return before, before * decay + more


def _rest(c: Context, x: Value) -> Value:
    """The dims of ``x`` after the first."""
    return c.b.slice(c.b.shape_of(x), 0, 1, 2**62)


@lowers("ScatterWeightedSum")
def _scatter_weighted_sum(c: Context, x: Value, weight: Value, indices: Value, *operands: Value) -> Value:
    """Rows of ``x``, scaled once per occurrence, plus weighted rows of the others."""
    at = _Occurrences.of(c, indices, x)
    total = sum(
        (
            at.matrix(rows) * scalar(c, own, x)
            for rows, own in zip(operands[2::2], operands[3::2], strict=True)
        ),
        start=at.matrix(operands[0]) * scalar(c, operands[1], x),
    )
    assert isinstance(total, Value), "a sum of values is one"
    assert x.dtype is not None, "the element type of a blob is known"
    ones = c.b.full_like(at.earlier, 1.0)
    rows = c.b.slice(c.b.shape_of(x), 0, 0, 1)
    counts = _add_rows(c, c.b.fill(rows, 0.0, x.dtype), at.rows, ones)
    scales = c.b.op("Pow", scalar(c, weight, x), counts)
    return at.add(x * c.b.unsqueeze(scales, range(1, c.rank(x))), total)


@lowers("SparseMomentumSGDUpdate")
def _sparse_momentum(
    c: Context, gradient: Value, momentum: Value, rate: Value, parameter: Value, indices: Value
) -> list[Value]:
    """`MomentumSGDUpdate` of the rows that ``indices`` names."""
    mu = c.argument("momentum", 0.0)
    at = _Occurrences.of(c, indices, parameter)
    before, after = at.gathered(at.of_rows(momentum), at.matrix(gradient) * scalar(c, rate, gradient), mu)
    step = after * (1.0 + mu) - before * mu if c.argument("nesterov", False) else after
    return [
        c.b.reshape_like(step, gradient),
        at.add(momentum, after - before),
        at.add(parameter, -step),
    ]


@lowers("SparseAdagrad")
def _sparse_adagrad(
    c: Context, parameter: Value, history: Value, indices: Value, gradient: Value, rate: Value
) -> list[Value]:
    """`Adagrad` of the rows that ``indices`` names."""
    return _adagrad(c, parameter, history, indices, gradient, rate, by_rows=False)


@lowers("RowWiseSparseAdagrad")
def _row_wise_sparse_adagrad(
    c: Context,
    parameter: Value,
    history: Value,
    indices: Value,
    gradient: Value,
    rate: Value,
    counts: Value | None = None,
) -> list[Value]:
    """`SparseAdagrad` with one history per row, of the mean of g²; counts matter to weight decay alone."""
    return _adagrad(c, parameter, history, indices, gradient, rate, by_rows=True)


def _adagrad(
    c: Context,
    parameter: Value,
    history: Value,
    indices: Value,
    gradient: Value,
    rate: Value,
    *,
    by_rows: bool,
) -> list[Value]:
    if c.argument("weight_decay", 0.0):
        raise c.refused("with a weight decay each occurrence of a row needs the one before: use a workspace")
    at = _Occurrences.of(c, indices, parameter)
    rows = at.matrix(gradient)
    squares = c.b.reduce_mean(rows * rows, [1], keepdims=True) if by_rows else rows * rows
    _, after = at.gathered(at.of_rows(history), squares, 1.0)
    divisor = root(c, after) + c.argument("epsilon", 1e-5)
    step = rows * scalar(c, rate, gradient) / divisor
    return [at.add(parameter, step), at.add(history, squares)]


@lowers("SparseAdam")
def _sparse_adam(
    c: Context,
    parameter: Value,
    first: Value,
    second: Value,
    indices: Value,
    gradient: Value,
    rate: Value,
    iteration: Value,
) -> list[Value]:
    """`Adam` of the rows that ``indices`` names."""
    return _adam(c, parameter, first, second, indices, gradient, (rate, iteration), by_rows=False)


@lowers("RowWiseSparseAdam")
def _row_wise_sparse_adam(
    c: Context,
    parameter: Value,
    first: Value,
    second: Value,
    indices: Value,
    gradient: Value,
    rate: Value,
    iteration: Value,
) -> list[Value]:
    """`SparseAdam` with one second moment per row, of the mean of g²."""
    return _adam(c, parameter, first, second, indices, gradient, (rate, iteration), by_rows=True)


def _adam(
    c: Context,
    parameter: Value,
    first: Value,
    second: Value,
    indices: Value,
    gradient: Value,
    rate: tuple[Value, Value],
    *,
    by_rows: bool,
) -> list[Value]:
    beta1, beta2 = c.argument("beta1", 0.9), c.argument("beta2", 0.999)
    at = _Occurrences.of(c, indices, parameter)
    rows = at.matrix(gradient)
    squares = c.b.reduce_mean(rows * rows, [1], keepdims=True) if by_rows else rows * rows
    before1, after1 = at.gathered(at.of_rows(first), rows * (1.0 - beta1), beta1)
    before2, after2 = at.gathered(at.of_rows(second), squares * (1.0 - beta2), beta2)
    divisor = root(c, after2) + c.argument("epsilon", 1e-5)
    step = after1 / divisor * adam_correction(c, rate[1], parameter)
    if c.argument("enableRAdam", False):
        step = _rectified(c, step, after1, rate[1])
    moved = at.add(parameter, step * scalar(c, rate[0], parameter))
    results = [moved, at.add(first, after1 - before1), at.add(second, after2 - before2)]
    return [*results, c.b.reshape_like(step, gradient)][: c.outputs]


def _rectified(c: Context, step: Value, first: Value, iteration: Value) -> Value:
    """Adam's step rectified for the variance of its rate, or while that is unknown the first moment alone.

    RAdam (Liu et al., arXiv:1908.03265), which takes the variance as known from a length of 5 on.
    """
    b, beta2 = c.b, c.argument("beta2", 0.999)
    time = scalar(c, iteration, step) + 1.0
    power = b.binary("Pow", beta2, time)
    longest = 2.0 / (1.0 - beta2) - 1.0
    length = longest - 2.0 * time * power / (1.0 - power)
    known = length >= 5.0
    safe = b.where(known, length, 5.0)
    scale = longest / ((longest - 4.0) * (longest - 2.0)) if longest >= 5.0 else 0.0
    factor = root(c, (safe - 4.0) * (safe - 2.0) / safe * scale)
    plain = first / (1.0 - b.binary("Pow", c.argument("beta1", 0.9), time))
    return b.where(known, step * factor, plain)
