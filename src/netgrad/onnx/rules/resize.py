"""Gradient rules of Resize and AffineGrid, whose matrices the operators themselves provide."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule

_KERNEL_ATTRIBUTES = (
    "antialias",
    "coordinate_transformation_mode",
    "cubic_coeff_a",
    "exclude_outside",
    "mode",
    "nearest_mode",
)


@rule(
    "Resize",
    attributes=(*_KERNEL_ATTRIBUTES, "axes", "extrapolation_value"),
    not_differentiable=(1, 2, 3),
)
def resize(op: RuleContext, dy: Value) -> list[Value | None]:
    """Y = (W_1 x .. x W_n) X, one matrix W_a (out, in) per axis; dX = (W_1^T x .. x W_n^T) dY.

    Resizing is linear and separable, and W_a is what the same Resize makes of the identity matrix; so every
    mode, rounding and coordinate transformation is the forward operator's own. Magnification to the nearest
    by whole factors, where each element becomes a block, is a sum over blocks instead: an average pool.

    Source: https://onnx.ai/onnx/operators/onnx__Resize.html.
    """
    rank = op.rank(op.input)
    axes = [axis % rank for axis in op.attribute("axes") or range(rank)]
    factors = _block_factors(op, axes)
    if factors is not None and op.floating(dy) is not ir.DataType.DOUBLE:
        total = op.emit("AveragePool", dy, kernel_shape=factors, strides=factors) * float(math.prod(factors))
        return [op.builder.assume_shape(total, op.input.shape), *[None] * (len(op.inputs) - 1)]
    dx = dy
    for position, axis in enumerate(axes):
        if not _is_identity(op, position, axis):
            dx = _contract(op, dx, position, len(axes), axis, rank)
    return [dx, *[None] * (len(op.inputs) - 1)]


def _number(values: Value | None, position: int) -> float | None:
    """Entry ``position`` of a 1-D constant; None where it is not known or left out."""
    if values is None or values.constant is None or values.constant.size == 0:
        return None
    return float(values.constant[position])


def _crops(op: RuleContext) -> bool:
    return bool(op.attribute("coordinate_transformation_mode") == "tf_crop_and_resize")


def _is_identity(op: RuleContext, position: int, axis: int) -> bool:
    """Whether the axis is known to come out as it went in."""
    if _crops(op):
        return False
    scale = _number(op.optional(2), position)
    if scale is not None:
        return scale == 1
    size = op.input.dim(axis)
    return size is not None and size in (op.output.dim(axis), _number(op.optional(3), position))


def _block_factors(op: RuleContext, axes: list[int]) -> list[int] | None:
    """Whole factors of the axes behind the second, where Resize repeats each element; None otherwise."""
    mode, nearest = op.attribute("coordinate_transformation_mode"), op.attribute("nearest_mode")
    aligned = (mode == "asymmetric" and nearest == "floor") or (
        mode in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")
        and nearest in ("round_prefer_ceil", "round_prefer_floor")
    )
    rank = op.rank(op.input)
    if op.attribute("mode") != "nearest" or op.attribute("antialias") or not aligned or not 3 <= rank <= 5:
        return None
    factors = [1] * rank
    for position, axis in enumerate(axes):
        if _is_identity(op, position, axis):
            continue
        factor = _number(op.optional(2), position)
        if factor is None:
            before, after = op.input.dim(axis), op.output.dim(axis)
            if not isinstance(before, int) or not isinstance(after, int) or before == 0:
                return None
            factor = after / before
        if factor < 1 or factor != int(factor):
            return None
        factors[axis] = int(factor)
    return factors[2:] if factors[:2] == [1, 1] else None


def _contract(op: RuleContext, dy: Value, position: int, count: int, axis: int, rank: int) -> Value:
    """``W_a^T dY`` along one axis."""
    if axis == rank - 1:
        return dy @ _weights(op, position, count, axis, out_first=True)
    if axis == rank - 2:
        return _weights(op, position, count, axis, out_first=False) @ dy
    swap = list(range(rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    moved = op.builder.transpose(dy, swap) @ _weights(op, position, count, axis, out_first=True)
    return op.builder.transpose(moved, swap)


def _weights(op: RuleContext, position: int, count: int, axis: int, *, out_first: bool) -> Value:
    """W_a, or its transpose: the identity matrix resized along one of its axes like ``axis`` of X."""
    build = op.builder
    dtype = op.floating(op.input)
    inner = dtype if dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE) else ir.DataType.FLOAT
    size = op.input.dim(axis)
    length = (
        build.ints([size]) if isinstance(size, int) else op.emit("Shape", op.input, start=axis, end=axis + 1)
    )
    shape = build.concat([length, length], axis=0)
    zeros = build.fill(shape, 0.0, inner)
    identity = op.emit("EyeLike", zeros)

    def entry(values: Value | None, at: int) -> Value | None:
        if values is None or (values.constant is not None and values.constant.size == 0):
            return None
        return build.assume_shape(build.slice(values, 0, at, at + 1), (1,))

    roi = None
    if _crops(op):
        region = op.required(1)
        start, end = (
            build.slice(region, 0, position, position + 1),
            build.slice(region, 0, count + position, count + position + 1),
        )
        roi = build.concat([start, end], axis=0)
    resized = op.emit(
        "Resize",
        identity,
        roi,
        entry(op.optional(2), position),
        entry(op.optional(3), position),
        axes=[0 if out_first else 1],
        **{name: op.attribute(name) for name in _KERNEL_ATTRIBUTES if op.has_attribute(name)},
    )
    return build.cast(resized, dtype)


@rule("AffineGrid", attributes=("align_corners",), not_differentiable=(1,))
def affine_grid(op: RuleContext, dy: Value) -> tuple[Value, None]:
    """Y[n, .., i] = sum over j of theta[n, i, j] p[.., j] with p = (position, 1); dtheta = sum of dY p.

    theta is (N, d, d + 1) and Y (N, D.., d) with d = 2 or 3 spatial axes. The positions are what the same
    operator makes of the identity map.

    Source: https://onnx.ai/onnx/operators/onnx__AffineGrid.html.
    """
    build, theta = op.builder, op.required(0)
    d = op.rank(op.output) - 2
    identity = build.expand_like(build.constant(np.eye(d, d + 1)[None], op.floating(theta)), theta)
    positions = op.emit("AffineGrid", identity, op.required(1), align_corners=op.attribute("align_corners"))
    flat = build.op("Reshape", positions, build.ints([0, -1, d]))
    seeds = build.op("Reshape", dy, build.ints([0, -1, d]))
    linear = build.transpose(seeds, [0, 2, 1]) @ flat
    offset = build.unsqueeze(build.reduce_sum(seeds, [1]), [2])
    return build.assume_shape(build.concat([linear, offset], axis=2), theta.shape), None
