"""Gradient rule of Resize, whose matrices the operator itself provides."""

from __future__ import annotations

import math

import onnx_ir as ir

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.resize_matrices import (
    KERNEL_ATTRIBUTES,
    MODE,
    WHOLE_RATIO,
    Leader,
    contract,
    crops,
    entry_at,
    inner_type,
    is_empty,
    is_identity,
    leader_of,
    number_at,
    rank_of,
    scales_of,
)
from netgrad.onnx.rules.resize_positions import Axis, Sampled, by_region, by_scale, weight_slopes


@rule(
    "Resize",
    attributes=(*KERNEL_ATTRIBUTES, "axes", "extrapolation_value", WHOLE_RATIO),
    not_differentiable=(3,),
)
def resize(op: RuleContext, dy: Value) -> list[Value | None]:
    """Y = (W_1 x .. x W_n) X, one matrix W_a (out, in) per axis; dX = (W_1^T x .. x W_n^T) dY.

    Resizing is linear and separable, and W_a is what the same Resize makes of the identity matrix; so every
    mode, rounding and coordinate transformation is the forward operator's own. Magnification to the nearest
    by whole factors, where each element becomes a block, is a sum over blocks instead: an average pool.
    Where the aspect ratio is kept, one axis decides the scale of all: the identity gets an axis like it.

    In modes linear and cubic the scales, and the region that is cropped to, move the positions that are
    sampled: their gradient is <dY, (W_1 x .. x dW_a x .. x W_n) X> for each axis a. Positions that follow
    from sizes alone have none by the scales. (ONNX Runtime ignores the region along an axis of scale 1.)

    Kink: mode nearest is constant between its jumps, and its derivative by scales and roi is 0. The sizes
    jump where size times scale is whole, and count as constant; at whole positions of mode linear the slope
    is that to the left. So the derivative by a scale is the one from above: positions fall as it grows.

    Source: https://onnx.ai/onnx/operators/onnx__Resize.html.
    """
    axes = [axis % rank_of(op) for axis in op.attribute("axes") or range(rank_of(op))]
    leader = leader_of(op, axes)
    return [
        _image_gradient(op, dy, axes, leader) if op.wants(0) else None,
        *[_position_gradient(op, dy, axes, leader, which) for which in range(1, min(len(op.inputs), 3))],
        *[None] * len(op.inputs[3:]),
    ]


def _image_gradient(op: RuleContext, dy: Value, axes: list[int], leader: Leader | None) -> Value:
    """The gradient of X: dX."""
    factors = _block_factors(op, axes, leader)
    if factors is not None and op.floating(dy) is not ir.DataType.DOUBLE:
        total = op.emit("AveragePool", dy, kernel_shape=factors, strides=factors) * float(math.prod(factors))
        return op.builder.assume_shape(total, op.input.shape)
    for position, axis in enumerate(axes):
        if not is_identity(op, position, axis, leader):
            dy = contract(op, dy, position, axes, rank_of(op), leader)
    return dy


def _position_gradient(
    op: RuleContext, dy: Value, axes: list[int], leader: Leader | None, which: int
) -> Value | None:
    """The gradient by the region, which is input 1, or by the scales, which are input 2."""
    build, given = op.builder, op.optional(which)
    if given is None or not op.wants(which):
        return None
    fixed = op.attribute("mode") == "nearest" or (which == 1) is not crops(op)
    if fixed or is_empty(given) or (which == 2 and op.attribute(MODE) == "align_corners"):
        return build.zeros_like(given)
    if op.attribute("antialias"):
        what = "region" if which == 1 else "scales"
        raise op.refuse(
            f"it smooths (antialias), and the gradient by its {what} '{given.name}' is not there",
            f"leave '{given.name}' out of what is differentiated by, or set antialias to 0",
        )
    parts: list[list[Value]] = []
    for position in range(len(axes)):
        sizes = [build.size_along(value, [axes[position]]) for value in (op.input, op.output)]
        axis = Axis(sizes[0], sizes[1], inner_type(op))
        sampled = _sampled(op, given, axis, position, len(axes), which)
        pairs = _pairs(op, dy, position, axes, leader) * weight_slopes(op, axis, sampled.positions)
        along = build.reduce_sum(pairs, [1], keepdims=True)
        parts.append([build.reduce_sum(along * slope, [0, 1]) for slope in sampled.slopes])
    gathered = [build.unsqueeze(part, [0]) for column in zip(*parts, strict=True) for part in column]
    return build.concat(gathered, axis=0)


def _sampled(op: RuleContext, given: Value, axis: Axis, position: int, count: int, which: int) -> Sampled:
    wide = op.builder.cast(given, axis.dtype)
    if which == 2:
        return by_scale(op, axis, entry_at(op, wide, position))
    return by_region(op, axis, entry_at(op, wide, position), entry_at(op, wide, count + position))


def _pairs(op: RuleContext, dy: Value, position: int, axes: list[int], leader: Leader | None) -> Value:
    """How much each element in of X takes part in each element out of Y, by the axis alone: (out, in).

    That is dY, resized back along all other axes, times X, summed over these.
    """
    build, rank, inner = op.builder, rank_of(op), inner_type(op)
    back, axis = build.cast(dy, inner), axes[position]
    for other in range(len(axes)):
        if other != position and not is_identity(op, other, axes[other], leader):
            back = contract(op, back, other, axes, rank, leader)
    order = [axis, *(other for other in range(rank) if other != axis)]
    left, right = (
        build.reshape(build.transpose(value, order), [0, -1]) for value in (back, build.cast(op.input, inner))
    )
    return left @ build.transpose(right, [1, 0])


def _block_factors(op: RuleContext, axes: list[int], leader: Leader | None) -> list[int] | None:
    """Whole factors of the axes behind the second, where Resize repeats each element; None otherwise."""
    mode, nearest = op.attribute(MODE), op.attribute("nearest_mode")
    aligned = (mode == "asymmetric" and nearest == "floor") or (
        mode in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")
        and nearest in ("round_prefer_ceil", "round_prefer_floor")
    )
    rank = rank_of(op)
    if op.attribute("mode") != "nearest" or op.attribute("antialias") or not aligned or not 3 <= rank <= 5:
        return None
    factors = [1] * rank
    for position, axis in enumerate(axes):
        if is_identity(op, position, axis, leader):
            continue
        factor = number_at(scales_of(op), position)
        if leader is not None:
            if leader.scale is None:
                return None
            factor = float(leader.scale)
        elif factor is None:
            if scales_of(op) is not None:
                return None
            before, after = op.input.dim(axis), op.output.dim(axis)
            if not isinstance(before, int) or not isinstance(after, int) or before == 0:
                return None
            factor = after / before
        if factor < 1 or factor != int(factor):
            return None
        factors[axis] = int(factor)
    return factors[2:] if factors[:2] == [1, 1] else None
