"""Gradient rule of GridSample."""

from __future__ import annotations

import functools

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.placing import count_up, joined, length, product
from netgrad.onnx.rules.precision import widened
from netgrad.onnx.rules.sampling import (
    LINEAR,
    NEAREST,
    Pixels,
    axis_taps,
    cubic,
    image_taps,
    nearest_inside,
    zero_outside,
)

_CUBIC = cubic(-0.75)
_MODES = {
    "nearest": NEAREST,
    "linear": LINEAR,
    "bilinear": LINEAR,  # the names up to opset 19
    "cubic": _CUBIC,
    "bicubic": _CUBIC,
}
_PADDINGS = ("zeros", "border", "reflection")


@rule("GridSample", attributes=("align_corners", "mode", "padding_mode"))
def grid_sample(op: RuleContext, dy: Value) -> tuple[Value | None, Value | None]:
    """Y[n, c, o..] = sum over taps of w_k X[n, c, p_k]; dX = w_k dY added at p_k, dG = dw_k/dG sum dY X[p_k].

    X is (N, C, D..), G the grid (N, o.., d) of positions from -1 to 1, the last axis first. A tap outside of
    X is zero, the nearest pixel, or its reflection. So it is, tap by tap, in ONNX Runtime; the reference
    evaluator moves the position instead, which differs in mode cubic with padding border.

    Kink: at whole positions of mode linear the derivative by G is that to the right. Mode nearest is constant
    between its jumps, and its derivative by G is 0.

    Source: https://onnx.ai/onnx/operators/onnx__GridSample.html.
    """
    b, x, grid = op.builder, op.input, op.required(1)
    mode, padding, aligned = op.attribute("mode"), op.attribute("padding_mode"), op.attribute("align_corners")
    if padding not in _PADDINGS:
        raise op.refuse(f"its padding_mode is {padding!r}")
    if mode not in _MODES:
        raise op.refuse(f"its mode is {mode!r}")
    kernel = _MODES[mode]
    known = next((value.shape for value in (x, grid, dy) if value.shape is not None), ())
    for value in (x, grid, dy):  # of one rank by the operator's definition
        b.assume_shape(value, (None,) * len(known) or None)
    pixels = Pixels(x)
    d = op.rank(x) - 2
    sizes = pixels.sizes(b)
    seeds = widened(b, dy)
    dtype = op.floating(seeds)
    images, points = length(b, grid, 0), product(b, grid, 1, 1 + d)
    flat = b.op("Reshape", b.cast(grid, dtype), joined(b, [images, points, b.ints([d])]), allowzero=1)
    scales, axes = [], []
    for axis in range(d):
        coordinate = b.squeeze(b.slice(flat, 2, d - 1 - axis, d - axis), [2])
        scale, position = _position(b, coordinate, sizes[axis], aligned=bool(aligned))
        place = functools.partial(_place, b, size=sizes[axis], padding=padding, aligned=bool(aligned))
        scales.append(scale)
        axes.append(axis_taps(b, position, kernel, place))
    taps = image_taps(b, axes, sizes, kernel, 2)
    image = b.reshape(count_up(b, images), [-1, 1, 1])
    places = taps.places + image * pixels.area(b)

    # Cotangents as (N, points, C).
    three = joined(b, [images, pixels.channels(b), points])
    rows = b.transpose(b.op("Reshape", seeds, three, allowzero=1), [0, 2, 1])
    dx = dgrid = None
    if op.wants(0):
        dx = pixels.collected(b, b.unsqueeze(taps.weights, [3]) * b.unsqueeze(rows, [2]), places)
    if op.wants(1) and mode == "nearest":
        dgrid = b.zeros_like(grid)
    elif op.wants(1):
        read = b.op("Gather", b.cast(pixels.rows(b), dtype), places, axis=0)
        dweights = b.squeeze(read @ b.unsqueeze(rows, [3]), [3])
        parts = [
            b.reduce_sum(dweights * taps.slopes[axis], [2], keepdims=True) * scales[axis]
            for axis in reversed(range(d))
        ]
        dgrid = b.reshape_like(b.concat(parts, axis=2), grid)
    return dx, dgrid


def _position(b: Builder, coordinate: Value, size: Value, *, aligned: bool) -> tuple[Value, Value]:
    """Pixels per unit of the grid, and the position in pixels."""
    assert coordinate.dtype is not None, "a floating-point input's type is known"
    dtype = coordinate.dtype
    pixels = b.cast(size, dtype) if size.constant is None else b.constant(size.constant, dtype)
    if aligned:
        scale = (
            (pixels - 1.0) / 2.0 if pixels.constant is None else b.constant((pixels.constant - 1) / 2, dtype)
        )
        return scale, (coordinate + 1.0) * scale
    scale = pixels / 2.0 if pixels.constant is None else b.constant(pixels.constant / 2, dtype)
    return scale, (coordinate + 1.0) * scale - 0.5


def _place(
    b: Builder, numbers: Value, *, size: Value, padding: str, aligned: bool
) -> tuple[Value, Value | None]:
    """Pixels inside of the image, and which of them count."""
    if padding == "zeros":
        return zero_outside(b, numbers, size=size)
    if padding == "border":
        return nearest_inside(b, numbers, size), None
    # The image, mirrored at its first and last pixel or at their outer borders, is repeated.
    one = b.ints([1])
    period = b.op("Max", size + size - b.ints([2]), one) if aligned else size + size
    phase = b.op("Mod", numbers, period)
    return b.op("Min", phase, period - phase if aligned else period - one - phase), None
