"""Regions of images pooled, and the gradient operators of that."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.caffe2.lowering.windows import channels_back, channels_first, is_nhwc
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.placing import count_up, length

# ---- means of samples --------------------------------------------------------------------------------


def _corners(b: Builder, rois: Value) -> tuple[Value, Value]:
    """The corners of each region, and the number of its image: 0 where there is none in front."""
    if rois.dim(1) == 4:
        return rois, b.reshape(b.cast(b.slice(rois, 1, 0, 1), ir.DataType.INT64), [-1]) * 0
    return b.slice(rois, 1, 1, 5), b.reshape(b.cast(b.slice(rois, 1, 0, 1), ir.DataType.INT64), [-1])


def _align(c: Context, b: Builder, x: Value, rois: Value) -> Value:
    nhwc = is_nhwc(c)
    corners, images = _corners(b, rois)
    sampling = c.argument("sampling_ratio", -1)
    pooled = b.op(
        "RoiAlign",
        channels_first(b, x, nhwc),
        corners,
        images,
        coordinate_transformation_mode="half_pixel" if c.argument("aligned", False) else "output_half_pixel",
        mode="avg",
        output_height=c.argument("pooled_h", 1),
        output_width=c.argument("pooled_w", 1),
        sampling_ratio=max(sampling, 0),
        spatial_scale=c.argument("spatial_scale", 1.0),
    )
    return channels_back(b, pooled, nhwc)


@lowers("RoIAlign")
def _roi_align(c: Context, x: Value, rois: Value) -> Value:
    """The mean of bilinear samples in each bin; -1 samples are as many as the bin has pixels."""
    c.static(rois, 1)
    return _align(c, c.b, x, rois)


@lowers("RoIAlignGradient")
def _roi_align_gradient(c: Context, x: Value, rois: Value, dy: Value) -> list[Value]:
    c.static(rois, 1)
    return gradients(c.b, lambda b, given: [_align(c, b, *given)], [x], [dy], [rois])


# ---- maxima ------------------------------------------------------------------------------------------


def _pooled_size(c: Context) -> tuple[int, int]:
    return c.argument("pooled_h", 1), c.argument("pooled_w", 1)


def _pool(c: Context, b: Builder, x: Value, rois: Value) -> Value:
    scale = c.argument("spatial_scale", 1.0)
    return b.op("MaxRoiPool", x, rois, pooled_shape=list(_pooled_size(c)), spatial_scale=scale)


@lowers("RoIPool", "RoIPoolF")
def _roi_pool(c: Context, x: Value, rois: Value) -> Sequence[Value]:
    """The maximum of each bin, and which pixel of its plane it is: -1 in an empty bin."""
    if is_nhwc(c) or c.static(rois, 1) != 5:
        raise c.refused("images with order NCHW, and regions with the number of their image, are needed")
    pooled = _pool(c, c.b, x, rois)
    return [pooled, _places_of_maxima(c, x, rois)] if c.outputs > 1 else [pooled]


@lowers("RoIPoolGradient", "RoIPoolFGradient")
def _roi_pool_gradient(c: Context, x: Value, rois: Value, places: Value, dy: Value) -> list[Value]:
    return gradients(c.b, lambda b, given: [_pool(c, b, *given)], [x], [dy], [rois])


def _inside(c: Context, x: Value, rois: Value, axis: int) -> Value:
    """Which pixels along an axis of the image belong to which bin of which region: (R, bins, pixels)."""
    b, bins = c.b, _pooled_size(c)[axis]
    scaled = b.cast(rois, ir.DataType.FLOAT) * c.argument("spatial_scale", 1.0)
    rounded = b.op("Sign", scaled) * b.op("Floor", b.op("Abs", scaled) + 0.5)
    start, end = (b.slice(rounded, 1, column, column + 1) for column in (2 - axis, 4 - axis))
    size = b.op("Max", end - start + 1.0, b.scalar(1.0, end)) / float(bins)
    number = b.constant(np.arange(bins, dtype=np.float32))
    low, high = b.op("Floor", number * size) + start, b.op("Ceil", (number + 1.0) * size) + start
    pixels = b.cast(count_up(b, length(b, x, 2 + axis)), ir.DataType.FLOAT)
    return b.op("And", pixels >= b.unsqueeze(low, [2]), pixels < b.unsqueeze(high, [2]))


def _places_of_maxima(c: Context, x: Value, rois: Value) -> Value:
    """Row by row, then over the rows: of equal pixels it is the first in row-major order."""
    b = c.b
    in_rows, in_columns = (_inside(c, x, rois, axis) for axis in (0, 1))
    images = b.op("Gather", x, b.cast(b.squeeze(b.slice(rois, 1, 0, 1), [1]), ir.DataType.INT64), axis=0)

    def bin_mask(inside: Value, number: int) -> Value:
        return b.unsqueeze(b.slice(inside, 1, number, number + 1), [1])  # (R, 1, 1, pixels)

    best, columns = [], []
    for number in range(_pooled_size(c)[1]):
        candidates = b.where(bin_mask(in_columns, number), images, -np.inf)
        best.append(b.op("ReduceMax", candidates, b.ints([3]), keepdims=1))
        columns.append(b.op("ArgMax", candidates, axis=3, keepdims=1))
    best_of_rows = b.transpose(b.concat(best, 3), [0, 1, 3, 2])  # (R, C, pooled_w, rows)
    columns_of_rows = b.transpose(b.concat(columns, 3), [0, 1, 3, 2])
    found = []
    for number in range(_pooled_size(c)[0]):
        mask = bin_mask(in_rows, number)
        row = b.op("ArgMax", b.where(mask, best_of_rows, -np.inf), axis=3, keepdims=1)
        column = b.op("GatherElements", columns_of_rows, row, axis=3)
        found.append(b.transpose(row * length(b, x, 3) + column, [0, 1, 3, 2]))
    rows_exist, columns_exist = (
        b.op("ReduceMax", b.cast(inside, ir.DataType.INT32), b.ints([2]), keepdims=0) > 0
        for inside in (in_rows, in_columns)
    )
    filled = b.op("And", b.unsqueeze(rows_exist, [1, 3]), b.unsqueeze(columns_exist, [1, 2]))
    return b.cast(b.where(filled, b.concat(found, 2), -1), ir.DataType.INT32)
