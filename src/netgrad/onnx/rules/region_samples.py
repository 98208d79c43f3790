"""Where RoiAlign takes its samples.

Positions of rows have the shape (R, PH, 1, GH, 1) and those of columns (R, 1, PW, 1, GW), for R regions of PH
by PW bins with GH by GW samples each, or one that broadcasts to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.placing import count_up
from netgrad.onnx.rules.sampling import LINEAR, AxisTaps, Pixels, Taps, axis_taps, image_taps, nearest_inside


class Samples:
    """The samples along one axis of the image: 0 for rows, 1 for columns.

    Attributes:
        bins: Bins along the axis.
        count: Samples in each bin, of all regions the most: int64 of shape (1,).
        share: Weight of one sample in the mean of its bin; 0 for those that a region does not have.
        present: Which samples a region has; None if all.
        fractions: Places of the samples within the region, from 0 at its start to 1 at its end.
        position: Places of the samples in pixels.
        varies: 1 where the position depends on the region's end, else 0; None if it does everywhere.
    """

    def __init__(self, op: RuleContext, axis: int, dtype: ir.DataType) -> None:
        b, ratio, half = op.builder, int(op.attribute("sampling_ratio")), self._is_half_pixel(op)
        self.bins = int(op.attribute("output_width" if axis else "output_height"))
        scaled = b.cast(op.required(1), dtype) * float(op.attribute("spatial_scale"))
        start, end = (b.unsqueeze(b.slice(scaled, 1, k, k + 1), [2, 3, 4]) for k in (1 - axis, 3 - axis))
        extent, self.varies = end - start, None
        if half:
            start = start - 0.5
        else:
            self.varies = b.cast(extent > 1.0, dtype)
            extent = b.op("Max", extent, b.scalar(1.0, extent))

        bin_shape = (-1, 1, 1, 1) if axis == 0 else (-1, 1, 1)
        bins = np.arange(self.bins).reshape(bin_shape)
        if ratio > 0:
            samples = np.arange(ratio).reshape((-1, 1) if axis == 0 else (-1,))
            self.count, self.present = b.ints([ratio]), None
            self.share = b.constant(1 / ratio, dtype)
            self.fractions = b.constant((bins + (samples + 0.5) / ratio) / self.bins, dtype)
        else:
            wanted = b.op("Ceil", extent / float(self.bins))
            divisor = b.op("Max", wanted, b.scalar(1.0, wanted))
            most = b.concat([b.reshape(divisor, [-1]), b.constant([1.0], dtype)], axis=0)
            self.count = b.cast(b.reshape(b.op("ReduceMax", most, keepdims=1), [1]), ir.DataType.INT64)
            number = b.reshape(b.cast(count_up(b, self.count), dtype), [-1, 1] if axis == 0 else [-1])
            self.present = number < wanted
            self.share = b.cast(self.present, dtype) / divisor
            self.fractions = (b.constant(bins, dtype) + (number + 0.5) / divisor) / float(self.bins)
        self.position = start + self.fractions * extent

    @staticmethod
    def _is_half_pixel(op: RuleContext) -> bool:
        mode = op.attribute("coordinate_transformation_mode")
        if mode not in ("half_pixel", "output_half_pixel"):
            raise op.refuse(f"its coordinate_transformation_mode is {mode!r}")
        return bool(mode == "half_pixel")


def bin_taps(op: RuleContext, samples: Sequence[Samples], *, average: bool) -> Taps:
    """The taps of all samples, (R, PH, PW, GH, GW, taps).

    Args:
        op: A RoiAlign.
        samples: Of rows and of columns.
        average: Whether the weights are divided by the number of samples.
    """
    sizes = Pixels(op.input).sizes(op.builder)
    axes = [_taps(op, axis, size, average=average) for axis, size in zip(samples, sizes, strict=True)]
    return image_taps(op.builder, axes, sizes, LINEAR, 5)


def _taps(op: RuleContext, samples: Samples, size: Value, *, average: bool) -> AxisTaps:
    """A sample up to a pixel outside of the image is moved to its border; one further off counts as zero."""
    b, position = op.builder, samples.position
    dtype = op.floating(position)
    edge = b.cast(size, dtype) if size.constant is None else b.constant(size.constant, dtype)
    last, zero = edge - 1.0, b.scalar(0.0, position)
    moved = b.op("Min", b.op("Max", position, zero), last)
    taps = axis_taps(b, moved, LINEAR, lambda numbers: (nearest_inside(b, numbers, size), None))
    counts = b.cast(b.op("And", position >= -1.0, position <= edge), dtype)
    if average:
        counts = counts * samples.share
    free = b.cast(b.op("And", position > 0.0, position < last), dtype)
    weights = taps.weights * b.unsqueeze(counts, [-1])
    return AxisTaps(taps.places, weights, taps.slopes * b.unsqueeze(counts * free, [-1]))
