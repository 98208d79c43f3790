"""Gradient rules of InstanceNormalization and GroupNormalization: X of shape (N, C, D1, ..., Dk).

Statistics belong to one image and one channel, or one group of channels. With xhat = (X - mean) r,
r = (var + epsilon)^(-1/2), and Y = scale xhat + B. Sources: Ulyanov, Vedaldi and Lempitsky,
https://arxiv.org/abs/1607.08022; Wu and He, https://arxiv.org/abs/1803.08494.
"""

from __future__ import annotations

from collections.abc import Sequence

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.norm import element_count, reciprocal_deviation
from netgrad.onnx.rules.precision import widened
from netgrad.onnx.rules.unranked import images


def _standardized(builder: Builder, x: Value, axes: Sequence[int], epsilon: float) -> tuple[Value, Value]:
    """The normalised X, and r, with statistics over ``axes``."""
    centred = x - builder.reduce_mean(x, axes, keepdims=True)
    inverse = reciprocal_deviation(builder, centred * centred, axes, epsilon)
    return builder.assume_like(centred * inverse, x), inverse


def _per_row(
    builder: Builder, x: Value, dy: Value, scale: Value, epsilon: float, rank: int
) -> tuple[Value, Value, Value]:
    """Gradients where each row (n, c) has statistics of its own and each c a scale.

    The means over a row serve dX and, summed over n, dscale and dB.
    """
    axes = list(range(2, rank))
    xhat, inverse = _standardized(builder, x, axes, epsilon)
    along = builder.reduce_mean(dy * xhat, axes, keepdims=True)
    level = builder.reduce_mean(dy, axes, keepdims=True)
    factor = builder.unsqueeze(scale, list(range(1, rank - 1))) * inverse
    dx = factor * (dy - level - xhat * along)
    others, size = [0, *axes], element_count(builder, x, axes)
    return dx, builder.reduce_sum(along, others) * size, builder.reduce_sum(level, others) * size


@rule("InstanceNormalization", attributes=("epsilon",))
def instance_normalization(op: RuleContext, dy: Value) -> tuple[Value, Value, Value]:
    """Y = scale xhat + B with statistics over D1, ..., Dk.

    dX = scale r (dY - mean dY - xhat mean(dY xhat)), dscale = sum dY xhat, dB = sum dY.
    """
    builder, rank = op.builder, op.input.rank
    x, scale, dy = (widened(builder, value) for value in (op.input, op.required(1), dy))
    if rank is None:
        seen, dseen = images(builder, x), images(builder, dy)
        dx, dscale, dbias = _per_row(builder, seen, dseen, scale, op.attribute("epsilon"), rank=3)
        return builder.reshape_like(dx, x), dscale, dbias
    return _per_row(builder, x, dy, scale, op.attribute("epsilon"), rank)


@rule("GroupNormalization", attributes=("num_groups", "epsilon", "stash_type"))
def group_normalization(op: RuleContext, dy: Value) -> tuple[Value, Value, Value]:
    """Y = scale xhat + B with statistics over the channels of a group and D1, ..., Dk.

    Before opset 21, scale and B belong to a group: the operator is an InstanceNormalization of X seen as
    (N, groups, rest). From opset 21 on they belong to a channel: with G = scale dY,
    dX = r (G - mean G - xhat mean(G xhat)), dscale = sum dY xhat, dB = sum dY.
    """
    builder, rank = op.builder, op.input.rank
    groups, epsilon = int(op.attribute("num_groups")), op.attribute("epsilon")
    whole, scale, dy = (widened(builder, value) for value in (op.input, op.required(1), dy))
    x = whole
    if rank is None:
        x, dy, rank = images(builder, x), images(builder, dy), 3
    grouped = _grouped(builder, x, groups)
    if builder.opset < 21:
        dx, dscale, dbias = _per_row(builder, grouped, _grouped(builder, dy, groups), scale, epsilon, rank=3)
        return builder.reshape_like(dx, whole), dscale, dbias
    xhat, inverse = _standardized(builder, grouped, [2], epsilon)
    per_channel = builder.unsqueeze(scale, list(range(1, rank - 1)))
    gradient = _grouped(builder, builder.assume_like(dy * per_channel, x), groups)
    along = builder.reduce_mean(gradient * xhat, [2], keepdims=True)
    level = builder.reduce_mean(gradient, [2], keepdims=True)
    dx = inverse * (gradient - level - xhat * along)
    axes = [0, *range(2, rank)]
    dscale = builder.reduce_sum(dy * builder.reshape_like(xhat, x), axes)
    return builder.reshape_like(dx, whole), dscale, builder.reduce_sum(dy, axes)


def _grouped(builder: Builder, x: Value, groups: int) -> Value:
    """``x`` seen as (N, groups, rest)."""
    return builder.reshape(x, [0, groups, -1])
