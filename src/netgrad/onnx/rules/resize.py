"""Gradient rules of Resize and AffineGrid, whose matrices the operators themselves provide."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import onnx_ir as ir

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule

_WHOLE_RATIO = "keep_aspect_ratio_policy"

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
    attributes=(*_KERNEL_ATTRIBUTES, "axes", "extrapolation_value", _WHOLE_RATIO),
    not_differentiable=(1, 2, 3),
)
def resize(op: RuleContext, dy: Value) -> list[Value | None]:
    """Y = (W_1 x .. x W_n) X, one matrix W_a (out, in) per axis; dX = (W_1^T x .. x W_n^T) dY.

    Resizing is linear and separable, and W_a is what the same Resize makes of the identity matrix; so every
    mode, rounding and coordinate transformation is the forward operator's own. Magnification to the nearest
    by whole factors, where each element becomes a block, is a sum over blocks instead: an average pool.
    Where the aspect ratio is kept, one axis decides the scale of all: the identity gets an axis like it.

    Source: https://onnx.ai/onnx/operators/onnx__Resize.html.
    """
    rank = _rank(op)
    axes = [axis % rank for axis in op.attribute("axes") or range(rank)]
    leader = _leader(op, axes)
    factors = _block_factors(op, axes, leader)
    if factors is not None and op.floating(dy) is not ir.DataType.DOUBLE:
        total = op.emit("AveragePool", dy, kernel_shape=factors, strides=factors) * float(math.prod(factors))
        return [op.builder.assume_shape(total, op.input.shape), *[None] * (len(op.inputs) - 1)]
    dx = dy
    for position, axis in enumerate(axes):
        if not _is_identity(op, position, axis, leader):
            dx = _contract(op, dx, position, axes, rank, leader)
    return [dx, *[None] * (len(op.inputs) - 1)]


def _rank(op: RuleContext) -> int:
    """The rank of X, which has as many scales or sizes where they are not for some axes only."""
    for given in (op.optional(2), op.optional(3)):
        count = None if given is None else given.dim(0)
        if op.input.rank is None and isinstance(count, int) and count and not op.attribute("axes"):
            return count
    return op.rank(op.input)


def _number(values: Value | None, position: int) -> float | None:
    """Entry ``position`` of a 1-D constant; None where it is not known or left out."""
    if values is None or values.constant is None or values.constant.size == 0:
        return None
    return float(values.constant[position])


@dataclass(frozen=True)
class _Leader:
    """The axis that decides the scale of all axes, where the aspect ratio is kept.

    Attributes:
        length: Its size in X, shape (1,).
        size: The size that is asked for it, shape (1,).
        scale: The quotient of the two, where they are known.
    """

    length: Value
    size: Value
    scale: Fraction | None

    def resized(self, size: object) -> int | None:
        """What becomes of an axis of ``size``, where it is known and no rounding is involved."""
        if self.scale is None or not isinstance(size, int):
            return None
        wanted = self.scale * size
        return int(wanted) if wanted.denominator == 1 else None


def _leader(op: RuleContext, axes: list[int]) -> _Leader | None:
    """The axis with the smallest or the largest quotient of sizes; None where each axis has its own."""
    build, sizes, policy = op.builder, op.optional(3), op.attribute(_WHOLE_RATIO)
    if policy not in (None, "stretch", "not_larger", "not_smaller"):
        raise op.refuse(f"{_WHOLE_RATIO} is '{policy}'")
    if sizes is None or policy not in ("not_larger", "not_smaller"):
        return None
    if _crops(op):
        raise op.refuse(f"it crops to a region, and {_WHOLE_RATIO} is '{policy}'")
    lengths = [op.input.dim(axis) for axis in axes]
    known = [length for length in lengths if isinstance(length, int)]
    if sizes.constant is not None and len(known) == len(lengths) and all(known):
        wanted = [int(size) for size in sizes.constant.reshape(-1)]
        pairs = list(zip(wanted, known, strict=True))
        chosen = (min if policy == "not_larger" else max)(pairs, key=lambda pair: Fraction(*pair))
        return _Leader(build.ints([chosen[1]]), build.ints([chosen[0]]), Fraction(*chosen))
    present = build.op("Gather", build.op("Shape", op.input), build.ints(axes))
    quotients = build.cast(sizes, ir.DataType.FLOAT) / build.cast(present, ir.DataType.FLOAT)
    place = build.op("ArgMin" if policy == "not_larger" else "ArgMax", quotients, axis=0, keepdims=1)
    one = (1,)
    return _Leader(
        build.assume_shape(build.op("Gather", present, place), one),
        build.assume_shape(build.op("Gather", sizes, place), one),
        None,
    )


def _crops(op: RuleContext) -> bool:
    return bool(op.attribute("coordinate_transformation_mode") == "tf_crop_and_resize")


def _is_identity(op: RuleContext, position: int, axis: int, leader: _Leader | None) -> bool:
    """Whether the axis is known to come out as it went in."""
    if _crops(op):
        return False
    if leader is not None:
        return leader.scale == 1
    scale = _number(op.optional(2), position)
    if scale is not None:
        return scale == 1
    size = op.input.dim(axis)
    return size is not None and size in (op.output.dim(axis), _number(op.optional(3), position))


def _block_factors(op: RuleContext, axes: list[int], leader: _Leader | None) -> list[int] | None:
    """Whole factors of the axes behind the second, where Resize repeats each element; None otherwise."""
    mode, nearest = op.attribute("coordinate_transformation_mode"), op.attribute("nearest_mode")
    aligned = (mode == "asymmetric" and nearest == "floor") or (
        mode in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")
        and nearest in ("round_prefer_ceil", "round_prefer_floor")
    )
    rank = _rank(op)
    if op.attribute("mode") != "nearest" or op.attribute("antialias") or not aligned or not 3 <= rank <= 5:
        return None
    factors = [1] * rank
    for position, axis in enumerate(axes):
        if _is_identity(op, position, axis, leader):
            continue
        factor = _number(op.optional(2), position)
        if leader is not None:
            if leader.scale is None:
                return None
            factor = float(leader.scale)
        elif factor is None:
            before, after = op.input.dim(axis), op.output.dim(axis)
            if not isinstance(before, int) or not isinstance(after, int) or before == 0:
                return None
            factor = after / before
        if factor < 1 or factor != int(factor):
            return None
        factors[axis] = int(factor)
    return factors[2:] if factors[:2] == [1, 1] else None


def _contract(
    op: RuleContext, dy: Value, position: int, axes: list[int], rank: int, leader: _Leader | None
) -> Value:
    """``W_a^T dY`` along the axis at ``position``."""
    axis = axes[position]
    out_first = axis != rank - 2
    if leader is None or leader.resized(op.input.dim(axis)) is not None:
        weights = _weights(op, position, axes, leader, out_first=out_first)
    else:
        weights = _led_weights(op, position, axis, leader, out_first=out_first)
    if axis == rank - 1:
        return dy @ weights
    if axis == rank - 2:
        return weights @ dy
    swap = list(range(rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    return op.builder.transpose(op.builder.transpose(dy, swap) @ weights, swap)


def _led_weights(op: RuleContext, position: int, axis: int, leader: _Leader, *, out_first: bool) -> Value:
    """W_a, or its transpose, where another axis may decide the scale.

    Row i of the identity, constant along an axis like the leader, is resized along both: all scales stay in
    one operator, and along the leader nothing changes but the size.
    """
    build, length = op.builder, _length(op, axis)
    identity, dtype = _identity(op, length)
    rows = build.unsqueeze(identity, [0, 3])
    spread = build.op("Expand", rows, build.concat([build.ints([1, 1, 1]), leader.length], axis=0))
    sizes = build.concat([_entry(op, op.required(3), position), leader.size], axis=0)
    given = {name: op.attribute(name) for name in (*_KERNEL_ATTRIBUTES, _WHOLE_RATIO)}
    resized = op.emit("Resize", spread, None, None, sizes, axes=[2, 3], **given)
    weights = build.squeeze(build.slice(resized, 3, 0, 1), [0, 3])
    return build.cast(build.transpose(weights, [1, 0]) if out_first else weights, dtype)


def _length(op: RuleContext, axis: int) -> Value:
    """The size of an axis of X, shape (1,)."""
    size = op.input.dim(axis)
    if isinstance(size, int):
        return op.builder.ints([size])
    return op.emit("Shape", op.input, start=axis, end=axis + 1)


def _identity(op: RuleContext, length: Value) -> tuple[Value, ir.DataType]:
    """An identity matrix in a type that can be resized, and the type of X."""
    dtype = op.floating(op.input)
    inner = dtype if dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE) else ir.DataType.FLOAT
    shape = op.builder.concat([length, length], axis=0)
    return op.emit("EyeLike", op.builder.fill(shape, 0.0, inner)), dtype


def _entry(op: RuleContext, values: Value, at: int) -> Value:
    return op.builder.assume_shape(op.builder.slice(values, 0, at, at + 1), (1,))


def _weights(
    op: RuleContext, position: int, axes: list[int], leader: _Leader | None, *, out_first: bool
) -> Value:
    """W_a, or its transpose: the identity matrix resized along one of its axes like one axis of X."""
    build = op.builder
    count, axis = len(axes), axes[position]
    identity, dtype = _identity(op, _length(op, axis))

    def entry(values: Value | None) -> Value | None:
        if values is None or (values.constant is not None and values.constant.size == 0):
            return None
        return _entry(op, values, position)

    sizes = entry(op.optional(3))
    if leader is not None:
        size = leader.resized(op.input.dim(axis))
        assert size is not None, "a size that is rounded needs the leader"
        sizes = build.ints([size])
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
        entry(op.optional(2)),
        sizes,
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
