"""Means over turned rectangles of images, and the regions that an image is covered with for R-MAC."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.caffe2.lowering.windows import is_nhwc
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.placing import count_up, length

# ---- turned rectangles -------------------------------------------------------------------------------


def _element(x: Value) -> ir.DataType:
    return x.dtype or ir.DataType.FLOAT


def _samples(c: Context, b: Builder, size: Value, bins: int) -> tuple[Value, Value]:
    """Where the samples of each bin lie from the middle of a rectangle, and their shares of the mean.

    Args:
        c: The operator.
        b: The builder.
        size: The sizes of the rectangles along one axis, (R, 1, 1).
        bins: How many bins there are along it.

    Returns:
        Both (R, bins, samples). There are as many samples as the largest rectangle needs; those that a
        smaller one doesn't need have no share.
    """
    element = _element(size)
    given = c.argument("sampling_ratio", -1)
    if given > 0:
        counts = b.full_like(size, given)
        most = b.ints([given])
    else:
        counts = b.op("Ceil", size / float(bins))
        flat = b.concat([b.constant(np.ones(1), size.dtype), b.reshape(counts, [-1])], 0)
        most = b.cast(b.reduce("ReduceMax", flat, [0], keepdims=True), ir.DataType.INT64)
    number = b.cast(count_up(b, most), element)
    bin_numbers = b.cast(b.constant(np.arange(bins).reshape(-1, 1)), element)
    places = (bin_numbers + (number + 0.5) / counts) * (size / float(bins)) - size * 0.5
    shares = b.where(number < counts, b.op("Reciprocal", counts), 0.0)
    return places, shares


def _bilinear(b: Builder, place: Value, size: Value) -> tuple[Value, Value, Value]:
    """The pixels before and after a place along one axis, and the share of the one after; as floats."""
    last = b.cast(size, _element(place)) - 1.0
    within = b.op("Min", b.op("Max", place, b.scalar(0.0, place)), last)
    low = b.op("Floor", within)
    return low, b.op("Min", low + 1.0, last), within - low


def _turned(c: Context, b: Builder, x: Value, rois: Value) -> Value:
    """Means of bilinear samples; the grid of samples is turned counterclockwise around its middle."""
    high, wide = c.argument("pooled_h", 1), c.argument("pooled_w", 1)
    scale, aligned = c.argument("spatial_scale", 1.0), c.argument("aligned", False)
    image = x if is_nhwc(c) else b.transpose(x, [0, 2, 3, 1])
    rows, columns = length(b, image, 1), length(b, image, 2)
    first = c.static(rois, 1) - 5  # 1 where the number of the image stands in front

    def column(at: int) -> Value:
        return b.unsqueeze(b.slice(rois, 1, first + at, first + at + 1), [2])  # (R, 1, 1)

    middle_x, middle_y = (column(at) * scale - (0.5 if aligned else 0.0) for at in (0, 1))
    width, height = column(2) * scale, column(3) * scale
    if not aligned:  # rectangles are at least a pixel large
        width, height = (b.op("Max", size, b.scalar(1.0, size)) for size in (width, height))
    angle = b.unsqueeze(column(4) * (math.pi / 180), [3, 4])
    down, down_shares = _samples(c, b, height, high)
    right, right_shares = _samples(c, b, width, wide)
    down, down_shares = (b.unsqueeze(one, [3, 4]) for one in (down, down_shares))  # (R, bins, samples, 1, 1)
    right, right_shares = (b.unsqueeze(one, [1, 2]) for one in (right, right_shares))
    cosine, sine = b.op("Cos", angle), b.op("Sin", angle)
    place_x = right * cosine + down * sine + b.unsqueeze(middle_x, [3, 4])
    place_y = down * cosine - right * sine + b.unsqueeze(middle_y, [3, 4])

    kept = down_shares * right_shares
    for place, size in ((place_y, rows), (place_x, columns)):
        outside = b.op("Or", place < -1.0, place > b.cast(size, _element(place)))
        kept = b.where(outside, 0.0, kept)
    top, bottom, part_y = _bilinear(b, place_y, rows)
    left, right_pixel, part_x = _bilinear(b, place_x, columns)

    number = b.ints([0])
    if first:
        number = b.unsqueeze(b.cast(b.slice(rois, 1, 0, 1), ir.DataType.INT64), [2, 3, 4])
    pixels = b.op("Reshape", image, b.concat([b.ints([-1]), length(b, image, 3)], 0))
    total: Value | None = None
    for row, share_y in ((top, 1.0 - part_y), (bottom, part_y)):
        for pixel, share_x in ((left, 1.0 - part_x), (right_pixel, part_x)):
            at = (number * rows + b.cast(row, ir.DataType.INT64)) * columns + b.cast(pixel, ir.DataType.INT64)
            term = b.op("Gather", pixels, at, axis=0) * b.unsqueeze(kept * share_y * share_x, [5])
            total = term if total is None else total + term
    assert total is not None
    pooled = b.reduce_sum(total, [2, 4])
    return pooled if is_nhwc(c) else b.transpose(pooled, [0, 3, 1, 2])


@lowers("RoIAlignRotated")
def _roi_align_rotated(c: Context, x: Value, rois: Value) -> Value:
    """Regions are perhaps the number of an image, then x, y of the middle, width, height, degrees."""
    if c.static(rois, 1) not in (5, 6):
        raise c.refused("each region is a middle, a size and an angle, perhaps behind the number of an image")
    return _turned(c, c.b, x, rois)


@lowers("RoIAlignRotatedGradient")
def _roi_align_rotated_gradient(c: Context, x: Value, rois: Value, dy: Value) -> list[Value]:
    c.static(rois, 1)
    return gradients(c.b, lambda b, given: [_turned(c, b, *given)], [x], [dy], [rois])


# ---- regions of R-MAC --------------------------------------------------------------------------------


def _squares(high: int, wide: int, scales: int, overlap: float) -> list[list[int]]:
    """Corners x1, y1, x2, y2 of squares in rows, smaller with each scale, that overlap about so much.

    Formula: Tolias, Sicre, Jégou, "Particular object retrieval with integral max-pooling of CNN activations".
    """
    short, long = min(high, wide), max(high, wide)
    # how many more squares lie along the longer side than along the other one
    more = 1 + min(range(6), key=lambda k: abs(1 - (long - short) / (k + 1) / short - overlap))
    more_x, more_y = (more if wide > high else 0), (more if high > wide else 0)
    squares = []
    for scale in range(1, scales + 1):
        size = 2 * short // (scale + 1)

        def starts(whole: int, steps: int, size: int = size) -> list[int]:
            return [min(int((whole - size) / max(steps, 1) * k), whole - size) for k in range(steps + 1)]

        squares += [
            [x, y, x + size - 1, y + size - 1]
            for x in starts(wide, scale - 1 + more_x)
            for y in starts(high, scale - 1 + more_y)
            if size > 0
        ]
    return squares


@lowers("RMACRegions")
def _rmac_regions(c: Context, x: Value) -> Value:
    """The regions of every image of a batch, each with the number of its image in front."""
    b = c.b
    squares = _squares(c.static(x, 2), c.static(x, 3), c.argument("scales", 3), c.argument("overlap", 0.4))
    corners = b.constant(np.array(squares, np.float32)[None])
    numbers = b.cast(b.unsqueeze(count_up(b, length(b, x, 0)), [1, 2]), ir.DataType.FLOAT)
    in_front = b.op("Expand", numbers, b.ints([1, len(squares), 1]))
    repeated = b.op("Expand", corners, b.concat([length(b, x, 0), b.ints([1, 1])], 0))
    return b.reshape(b.concat([in_front, repeated], 2), [-1, 5])
