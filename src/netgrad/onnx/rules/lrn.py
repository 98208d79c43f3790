"""Gradient rule of LRN: X of shape (N, C, D1, ..., Dk), normalised across neighbouring channels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.placing import joined, lengths, product
from netgrad.onnx.rules.precision import widened


@rule("LRN", attributes=("alpha", "beta", "bias", "size"))
def lrn(op: RuleContext, dy: Value) -> Value:
    """Y = X / U^beta, U = bias + alpha / size W X^2, W the C x C matrix of neighbouring channels.

    Channel c has the neighbours c - floor((size - 1) / 2) to c + ceil((size - 1) / 2), so W is not symmetric
    for an even size. dX = dY U^-beta - 2 alpha beta / size X W^T (dY X U^(-beta - 1)).

    The sums over neighbours are products with W: in float32 convolutions with kernels of one element, which
    take X with all its axes, otherwise matrix products. AveragePool has no float64 kernel in ONNX
    Runtime either, and sums of shifted slices take ``size`` operators and more.
    Source: Krizhevsky, Sutskever and Hinton, "ImageNet classification with deep convolutional neural
    networks", section 3.3.
    """
    builder, size, beta = op.builder, int(op.attribute("size")), float(op.attribute("beta"))
    rate = op.attribute("alpha") / size
    below, above = (size - 1) // 2, size // 2
    primal = widened(builder, op.input)
    channels, rank = primal.dim(1), primal.rank
    if primal.dtype is ir.DataType.FLOAT and isinstance(channels, int) and rank is not None and rank > 2:
        x, dy = primal, widened(builder, dy)
        shape = [channels, channels, *[1] * (rank - 2)]
        bias = builder.constant(np.full(channels, op.attribute("bias")), primal.dtype)
        base = op.emit("Conv", x * x, _kernel(op, primal, below, above, rate, shape), bias)
        scaled = dy * base**-beta
        kernel = _kernel(op, primal, above, below, 2 * rate * beta, shape)
        return scaled - x * op.emit("Conv", scaled * x / base, kernel)
    x, dy = _flat(op, primal), _flat(op, widened(builder, dy))
    base = _neighbours(op, primal, below, above, rate) @ (x * x) + op.attribute("bias")
    scaled = dy * base**-beta
    spread = _neighbours(op, primal, above, below, 2 * rate * beta) @ (scaled * x / base)
    return builder.reshape_like(scaled - x * spread, primal)


def _kernel(op: RuleContext, x: Value, below: int, above: int, factor: float, shape: Sequence[int]) -> Value:
    """`_neighbours` as the kernel of a convolution."""
    return op.builder.reshape(_neighbours(op, x, below, above, factor), shape)


def _flat(op: RuleContext, x: Value) -> Value:
    """``x`` seen as (N, C, rest)."""
    if x.rank is None:
        return op.builder.reshape(x, [0, 0, -1])
    behind = product(op.builder, x, 2, x.rank)  # not -1, which a batch of no images leaves open
    shape = joined(op.builder, [lengths(op.builder, x, 0, 2), behind])
    return op.builder.op("Reshape", x, shape, allowzero=1)


def _neighbours(op: RuleContext, x: Value, below: int, above: int, factor: float) -> Value:
    """The C x C matrix that is ``factor`` from ``below`` columns before to ``above`` after the diagonal."""
    builder, dtype = op.builder, op.floating(x)
    channels = x.dim(1)
    if isinstance(channels, int):
        away = np.arange(channels) - np.arange(channels)[:, None]
        return builder.constant(factor * ((away >= -below) & (away <= above)), dtype)
    count = op.emit("Gather", op.emit("Shape", x), builder.constant(1))
    places = op.emit("Range", builder.constant(0), count, builder.constant(1))
    offset = places - builder.unsqueeze(places, [1])
    near = op.emit("And", offset >= -below, offset <= above)
    return builder.cast(near, dtype) * factor
