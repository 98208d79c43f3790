"""SpatialBN and its gradient, over one batch or over several, and the sums that those over several read."""

from __future__ import annotations

from collections.abc import Sequence

from netgrad.caffe2.lowering.channels import channel_axes, moments, number_per_channel, spread
from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.onnx.builder import Builder, Value


@lowers("SpatialBN")
def _spatial_bn(
    c: Context, x: Value, scale: Value, bias: Value, mean: Value, var: Value, *sums: Value
) -> Sequence[Value]:
    """In training with the moments of this batch, or of several by their sums and sums of squares.

    The running variance takes the unbiased variance, of one number 0.
    """
    b, epsilon = c.b, c.argument("epsilon", 1e-5)
    axes = channel_axes(c, x)[1]
    if c.argument("is_test", False):
        normal = (x - spread(c, b, mean, x)) / b.op("Sqrt", spread(c, b, var, x) + epsilon)
        return [normal * spread(c, b, scale, x) + spread(c, b, bias, x)]
    count = number_per_channel(c, x) * float(_batches(c))
    if _batches(c) > 1:
        if len(sums) != 2:
            raise c.refused("over several batches it reads their sums and sums of squares as inputs 5 and 6")
        batch_mean, square_mean = (spread(c, b, value / count, x) for value in sums)
        batch_var = square_mean - batch_mean * batch_mean
    else:
        batch_mean, batch_var = moments(b, x, axes)
    inverse = b.op("Reciprocal", b.op("Sqrt", batch_var + epsilon))
    y = (x - batch_mean) * inverse * spread(c, b, scale, x) + spread(c, b, bias, x)
    flat_mean, flat_var, saved = (b.squeeze(value, axes) for value in (batch_mean, batch_var, inverse))
    momentum = c.argument("momentum", 0.9)
    unbiased = flat_var * (count / b.op("Max", count - 1.0, b.scalar(1.0, count)))
    return [
        y,
        _unless_empty(c, x, mean * momentum + flat_mean * (1.0 - momentum), mean),
        _unless_empty(c, x, var * momentum + unbiased * (1.0 - momentum), var),
        _unless_empty(c, x, flat_mean, 0.0),
        _unless_empty(c, x, saved, 0.0),
    ]


def _unless_empty(c: Context, x: Value, usual: Value, otherwise: Value | float) -> Value:
    """Another value where the batch has no samples."""
    if x.static_shape is not None and 0 not in x.static_shape:
        return usual
    return c.b.where(number_per_channel(c, x) > 0.0, usual, otherwise)


def _batches(c: Context) -> int:
    return c.argument("num_batches", 1)


@lowers("ChannelStats")
def _channel_stats(c: Context, x: Value) -> list[Value]:
    """The sums and the sums of squares of channels."""
    axes = channel_axes(c, x)[1]
    return [c.b.reduce_sum(x, axes), c.b.reduce_sum(x * x, axes)]


@lowers("ChannelBackpropStats")
def _channel_backprop_stats(c: Context, x: Value, mean: Value, inverse: Value, dy: Value) -> list[Value]:
    """The gradients of a SpatialBN's scale and bias by this batch."""
    b, axes = c.b, channel_axes(c, x)[1]
    normal = (x - spread(c, b, mean, x)) * spread(c, b, inverse, x)
    return [b.reduce_sum(normal * dy, axes), b.reduce_sum(dy, axes)]


@lowers("SpatialBNGradient")
def _spatial_bn_gradient(
    c: Context, x: Value, scale: Value, dy: Value, mean: Value, inverse_or_var: Value, *sums: Value
) -> list[Value]:
    """With the saved mean and inverse deviation of training, or the running mean and variance of testing."""
    if _batches(c) > 1:
        return _gradient_over_batches(c, x, scale, dy, mean, inverse_or_var, sums)
    epsilon = c.argument("epsilon", 1e-5)
    axes = channel_axes(c, x)[1]
    is_test = c.argument("is_test", False)

    def write(b: Builder, given: list[Value]) -> list[Value]:
        image, weight, shift, running_mean, running_var = given
        if is_test:
            centred = image - spread(c, b, running_mean, image)
            deviation = b.op("Sqrt", spread(c, b, running_var, image) + epsilon)
        else:
            centre, variance = moments(b, image, axes)
            centred, deviation = image - centre, b.op("Sqrt", variance + epsilon)
        return [centred / deviation * spread(c, b, weight, image) + spread(c, b, shift, image)]

    return gradients(c.b, write, [x, scale, c.b.zeros_like(scale)], [dy], [mean, inverse_or_var])


def _gradient_over_batches(
    c: Context, x: Value, scale: Value, dy: Value, mean: Value, inverse: Value, sums: Sequence[Value]
) -> list[Value]:
    """With the gradients of scale and bias over all batches, of which each batch gives back its share.

    dx = scale / s * (dy - mean(dy) - n * mean(n * dy)), with n = (x - m) / s and means over all batches.
    """
    if len(sums) != 2:
        raise c.refused(
            "over several batches it reads the gradients of scale and bias over all of them as inputs 5 and 6"
        )
    b, share = c.b, 1.0 / _batches(c)
    d_scale, d_bias = (value * share for value in sums)
    count = number_per_channel(c, x)
    normal = (x - spread(c, b, mean, x)) * spread(c, b, inverse, x)
    mean_dy, mean_ndy = (spread(c, b, value / count, x) for value in (d_bias, d_scale))
    dx = (dy - mean_dy - normal * mean_ndy) * spread(c, b, scale * inverse, x)
    return [dx, *(_unless_empty(c, x, slope, 0.0) for slope in (d_scale, d_bias))]
