"""Gradient rule of DequantizeLinear; what rounds to integers is declared in `without_gradient`."""

from __future__ import annotations

from netgrad.onnx.broadcast import unbroadcast
from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.placing import joined, length, lengths, pad_axes


@rule("DequantizeLinear", attributes=("axis", "block_size", "output_dtype"), not_differentiable=(0, 2))
def dequantize_linear(op: RuleContext, dy: Value) -> list[Value | None]:
    """Y = (X - z) s, one scale s for all of X, per index of an axis, or per block; ds = sum of dY (X - z).

    A block is ``block_size`` neighbours along the axis; the last may be shorter. X - z is what the operator
    itself makes with a scale of 1.

    Source: https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html.
    """
    return [None, scale_gradient(op, op.required(0), dy), *[None] * (len(op.inputs) - 2)]


def scale_gradient(op: RuleContext, x: Value, dy: Value) -> Value:
    """The gradient of the scales of a DequantizeLinear of ``x``."""
    b, scale = op.builder, op.required(1)
    axis, block = int(op.attribute("axis")), int(op.attribute("block_size", 0))
    steps = op.emit(
        "DequantizeLinear",
        x,
        b.full_like(scale, 1.0),
        op.optional(2),
        axis=axis,
        block_size=block or None,
    )
    products = dy * b.cast(steps, op.floating(dy))
    if block:
        return sum_of_blocks(op, products, axis % op.rank(op.output), block)
    spread = along_axis(op, scale, op.output, axis)
    return b.reshape_like(unbroadcast(b, products, spread), scale)


def along_axis(op: RuleContext, scale: Value, x: Value, axis: int) -> Value:
    """One scale as it is; a vector of scales as a tensor that has it along ``axis`` of ``x``.

    A vector of one scale broadcasts, too.
    """
    if op.rank(scale) != 1:
        return scale
    if x.rank is None:
        b = op.builder
        ones = b.op("Expand", b.ints([1]), b.op("Shape", b.op("Shape", x)))
        return b.op("Reshape", scale, b.op("ScatterElements", ones, b.ints([axis]), b.ints([-1])))
    shape = [1] * x.rank
    shape[axis] = -1
    return op.builder.reshape(scale, shape)


def sum_of_blocks(op: RuleContext, products: Value, axis: int, block: int) -> Value:
    """Sums over ``block`` neighbours along an axis, as many as there are scales."""
    b, scale = op.builder, op.required(1)
    blocks, have = length(b, scale, axis), length(b, products, axis)
    width = b.ints([block])
    if blocks.constant is not None and have.constant is not None:
        missing = b.ints([int(blocks.constant[0]) * block - int(have.constant[0])])
    else:
        missing = blocks * width - have
    padded = products
    if missing.constant is None or missing.constant[0]:
        padded = pad_axes(b, products, {axis: (b.ints([0]), missing)})
    rank = op.rank(op.output)
    shape = joined(b, [lengths(b, products, 0, axis), blocks, width, lengths(b, products, axis + 1, rank)])
    apart = b.op("Reshape", padded, shape, allowzero=1)
    return b.assume_like(b.reduce_sum(apart, [axis + 1]), scale)
