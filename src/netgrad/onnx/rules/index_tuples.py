"""Index tuples, as in GatherND and ScatterND, read as row numbers of a matrix."""

from __future__ import annotations

from dataclasses import dataclass

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.placing import count_up, elements, joined, lengths, product


@dataclass(frozen=True)
class RowView:
    """X[n.., p.., c..], indexed by tuples over n.. and p.., as a matrix with a row per place.

    Attributes:
        numbers: The row that each tuple names; int64, in row-major order of the tuples. Negative numbers
            count from the end.
        rows: Rows of the matrix, int64 of shape (1,).
        width: Columns: elements of one c..; int64 of shape (1,).
        count: Number of tuples, int64 of shape (1,).
    """

    numbers: Value
    rows: Value
    width: Value
    count: Value

    def matrix(self, b: Builder, x: Value) -> Value:
        """A tensor of the shape of X as the matrix."""
        return self._two_axes(b, x, self.rows)

    def entries(self, b: Builder, y: Value) -> Value:
        """A tensor with one c.. per tuple as a matrix with a row per tuple."""
        return self._two_axes(b, y, self.count)

    def _two_axes(self, b: Builder, x: Value, rows: Value) -> Value:
        seen = b.op("Reshape", x, joined(b, [rows, self.width]), allowzero=1)
        return b.assume_shape(seen, (None, None))


def row_view(op: RuleContext, x: Value, indices: Value, entries: Value, batch_dims: int = 0) -> RowView:
    """The matrix that the tuples in the last axis of ``indices`` index, after ``batch_dims`` common axes.

    ``entries`` is what the tuples name, of the shape n.., i.., c..: its rank says how long the tuples are
    where the shape of the indices does not.
    """
    b = op.builder
    rank, width = x.rank, indices.dim(-1)
    if rank is not None and not isinstance(width, int) and None not in (indices.rank, entries.rank):
        width = op.rank(indices) - 1 + rank - batch_dims - op.rank(entries)
    if rank is None or not isinstance(width, int) or (batch_dims and indices.rank is None):
        return _at_run_time(b, x, indices, batch_dims)
    last = batch_dims + width
    numbers = indices
    if batch_dims or width > 1:
        numbers = _numbers(op, x, indices, batch_dims, width)
    return RowView(
        numbers,
        product(b, x, 0, last),
        product(b, x, last, rank),
        elements(b, numbers),
    )


def _at_run_time(b: Builder, x: Value, indices: Value, batch_dims: int) -> RowView:
    """The same where neither ranks nor the length of the tuples need be known."""
    shape, places = b.op("Shape", x), b.op("Shape", indices)
    first, zero = b.ints([batch_dims]), b.ints([0])
    width = b.op("Slice", places, b.ints([-1]), b.ints([2**62]))
    last = first + width
    digits = b.op("Slice", shape, first, last, zero)
    # The weight of a digit is the product of the sizes behind its own.
    order = count_up(b, width)
    behind = b.unsqueeze(order, [1]) < b.unsqueeze(order, [0])
    weights = b.op("ReduceProd", b.where(behind, digits, 1), b.ints([1]), keepdims=0)
    numbers = b.reduce_sum(b.op("Mod", indices, digits) * weights, [-1])
    if batch_dims:
        batch = b.op("Slice", shape, zero, first, zero)
        count = b.op("ReduceProd", batch, keepdims=1)
        rest = b.op("Shape", places) - b.ints([1 + batch_dims])
        column = b.concat([batch, b.op("Expand", b.ints([1]), rest)], axis=0)
        each = b.op("ReduceProd", digits, keepdims=1)
        numbers = numbers + b.op("Reshape", count_up(b, count) * each, column, allowzero=1)
    return RowView(
        b.reshape(numbers, [-1]),
        b.op("ReduceProd", b.op("Slice", shape, zero, last, zero), keepdims=1),
        b.op("ReduceProd", b.op("Slice", shape, last, b.ints([2**62]), zero), keepdims=1),
        elements(b, numbers),
    )


def _numbers(op: RuleContext, x: Value, indices: Value, batch_dims: int, width: int) -> Value:
    """Row-major number of each tuple: its digits brought into range and weighted."""
    b = op.builder
    last = batch_dims + width
    sizes = lengths(b, x, batch_dims, last)
    weights = joined(b, [product(b, x, axis + 1, last) for axis in range(batch_dims, last)])
    if indices.constant is not None and sizes.constant is not None and weights.constant is not None:
        numbers = b.constant(((indices.constant % sizes.constant) * weights.constant).sum(axis=-1))
    else:
        # Mod takes the sign of the divisor, which is what a negative index means.
        numbers = b.reduce_sum(b.op("Mod", indices, sizes) * weights, [-1])
    if not batch_dims:
        return numbers
    batches = count_up(b, product(b, x, 0, batch_dims))
    ones = b.ints([1] * (op.rank(indices) - 1 - batch_dims))
    shape = joined(b, [lengths(b, x, 0, batch_dims), ones])
    first_rows = b.op("Reshape", batches * product(b, x, batch_dims, last), shape, allowzero=1)
    return numbers + first_rows
