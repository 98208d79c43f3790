"""Tensors whose rank is known only at run time, seen with as many axes as a rule needs.

All shapes are put together at run time; axes may be negative, and count from the end then.
"""

from __future__ import annotations

import numpy as np

from netgrad.onnx.builder import Builder, Value


def sizes(b: Builder, x: Value, start: int, end: int | None = None) -> Value:
    """The sizes of ``x`` along the axes from ``start`` to before ``end`` (None: to the last), 1-D int64."""
    return b.op("Shape", x, start=start, end=end)


def _product(b: Builder, x: Value, start: int, end: int | None = None) -> Value:
    return b.op("ReduceProd", sizes(b, x, start, end), keepdims=1)


def axes_from(b: Builder, x: Value, first: int | Value) -> Value:
    """The axes of ``x`` from ``first`` on, 1-D int64."""
    rank = b.op("Size", b.op("Shape", x))
    start = first if isinstance(first, Value) else b.constant(np.asarray(first))
    return b.op("Range", start, rank, b.constant(np.asarray(1)))


class AxisView:
    """Tensors of the shape of ``x``, but along one axis, with three axes: before it, itself, behind it."""

    def __init__(self, b: Builder, x: Value, axis: int) -> None:
        self._b = b
        self._before = _product(b, x, 0, axis)
        self._behind = b.ints([1]) if axis == -1 else _product(b, x, axis + 1)
        self.size = sizes(b, x, axis, None if axis == -1 else axis + 1)

    def shape(self, size: Value | None = None) -> Value:
        """The three sizes, 1-D int64, with ``size`` (of shape (1,)) or that of ``x`` along the axis."""
        return self._b.concat([self._before, self.size if size is None else size, self._behind], axis=0)

    def of(self, value: Value, size: Value | None = None) -> Value:
        """``value``, which has ``size`` entries along the axis, with three axes."""
        seen = self._b.op("Reshape", value, self.shape(size), allowzero=1)
        return self._b.assume_shape(seen, (None, None, None))


def images(b: Builder, x: Value) -> Value:
    """``x`` of shape (N, C, D1, ..., Dk) as (N, C, the product of the others)."""
    shape = b.concat([sizes(b, x, 0, 2), _product(b, x, 2)], axis=0)
    return b.assume_shape(b.op("Reshape", x, shape, allowzero=1), (None, None, None))


def matrices(b: Builder, x: Value, *, row: bool) -> tuple[Value, Value]:
    """An operand of MatMul with at least two axes, and how many were added: a vector is a row or a column.

    The count is int64 of shape (1,), 0 or 1.
    """
    shape = b.op("Shape", x)
    two = b.ints([2])
    missing = b.op("Max", two - b.op("Shape", shape), b.ints([0]))
    ones = b.op("Expand", b.ints([1]), missing)
    whole = b.concat([ones, shape] if row else [shape, ones], axis=0)
    return b.op("Reshape", x, whole, allowzero=1), missing


def transposed(b: Builder, x: Value) -> Value:
    """``x``, which has at least two axes, with the last two exchanged."""
    before, last = sizes(b, x, 0, -2), sizes(b, x, -2)
    stack = b.op("Reshape", x, b.concat([b.op("ReduceProd", before, keepdims=1), last], axis=0), allowzero=1)
    turned = b.op("Transpose", stack, perm=[0, 2, 1])
    return b.op("Reshape", turned, b.concat([before, sizes(b, turned, 1)], axis=0), allowzero=1)
