"""Moments of images, and vectors that have one number for each channel."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.windows import is_nhwc
from netgrad.onnx.builder import Builder, Value


def moments(b: Builder, x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    """Mean and biased variance along axes, which stay as dims of 1."""
    mean = b.reduce_mean(x, axes, keepdims=True)
    centred = x - mean
    return mean, b.reduce_mean(centred * centred, axes, keepdims=True)


def channel_axes(c: Context, x: Value) -> tuple[int, list[int]]:
    """The axis of an image's channels, and the others."""
    channel = c.rank(x) - 1 if is_nhwc(c) else 1
    return channel, [axis for axis in range(c.rank(x)) if axis != channel]


def spread(c: Context, b: Builder, per_channel: Value, x: Value) -> Value:
    """A vector of channels with the rank of the image."""
    return b.unsqueeze(per_channel, channel_axes(c, x)[1])


def number_per_channel(c: Context, x: Value) -> Value:
    """How many elements each channel of an image has, as a number of the image's type."""
    return c.b.cast(c.b.size_along(x, channel_axes(c, x)[1]), x.dtype or ir.DataType.FLOAT)
