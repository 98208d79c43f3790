"""Functions of single elements that are given piece by piece, encodings of positions, padded sequences."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.onnx.builder import Value
from netgrad.onnx.rules.placing import count_up, length


@lowers("StumpFunc")
def _stump(c: Context, x: Value) -> Value:
    """``low_value`` up to the threshold, ``high_value`` above it."""
    low, high = c.argument("low_value", 0.0), c.argument("high_value", 0.0)
    return c.b.where(x <= c.argument("threshold", 0.0), c.b.full_like(x, low), high)


@lowers("PiecewiseLinearTransform")
def _piecewise(c: Context, x: Value, *functions: Value) -> Value:
    """A function for each column: slope times element plus intercept between bounds, constant outside.

    With ``binary`` there is one function, of the last of one or two columns; the first is what is left to 1.
    """
    b = c.b
    if functions:
        bounds, slopes, intercepts = (b.reshape(one, [-1]) for one in functions)
    else:
        assert x.dtype is not None, "the element type of a blob is known"
        given = [np.asarray(c.numbers(name), np.float64) for name in ("bounds", "slopes", "intercepts")]
        if not all(one.size for one in given):
            raise c.refused("bounds, slopes and intercepts are needed, as arguments or inputs")
        bounds, slopes, intercepts = (b.constant(one, x.dtype) for one in given)
    columns = c.static(bounds, 0) - c.static(slopes, 0)
    if columns < 1 or c.static(slopes, 0) % columns or c.static(intercepts, 0) != c.static(slopes, 0):
        raise c.refused("there must be one bound more than slopes and intercepts for each column")
    binary = c.argument("binary", False)
    if binary:
        if columns != 1:
            raise c.refused("a binary transform has one function")
        of = b.reshape(x, [-1, 1]) if c.rank(x) == 1 else b.slice(x, 1, c.static(x, 1) - 1, c.static(x, 1))
    else:
        of = x
    pieces = c.static(slopes, 0) // columns
    edges, slopes, intercepts = (b.reshape(one, [1, columns, -1]) for one in (bounds, slopes, intercepts))
    inside = b.op("Min", b.op("Max", of, b.squeeze(b.slice(edges, 2, 0, 1), [2])), _last(c, edges, pieces))
    above = b.unsqueeze(inside, [2]) > b.slice(edges, 2, 1, pieces)
    piece = b.reduce_sum(b.cast(above, ir.DataType.INT64), [2], keepdims=True)  # the bounds that lie below
    hit = piece.equals(b.constant(np.arange(pieces)))
    assert x.dtype is not None, "the element type of a blob is known"
    chosen = [b.reduce_sum(b.where(hit, one, 0.0), [2]) for one in (slopes, intercepts)]
    result = chosen[0] * inside + chosen[1]
    if not binary or c.rank(x) == 1 or c.static(x, 1) == 1:
        return b.reshape_like(result, x)
    return b.concat([1.0 - result, result], 1)


def _last(c: Context, edges: Value, pieces: int) -> Value:
    return c.b.squeeze(c.b.slice(edges, 2, pieces, pieces + 1), [2])


@lowers("SinusoidPositionEncoding")
def _sinusoids(c: Context, positions: Value) -> Value:
    """For element i the sine, or of odd i the cosine, of the position over alpha^(i / size)."""
    size = c.argument("embedding_size", 100)
    number = np.arange(size)
    divisors = c.argument("alpha", 10000.0) ** (number / size)
    angles = c.b.unsqueeze(c.b.cast(positions, ir.DataType.FLOAT), [c.rank(positions)]) / c.b.constant(
        divisors.astype(np.float32)
    )
    waves = c.b.where(c.b.constant(number % 2 == 0), c.b.op("Sin", angles), c.b.op("Cos", angles))
    return waves * c.argument("amplitude", 1.0)


@lowers("VariableLengthSequencePadding")
def _sequence_padding(c: Context, x: Value, sizes: Value) -> Value:
    """Zeros at steps (the first dim) past the end of a sequence (the second dim)."""
    steps = c.b.unsqueeze(count_up(c.b, length(c.b, x, 0)), [1])
    inside = steps < c.b.unsqueeze(c.b.cast(sizes, ir.DataType.INT64), [0])
    return c.b.where(c.b.unsqueeze(inside, range(2, c.rank(x))), x, 0.0)
