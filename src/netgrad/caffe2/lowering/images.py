"""Images resized, and their channels shuffled; and their gradient operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.caffe2.lowering.windows import channels_back, channels_first, is_nhwc
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.placing import joined, length, lengths

# ---- resizing ----------------------------------------------------------------------------------------


def _scales(c: Context, *names: str) -> np.ndarray[Any, Any]:
    """Scales of dims that arguments say, float32."""
    return np.asarray([c.argument(f"{name}_scale", 1.0) for name in names], np.float32)


def _nearest(c: Context, b: Builder, x: Value, given: Value | None = None) -> Value:
    """Pixel p of a result of floor(size scale) pixels is pixel floor(p / scale) of the image.

    The scales, of the height and of the width, are perhaps given.
    """
    nhwc = is_nhwc(c)
    ones = np.ones(2, np.float32)
    if given is None:
        scales = b.constant(np.concatenate([ones, _scales(c, "height", "width")]))
    else:
        scales = b.concat([b.constant(ones), given], 0)
    resized = b.op(
        "Resize",
        channels_first(b, x, nhwc),
        None,
        scales,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    return channels_back(b, resized, nhwc)


@lowers("ResizeNearest")
def _resize_nearest(c: Context, x: Value, scales: Value | None = None) -> Value:
    return _nearest(c, c.b, x, scales)


@lowers("ResizeNearestGradient")
def _resize_nearest_gradient(c: Context, dy: Value, x: Value, *scales: Value) -> list[Value]:
    return gradients(c.b, lambda b, given: [_nearest(c, b, *given)], [x], [dy], scales)


def _nearest_in_space(c: Context, b: Builder, x: Value) -> Value:
    scales = np.concatenate([np.ones(2, np.float32), _scales(c, "temporal", "height", "width")])
    return b.op(
        "Resize",
        x,
        None,
        b.constant(scales),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


@lowers("ResizeNearest3D")
def _resize_nearest_3d(c: Context, x: Value) -> Value:
    if is_nhwc(c):
        raise c.refused("its channels must be behind the batch (order NCHW)")
    return _nearest_in_space(c, c.b, x)


@lowers("ResizeNearest3DGradient")
def _resize_nearest_3d_gradient(c: Context, dy: Value, x: Value) -> list[Value]:
    return gradients(c.b, lambda b, given: [_nearest_in_space(c, b, given[0])], [x], [dy])


def _bilinear(c: Context, b: Builder, given: list[Value]) -> Value:
    """To floor(size scale) pixels, so that the corners of image and result are the same pixels."""
    image, *scales = given
    by, shape = _scales(c, "height", "width"), image.static_shape
    if shape is not None and not scales:
        target = b.ints([*shape[:2], *(np.asarray(shape[2:], np.float32) * by).astype(np.int64)])
    else:
        spatial = b.cast(lengths(b, image, 2, 4), ir.DataType.FLOAT)
        sizes = b.op("Floor", spatial * (scales[0] if scales else b.constant(by)))
        target = joined(b, [lengths(b, image, 0, 2), b.cast(sizes, ir.DataType.INT64)])
    return b.op(
        "Resize", image, None, None, target, mode="linear", coordinate_transformation_mode="align_corners"
    )


@lowers("UpsampleBilinear")
def _upsample(c: Context, *given: Value) -> Value:
    if is_nhwc(c):
        raise c.refused("images with order NHWC are not resized bilinearly")
    return _bilinear(c, c.b, list(given))


@lowers("UpsampleBilinearGradient")
def _upsample_gradient(c: Context, dy: Value, x: Value, *scales: Value) -> list[Value]:
    return gradients(c.b, lambda b, given: [_bilinear(c, b, given)], [x], [dy], scales)


# ---- channels ----------------------------------------------------------------------------------------


def _shuffled(c: Context, x: Value, *, back: bool) -> Value:
    """The channels, as a matrix with a row for each group, transposed; or ``back``."""
    b, group, nhwc = c.b, c.b.ints([c.argument("group", 1)]), is_nhwc(c)
    image = channels_first(b, x, nhwc)
    assert image.rank is not None, "the rank of every blob is known"
    behind = [lengths(b, image, 2, image.rank)] if image.rank > 2 else []
    width = (
        length(b, image, 1) / group
    )  # written out, as no dim can be left open where the batch may be empty
    rows = [width, group] if back else [group, width]
    matrix = b.op("Reshape", image, joined(b, [lengths(b, image, 0, 1), *rows, *behind]), allowzero=1)
    mixed = b.reshape_like(b.transpose(matrix, [0, 2, 1, *range(3, image.rank + 1)]), image)
    return channels_back(b, mixed, nhwc)


@lowers("ChannelShuffle")
def _channel_shuffle(c: Context, x: Value) -> Value:
    """Channels of each group side by side become the groups of each channel side by side."""
    return _shuffled(c, x, back=False)


@lowers("ChannelShuffleGradient")
def _channel_shuffle_gradient(c: Context, dy: Value) -> Value:
    return _shuffled(c, dy, back=True)
