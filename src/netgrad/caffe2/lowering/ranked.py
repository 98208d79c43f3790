"""The largest elements of rows, a number for each row; products with rows padded; codes looked up."""

from __future__ import annotations

import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.placing import count_up, length

# ---- the largest elements ------------------------------------------------------------------------------


def _taken(b: Builder, x: Value, counts: Value) -> Value:
    """Which places of sorted rows are among the first ``counts[i]`` of row i; one vector of truth values."""
    number = count_up(b, length(b, x, -1))
    wanted = b.unsqueeze(b.reshape(b.cast(counts, ir.DataType.INT64), [-1]), [1])
    return b.reshape(number < wanted, [-1])


def _places(b: Builder, x: Value, counts: Value, columns: Value) -> Value:
    """The places of the taken elements in the flat tensor, by their columns."""
    size = length(b, x, -1)
    wanted = b.reshape(b.cast(counts, ir.DataType.INT64), [-1])
    rows = count_up(b, b.shape_of(wanted))
    starts = b.op("Expand", b.unsqueeze(rows * size, [1]), b.concat([b.shape_of(wanted), size], 0))
    return b.op("Compress", b.reshape(starts, [-1]), _taken(b, x, counts), axis=0) + columns


@lowers("FlexibleTopK")
def _flexible_top_k(c: Context, x: Value, counts: Value) -> list[Value]:
    """The ``counts[i]`` largest elements of row i, one row after the other, and their columns."""
    b = c.b
    values, columns = b.ops("TopK", x, length(b, x, -1), outputs=2, axis=-1, largest=1, sorted=1)
    taken = _taken(b, x, counts)
    return [b.op("Compress", b.reshape(one, [-1]), taken, axis=0) for one in (values, columns)]


@lowers("FlexibleTopKGradient")
def _flexible_top_k_gradient(c: Context, x: Value, counts: Value, dy: Value, columns: Value) -> Value:
    b = c.b
    places = _places(b, x, counts, b.cast(columns, ir.DataType.INT64))
    flat = b.reshape(b.zeros_like(x), [-1])
    return b.reshape_like(b.op("ScatterElements", flat, places, dy, axis=0), x)


# ---- products of rows of two lengths -------------------------------------------------------------------


def _padded_dot(c: Context, b: Builder, given: list[Value]) -> list[Value]:
    """Products of rows, of which the shorter ones are continued by ``pad_value``, or repeated.

    A row is all that one number of the first axis leads to, so a vector has rows of one element.
    """
    given = [one if one.rank == 2 else b.op("Flatten", one, axis=1) for one in given]
    x, y = given
    widths = [c.static(one, 1) for one in given]
    if widths[0] != widths[1]:
        short = 0 if widths[0] < widths[1] else 1
        row, wide = given[short], max(widths)
        if c.argument("replicate", False):
            if wide % widths[short]:
                raise c.refused(f"rows of {widths[short]} elements cannot be repeated to {wide}")
            more = b.op("Tile", row, b.ints([1, wide // widths[short]]))
        else:
            pads = b.ints([0, 0, 0, wide - widths[short]])
            more = b.op("Pad", row, pads, b.scalar(c.argument("pad_value", 0.0), row))
        x, y = (more, y) if short == 0 else (x, more)
    return [b.reduce_sum(x * y, [1])]


@lowers("DotProductWithPadding")
def _dot_product_with_padding(c: Context, x: Value, y: Value) -> list[Value]:
    return _padded_dot(c, c.b, [x, y])


@lowers("DotProductWithPaddingGradient")
def _dot_product_with_padding_gradient(c: Context, x: Value, y: Value, dz: Value) -> list[Value]:
    c.static_shape(x), c.static_shape(y)
    return gradients(c.b, lambda b, given: _padded_dot(c, b, given), [x, y], [dz])


# ---- codes -----------------------------------------------------------------------------------------------


@lowers("QuantDecode")
def _quant_decode(c: Context, codebook: Value, *codes: Value) -> list[Value]:
    """The entries of a codebook that codes stand for."""
    flat = c.b.reshape(codebook, [-1])
    return [c.b.op("Gather", flat, c.b.cast(code, ir.DataType.INT64), axis=0) for code in codes]


@lowers("QuantDecodeGradient")
def _quant_decode_gradient(c: Context, codebook: Value, *rest: Value) -> list[Value]:
    codes, slopes = rest[: len(rest) // 2], rest[len(rest) // 2 :]

    def write(b: Builder, given: list[Value]) -> list[Value]:
        flat = b.reshape(given[0], [-1])
        return [b.op("Gather", flat, b.cast(code, ir.DataType.INT64), axis=0) for code in given[1:]]

    return gradients(c.b, write, [codebook], list(slopes), list(codes))
