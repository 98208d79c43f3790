"""Gradient rules of pools over regions of an image: RoiAlign and MaxRoiPool.

A region is divided into PH by PW bins, each of which reads a number of pixels. With R regions, B = PH PW bins
and S pixels per bin, the pixels' places are a tensor (R, B, S), and what is read there (R, B, S, C).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.half import working_type
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.placing import count_up, joined, length, product
from netgrad.onnx.rules.precision import widened
from netgrad.onnx.rules.region_samples import Samples, bin_taps
from netgrad.onnx.rules.sampling import Pixels, nearest_inside, times


@rule(
    "RoiAlign",
    attributes=(
        "coordinate_transformation_mode",
        "mode",
        "output_height",
        "output_width",
        "sampling_ratio",
        "spatial_scale",
    ),
    not_differentiable=(2,),
)
def roi_align(op: RuleContext, dy: Value) -> tuple[Value | None, Value | None, None]:
    """Y[r, c, bin] = mean (or maximum) of w_s X[c, p_s] over the taps s of all samples in the bin.

    The samples lie at start + f (end - start) with given fractions f. Mode avg: dX = w dY added at p, and
    dw = sum over c of dY X[p]. Mode max, which takes the largest product w_s X[p_s] and not the largest
    sample: the same for the tap that attains it. The gradient of the regions follows from dw by the slopes of
    w; the number of samples in a bin counts as constant.

    Kink: of equal products the first gets the gradient. At whole positions the derivative by the regions is
    that to the right, and it is 0 where a position is moved to the border of the image.

    Source: https://onnx.ai/onnx/operators/onnx__RoiAlign.html.
    """
    b, x, mode = op.builder, op.input, op.attribute("mode")
    if mode not in ("avg", "max"):
        raise op.refuse(f"its mode is {mode!r}")
    _are_images(b, x, dy)
    dtype, pixels = working_type(op.floating(dy)), Pixels(x)
    samples = [Samples(op, axis, dtype) for axis in (0, 1)]
    taps = bin_taps(op, samples, average=mode == "avg")
    shape = _per_bin(b, op.required(1), samples)
    image = b.unsqueeze(b.cast(op.required(2), ir.DataType.INT64), [1, 2])
    places = b.op("Reshape", taps.places, shape, allowzero=1) + image * pixels.area(b)
    weights = b.op("Reshape", taps.weights, shape, allowzero=1)
    read = b.op("Gather", b.cast(pixels.rows(b), dtype), places, axis=0)
    seeds = b.unsqueeze(_by_bin(b, widened(b, dy), pixels), [2])
    if mode == "max":
        products = b.unsqueeze(weights, [3]) * read
        allowed = _allowed(b, samples, taps.weights, shape)
        if allowed is not None:
            products = b.where(allowed, products, -math.inf)
        first = _first(b, products, weights)
        seeds = b.where(first if allowed is None else b.op("And", first, allowed), seeds, 0.0)
    dx = drois = None
    if op.wants(0):
        dx = pixels.collected(b, b.unsqueeze(weights, [3]) * seeds, places)
    if op.wants(1):
        dweights = b.reshape_like(b.reduce_sum(read * seeds, [3]), taps.weights)
        drois = _by_region(op, samples, [dweights * slopes for slopes in taps.slopes])
    return dx, drois, None


def _are_images(b: Builder, *values: Value) -> None:
    """Values of four dims by the operator's definition, whatever inference knows."""
    for value in values:
        b.assume_shape(value, (None,) * 4)


def _per_bin(b: Builder, rois: Value, samples: Sequence[Samples]) -> Value:
    """The shape (R, B, S)."""
    rows, columns = samples
    count = times(b, times(b, rows.count, columns.count), b.ints([4]))
    return joined(b, [length(b, rois, 0), b.ints([rows.bins * columns.bins]), count])


def _by_bin(b: Builder, y: Value, pixels: Pixels) -> Value:
    """A tensor of the shape of Y, (R, C, PH, PW), as (R, B, C)."""
    shape = joined(b, [length(b, y, 0), pixels.channels(b), product(b, y, 2, 4)])
    return b.transpose(b.op("Reshape", y, shape, allowzero=1), [0, 2, 1])


def _allowed(b: Builder, samples: Sequence[Samples], like: Value, shape: Value) -> Value | None:
    """Which taps (R, B, S, 1) belong to samples that the region has; None if all do."""
    rows, columns = (axis.present for axis in samples)
    if rows is None or columns is None:
        return None
    all_taps = b.expand_like(b.unsqueeze(b.op("And", rows, columns), [5]), like)
    return b.unsqueeze(b.op("Reshape", all_taps, shape, allowzero=1), [3])


def _first(b: Builder, values: Value, places: Value) -> Value:
    """Whether an element of ``values`` (R, B, S, C) is the first of the largest along S."""
    winner = b.op("ArgMax", values, axis=2, keepdims=1)
    return b.reshape(count_up(b, length(b, places, 2)), [-1, 1]).equals(winner)


def _by_region(op: RuleContext, samples: Sequence[Samples], shares: Sequence[Value]) -> Value:
    """The gradient of the corners (x1, y1, x2, y2), from that of the positions along both axes."""
    b, starts, ends = op.builder, [], []
    for axis, share in zip(samples, shares, strict=True):
        positions = b.reduce_sum(share, [5])
        whole = b.reduce_sum(positions, [1, 2, 3, 4], keepdims=True)
        extent = b.reduce_sum(positions * axis.fractions, [1, 2, 3, 4], keepdims=True)
        if axis.varies is not None:
            extent = extent * axis.varies
        starts.append(b.squeeze(whole - extent, [2, 3, 4]))
        ends.append(b.squeeze(extent, [2, 3, 4]))
    corners = b.concat([starts[1], starts[0], ends[1], ends[0]], axis=1)
    return b.assume_like(corners * float(op.attribute("spatial_scale")), op.required(1))


@rule("MaxRoiPool", attributes=("pooled_shape", "spatial_scale"), not_differentiable=(1,))
def max_roi_pool(op: RuleContext, dy: Value) -> tuple[Value, None]:
    """Y[r, c, bin] = maximum of X[c] over the pixels of the bin; dX = dY added where it is attained.

    The bins' bounds are whole pixels: as a function of the regions Y is constant between its jumps.

    Kink: of equal pixels in a bin the first in row-major order gets all of dY.

    Source: R. Girshick, "Fast R-CNN", 2015, section 2.1.
    """
    b, ((x, _), y) = op.builder, op.comparable()
    assert x is not None, "the input is required"
    _are_images(b, op.input, x, y, dy)
    pixels = Pixels(x)
    rois = b.cast(op.required(1), ir.DataType.FLOAT)
    bounds = [_bounds(op, rois, axis) for axis in (0, 1)]
    (rows, in_rows), (columns, in_columns) = bounds
    image = b.cast(b.slice(rois, 1, 0, 1), ir.DataType.INT64)
    whole = rows * pixels.sizes(b)[1] + columns + b.unsqueeze(image, [2, 3, 4]) * pixels.area(b)
    inside = b.op("And", in_rows, in_columns)
    height, width = op.attribute("pooled_shape")
    window = times(b, length(b, rows, 3), length(b, columns, 4))
    shape = joined(b, [length(b, rois, 0), b.ints([height * width]), window])
    places = b.op("Reshape", whole, shape, allowzero=1)
    inside = b.unsqueeze(b.op("Reshape", inside, shape, allowzero=1), [3])

    maxima = b.unsqueeze(_by_bin(b, y, pixels), [2])
    read = b.op("Gather", pixels.rows(b), places, axis=0)
    attained = b.op("And", read.equals(maxima), inside)
    first = _first(b, b.cast(attained, ir.DataType.INT32), places)
    seeds = b.unsqueeze(_by_bin(b, widened(b, dy), pixels), [2])
    shares = b.where(b.op("And", first, attained), seeds, 0.0)
    return pixels.collected(b, shares, places), None


def _bounds(op: RuleContext, rois: Value, axis: int) -> tuple[Value, Value]:
    """Pixels along an axis, (R, PH, 1, window, 1) or (R, 1, PW, 1, window), and which lie in the bin.

    Bins of a region from pixel s to pixel e divide e - s + 1 pixels, rounded down at the start and up at the
    end, so that neighbours may share a pixel. Corners are rounded, halves away from 0.
    """
    b, bins, column = op.builder, int(op.attribute("pooled_shape")[axis]), 2 - axis
    size = Pixels(op.input).sizes(b)[axis]
    start, end = (_rounded(op, b.slice(rois, 1, k, k + 1)) for k in (column, column + 2))
    extent = b.op("Max", end - start + 1.0, b.scalar(1.0, end)) / float(bins)
    number = b.constant([[[[float(k)]]] for k in range(bins)], ir.DataType.FLOAT)  # (PH, 1, 1, 1)
    if axis == 1:
        number = b.reshape(number, [1, bins, 1, 1])
    extent, origin = b.unsqueeze(extent, [2, 3, 4]), b.unsqueeze(start, [2, 3, 4])
    limit = size + b.ints([1])
    low, high = (
        nearest_inside(b, b.cast(b.op(rounding, pixels * extent) + origin, ir.DataType.INT64), limit)
        for rounding, pixels in (("Floor", number), ("Ceil", number + 1.0))
    )
    widest = b.reshape(b.op("ReduceMax", b.concat([b.reshape(high - low, [-1]), b.ints([1])], 0)), [1])
    steps = b.reshape(count_up(b, widest), [-1, 1] if axis == 0 else [1, -1])
    place = low + steps
    return nearest_inside(b, place, size), place < high


def _rounded(op: RuleContext, corner: Value) -> Value:
    """A corner in pixels, to the nearest whole one."""
    b, scaled = op.builder, corner * float(op.attribute("spatial_scale"))
    return b.op("Sign", scaled) * b.op("Floor", b.op("Abs", scaled) + 0.5)
