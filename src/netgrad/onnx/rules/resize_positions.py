"""Where Resize samples an axis, and how its weights change with these positions.

A position c depends on the axis' scale or region by `coordinate_transformation_mode`, and row o of the axis'
matrix W on the position of output element o alone. So dW/ds = diag(dc/ds) dW/dc: `by_scale` and `by_region`
give c and dc, `weight_slopes` gives dW/dc. All of it is written with differentiable operators.

Source: https://onnx.ai/onnx/operators/onnx__Resize.html.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.context import RuleContext

_HALVES = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")


@dataclass(frozen=True)
class Axis:
    """One axis, before and after.

    Attributes:
        before: Its size in X, of shape () and type int64.
        after: Its size in Y, likewise.
        dtype: The element type in which positions are computed.
    """

    before: Value
    after: Value
    dtype: ir.DataType


@dataclass(frozen=True)
class Sampled:
    """The positions along an axis, and what they change by.

    Attributes:
        positions: c, shape (out, 1).
        slopes: Its derivative by each number that it depends on, shape (out, 1) each.
    """

    positions: Value
    slopes: tuple[Value, ...]


def _counted(build: Builder, count: Value, dtype: ir.DataType) -> Value:
    """0, 1, .. up to ``count``, which is left out."""
    zero, one = build.scalar(0, count), build.scalar(1, count)
    return build.cast(build.op("Range", zero, count, one), dtype)


def by_scale(op: RuleContext, axis: Axis, scale: Value) -> Sampled:
    """Positions as they follow from the scale s of shape (1,), in modes where not sizes alone decide them.

    c = b + q / s and dc/ds = -q / s^2 with x = 0, 1, ..: q = x and b = 0 in mode asymmetric; q = x + 1/2 and
    b = -1/2 in half_pixel and pytorch_half_pixel; q = x + 1/2 - out/2 and b = in/2 - 1/2 in
    half_pixel_symmetric.
    """
    build, mode = op.builder, op.attribute("coordinate_transformation_mode")
    if mode != "asymmetric" and mode not in _HALVES:
        raise op.refuse(f"the gradient by its scales in mode '{mode}' of coordinates is not there")
    q = build.unsqueeze(_counted(build, axis.after, axis.dtype), [1])
    if mode in _HALVES:
        q = q + 0.5
    if mode == "half_pixel_symmetric":
        q = q - build.cast(axis.after, axis.dtype) * 0.5
    c = q / scale
    slope = -c / scale
    if mode == "half_pixel_symmetric":
        c = c + (build.cast(axis.before, axis.dtype) * 0.5 - 0.5)
    elif mode in _HALVES:
        c = c - 0.5
    if mode == "pytorch_half_pixel":  # a single element is taken from a fixed position
        slope = slope * build.cast(axis.after > build.scalar(1, axis.after), axis.dtype)
    return Sampled(c, (slope,))


def by_region(op: RuleContext, axis: Axis, start: Value, end: Value) -> Sampled:
    """Positions as they follow from the bounds of the region, of shape (1,), in mode tf_crop_and_resize.

    c = (in - 1) (start + r (end - start)) with r = x / (out - 1), or 1/2 for a single element. An element
    outside [0, in - 1] is ``extrapolation_value``, which does not depend on the region.
    """
    build = op.builder
    last = build.cast(axis.before, axis.dtype) - 1.0
    x = build.unsqueeze(_counted(build, axis.after, axis.dtype), [1])
    single = build.cast(axis.after.equals(build.scalar(1, axis.after)), axis.dtype)
    x, intervals = x + single * 0.5, build.cast(axis.after, axis.dtype) - 1.0 + single
    # in the forward operator's order of operations: a rounding decides whether an element is outside
    c = start * last + x * (end - start) * last / intervals
    inside = op.emit("And", c >= build.scalar(0, c), c <= last)
    reach = build.cast(inside, axis.dtype) * last
    share = x / intervals
    return Sampled(c, (reach * (1.0 - share), reach * share))


def weight_slopes(op: RuleContext, axis: Axis, c: Value) -> Value:
    """dW/dc, shape (out, in), at positions of shape (out, 1).

    Element o is the sum of w_k(c) x[t + k], with t the last whole position below c and f = c - t in (0, 1].
    Linear: w = (1 - f, f). Cubic: w is Keys' kernel at distances f + 1, f, 1 - f and 2 - f. Taps outside
    the tensor read its border, or with ``exclude_outside`` have no weight and the others add up to 1.
    """
    build, mode = op.builder, op.attribute("mode")
    t = op.emit("Ceil", c) - 1.0
    f = c - t
    offsets: list[float]
    if mode == "linear":
        offsets, one = [0.0, 1.0], build.full_like(f, 1.0)
        weights, slopes = [1.0 - f, f], [-one, one]
    else:
        offsets = [-1.0, 0.0, 1.0, 2.0]
        weights, slopes = _cubic(f, float(op.attribute("cubic_coeff_a", -0.75)))
    taps = [t + offset for offset in offsets]
    last = build.cast(axis.before, axis.dtype) - 1.0
    zero = build.scalar(0, t)
    # the standard means it for cubic, where alone ONNX Runtime heeds it; two linear weights are no different
    if mode == "cubic" and op.attribute("exclude_outside"):
        present = [build.cast(op.emit("And", tap >= zero, tap <= last), axis.dtype) for tap in taps]
        slopes = _normalized(present, weights, slopes)
    places = build.unsqueeze(_counted(build, axis.before, axis.dtype), [0])
    parts = [
        build.cast(op.emit("Min", op.emit("Max", tap, zero), last).equals(places), axis.dtype) * slope
        for tap, slope in zip(taps, slopes, strict=True)
    ]
    return build.op("Sum", *parts)


def _cubic(f: Value, a: float) -> tuple[list[Value], list[Value]]:
    """The four weights and their derivatives by f."""

    def near(d: Value) -> tuple[Value, Value]:
        """Near it: (a + 2) d^3 - (a + 3) d^2 + 1."""
        return (d * (a + 2) - (a + 3)) * d * d + 1.0, (d * (3 * (a + 2)) - 2 * (a + 3)) * d

    def far(d: Value) -> tuple[Value, Value]:
        """Far from the position: a (d^3 - 5 d^2 + 8 d - 4)."""
        return (((d - 5.0) * d + 8.0) * d - 4.0) * a, ((d * 3.0 - 10.0) * d + 8.0) * a

    (w0, s0), (w1, s1), (w2, s2), (w3, s3) = far(f + 1.0), near(f), near(1.0 - f), far(2.0 - f)
    return [w0, w1, w2, w3], [s0, s1, -s2, -s3]


def _normalized(present: Sequence[Value], weights: Sequence[Value], slopes: Sequence[Value]) -> list[Value]:
    """The derivatives of weights that are divided by the sum of those that are present."""
    build = present[0]._builder
    weights = [mask * weight for mask, weight in zip(present, weights, strict=True)]
    slopes = [mask * slope for mask, slope in zip(present, slopes, strict=True)]
    total, change = build.op("Sum", *weights), build.op("Sum", *slopes)
    return [(slope - weight / total * change) / total for weight, slope in zip(weights, slopes, strict=True)]
