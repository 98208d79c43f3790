"""Normalizations over images, layers, groups and rows; dropout; and their gradient operators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.lowering.channels import channel_axes, moments, spread
from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.caffe2.lowering.windows import channels_back, channels_first, is_nhwc
from netgrad.core import Operator
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.placing import joined, lengths, product


@lowers("Dropout")
def _dropout(c: Context, x: Value) -> Sequence[Value | None]:
    """While training the mask is drawn, and what stays is scaled by 1 / (1 - ratio)."""
    b = c.b
    if c.argument("is_test", False):
        return [b.op("Identity", x), None]
    ratio = c.argument("ratio", 0.5)
    option = c.definition.device_option
    seed = {"seed": float(option.random_seed)} if option.HasField("random_seed") else {}
    template = b.cast(x, ir.DataType.FLOAT)
    draw = Operator("RandomUniformLike", (template.name,), ("u",), {"dtype": int(ir.DataType.FLOAT), **seed})
    mask = b.written(draw, [template.info.plain])[0] >= ratio
    return [b.where(mask, x * (1.0 / (1.0 - ratio)), 0.0), mask]


@lowers("DropoutGrad")
def _dropout_gradient(c: Context, dy: Value, mask: Value | None = None) -> Value:
    if mask is None:
        return c.b.op("Identity", dy)
    return c.b.where(mask, dy * (1.0 / (1.0 - c.argument("ratio", 0.5))), 0.0)


def _layer_norm(c: Context, b: Builder, given: list[Value]) -> list[Value]:
    axis = c.axis(given[0], c.argument("axis", 1))
    axes = list(range(axis, c.rank(given[0])))
    mean, variance = moments(b, given[0], axes)
    deviation = b.op("Sqrt", variance + c.argument("epsilon", 1e-5))
    normal = (given[0] - mean) / deviation
    if len(given) > 1:
        normal = normal * given[1] + given[2]
    after = axes[1:]
    return [normal, b.squeeze(mean, after), b.squeeze(deviation, after)]


@lowers("LayerNorm", "C10LayerNorm_DontUseThisOpYet")
def _layer_normalization(c: Context, *given: Value) -> Sequence[Value]:
    return _layer_norm(c, c.b, list(given))


@lowers("LayerNormGradient")
def _layer_norm_gradient(
    c: Context, dy: Value, y: Value, mean: Value, deviation: Value, x: Value, gamma: Value | None = None
) -> list[Value]:
    if gamma is None:
        return gradients(c.b, lambda b, given: _layer_norm(c, b, given)[:1], [x], [dy])
    inputs = [x, gamma, c.b.zeros_like(gamma)]
    return gradients(c.b, lambda b, given: _layer_norm(c, b, given)[:1], inputs, [dy])


def _rms_norm(c: Context, b: Builder, given: list[Value]) -> list[Value]:
    """Rows over the root of the mean of their squares, times gamma, plus beta; and one over that root."""
    x, gamma, beta = given
    axes = list(range(c.axis(x, c.argument("axis", 1)), c.rank(x)))
    squares = b.reduce_mean(x * x, axes, keepdims=True)
    inverse = b.op("Reciprocal", b.op("Sqrt", squares + c.argument("eps", 0.0)))
    return [x * inverse * gamma + beta, b.squeeze(inverse, axes)]


@lowers("RMSNorm")
def _root_mean_square_normalization(c: Context, x: Value, gamma: Value, beta: Value) -> Sequence[Value]:
    return _rms_norm(c, c.b, [x, gamma, beta])


@lowers("RMSNormGradient")
def _rms_norm_gradient(c: Context, dy: Value, x: Value, gamma: Value, inverse: Value) -> list[Value]:
    inputs = [x, gamma, c.b.zeros_like(gamma)]
    return gradients(c.b, lambda b, given: _rms_norm(c, b, given)[:1], inputs, [dy])


def _instance_norm(c: Context, b: Builder, given: list[Value]) -> list[Value]:
    x, scale, bias = given
    nhwc = is_nhwc(c)
    image = channels_first(b, x, nhwc)
    axes = list(range(2, c.rank(x)))
    mean, variance = moments(b, image, axes)
    inverse = b.op("Reciprocal", b.op("Sqrt", variance + c.argument("epsilon", 1e-5)))
    weight, shift = (b.unsqueeze(vector, range(1, c.rank(x) - 1)) for vector in (scale, bias))
    normal = (image - mean) * inverse * weight + shift
    return [channels_back(b, normal, nhwc), b.squeeze(mean, axes), b.squeeze(inverse, axes)]


@lowers("InstanceNorm")
def _instance_normalization(c: Context, x: Value, scale: Value, bias: Value) -> Sequence[Value]:
    return _instance_norm(c, c.b, [x, scale, bias])


@lowers("InstanceNormGradient")
def _instance_norm_gradient(
    c: Context, x: Value, scale: Value, bias: Value, dy: Value, *_: Value
) -> list[Value]:
    return gradients(c.b, lambda b, given: _instance_norm(c, b, given)[:1], [x, scale, bias], [dy])


def _normalize(c: Context, b: Builder, given: list[Value]) -> list[Value]:
    """Rows of length 1 along the last dim; shorter ones than 1e-12 count as that long."""
    (x,) = given
    axis = c.axis(x, c.argument("axis", -1))
    squares = b.reduce_sum(x * x, [axis], keepdims=True)
    return [x / b.op("Max", b.op("Sqrt", squares), b.constant(np.asarray(1e-12), x.dtype))]


@lowers("Normalize")
def _normalization(c: Context, x: Value) -> Sequence[Value]:
    return _normalize(c, c.b, [x])


@lowers("NormalizeGradient")
def _normalize_gradient(c: Context, x: Value, dy: Value) -> list[Value]:
    return gradients(c.b, lambda b, given: _normalize(c, b, given), [x], [dy])


# ---- moments, groups and channels --------------------------------------------------------------------


def _moments_of(c: Context, b: Builder, x: Value) -> list[Value]:
    axes = [c.axis(x, axis) for axis in c.integers("axes")] or list(range(c.rank(x)))
    mean, variance = moments(b, x, axes)
    if c.argument("keepdims", True):
        return [mean, variance]
    return [b.squeeze(mean, axes), b.squeeze(variance, axes)]


@lowers("Moments")
def _moments_forward(c: Context, x: Value) -> Sequence[Value]:
    return _moments_of(c, c.b, x)


@lowers("MomentsGradient")
def _moments_gradient(c: Context, d_mean: Value, d_variance: Value, x: Value, mean: Value) -> list[Value]:
    return gradients(c.b, lambda b, given: _moments_of(c, b, given[0]), [x], [d_mean, d_variance])


def _raw_moments(c: Context, b: Builder, x: Value) -> list[Value]:
    axes = channel_axes(c, x)[1]
    return [b.reduce_mean(x, axes), b.reduce_mean(x * x, axes)]


@lowers("BatchMoments")
def _batch_moments(c: Context, x: Value) -> Sequence[Value]:
    """The mean of each channel, and of its squares."""
    return _raw_moments(c, c.b, x)


@lowers("BatchMomentsGradient")
def _batch_moments_gradient(c: Context, d_mean: Value, d_squares: Value, x: Value) -> list[Value]:
    return gradients(c.b, lambda b, given: _raw_moments(c, b, given[0]), [x], [d_mean, d_squares])


def _group_norm(c: Context, b: Builder, given: list[Value]) -> list[Value]:
    """The normalized image, and the mean and inverse deviation of each group of each sample."""
    x, gamma, beta = given
    nhwc = is_nhwc(c)
    image = channels_first(b, x, nhwc)
    groups = c.argument("num_groups", c.argument("group", 32))
    each = product(b, image, 1, c.rank(x)) / b.ints([groups])
    rows = b.op("Reshape", image, joined(b, [lengths(b, image, 0, 1), b.ints([groups]), each]), allowzero=1)
    mean, variance = moments(b, rows, [2])
    inverse = b.op("Reciprocal", b.op("Sqrt", variance + c.argument("epsilon", 1e-5)))
    weight, shift = (b.unsqueeze(vector, range(1, c.rank(x) - 1)) for vector in (gamma, beta))
    normal = b.reshape_like((rows - mean) * inverse, image) * weight + shift
    return [channels_back(b, normal, nhwc), b.squeeze(mean, [2]), b.squeeze(inverse, [2])]


@lowers("GroupNorm")
def _group_normalization(c: Context, *given: Value) -> Sequence[Value]:
    return _group_norm(c, c.b, list(given))


@lowers("GroupNormGradient")
def _group_norm_gradient(
    c: Context, dy: Value, x: Value, gamma: Value, beta: Value, *_: Value
) -> list[Value]:
    return gradients(c.b, lambda b, given: _group_norm(c, b, given)[:1], [x, gamma, beta], [dy])


@lowers("NormalizePlanarYUV")
def _normalize_planes(c: Context, x: Value, mean: Value, deviation: Value) -> Value:
    """Each plane of each image less its mean, by its deviation, which are the first rows of two matrices."""
    mean, deviation = (spread(c, c.b, c.b.squeeze(c.b.slice(m, 0, 0, 1), [0]), x) for m in (mean, deviation))
    return (x - mean) / deviation


@lowers("AffineChannel")
def _affine_channel(c: Context, x: Value, scale: Value, bias: Value) -> Value:
    return x * spread(c, c.b, scale, x) + spread(c, c.b, bias, x)


@lowers("AffineChannelGradient")
def _affine_channel_gradient(c: Context, dy: Value, *operands: Value) -> list[Value]:
    """Operands besides: the scale; with ``is_learnable`` the image and the scale."""
    scaled = dy * spread(c, c.b, operands[-1], dy)
    if len(operands) == 1:
        return [scaled]
    axes = channel_axes(c, dy)[1]
    return [scaled, c.b.reduce_sum(dy * operands[0], axes), c.b.reduce_sum(dy, axes)]
