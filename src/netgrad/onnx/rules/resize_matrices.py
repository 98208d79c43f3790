"""The matrix W_a that Resize applies along an axis, made by the same Resize; and what decides its scale."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import onnx_ir as ir

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext

MODE = "coordinate_transformation_mode"
WHOLE_RATIO = "keep_aspect_ratio_policy"

KERNEL_ATTRIBUTES = (
    "antialias",
    MODE,
    "cubic_coeff_a",
    "exclude_outside",
    "mode",
    "nearest_mode",
)


def inner_type(op: RuleContext) -> ir.DataType:
    """A type in which can be resized: that of X, or float32."""
    dtype = op.floating(op.input)
    return dtype if dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE) else ir.DataType.FLOAT


def is_empty(values: Value) -> bool:
    """Whether a 1-D input says nothing, as if it were left out."""
    return values.static_shape == (0,)


def rank_of(op: RuleContext) -> int:
    """The rank of X, which has as many scales or sizes where they are not for some axes only."""
    for given in (op.optional(2), op.optional(3)):
        count = None if given is None else given.dim(0)
        if op.input.rank is None and isinstance(count, int) and count and not op.attribute("axes"):
            return count
    return op.rank(op.input)


def number_at(values: Value | None, position: int) -> float | None:
    """Entry ``position`` of a 1-D constant; None where it is not known or left out."""
    if values is None or values.constant is None or values.constant.size == 0:
        return None
    return float(values.constant[position])


def scales_of(op: RuleContext) -> Value | None:
    """The scales; None where the sizes are given."""
    scales = op.optional(2)
    return None if scales is None or is_empty(scales) else scales


@dataclass(frozen=True)
class Leader:
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


def leader_of(op: RuleContext, axes: list[int]) -> Leader | None:
    """The axis with the smallest or the largest quotient of sizes; None where each axis has its own."""
    build, sizes, policy = op.builder, op.optional(3), op.attribute(WHOLE_RATIO)
    if policy not in (None, "stretch", "not_larger", "not_smaller"):
        raise op.refuse(f"{WHOLE_RATIO} is '{policy}'")
    if sizes is None or policy not in ("not_larger", "not_smaller"):
        return None
    if crops(op):
        raise op.refuse(f"it crops to a region, and {WHOLE_RATIO} is '{policy}'")
    lengths = [op.input.dim(axis) for axis in axes]
    known = [length for length in lengths if isinstance(length, int)]
    if sizes.constant is not None and len(known) == len(lengths) and all(known):
        wanted = [int(size) for size in sizes.constant.reshape(-1)]
        pairs = list(zip(wanted, known, strict=True))
        chosen = (min if policy == "not_larger" else max)(pairs, key=lambda pair: Fraction(*pair))
        return Leader(build.ints([chosen[1]]), build.ints([chosen[0]]), Fraction(*chosen))
    present = build.op("Gather", build.op("Shape", op.input), build.ints(axes))
    quotients = build.cast(sizes, ir.DataType.FLOAT) / build.cast(present, ir.DataType.FLOAT)
    place = build.op("ArgMin" if policy == "not_larger" else "ArgMax", quotients, axis=0, keepdims=1)
    one = (1,)
    return Leader(
        build.assume_shape(build.op("Gather", present, place), one),
        build.assume_shape(build.op("Gather", sizes, place), one),
        None,
    )


def crops(op: RuleContext) -> bool:
    """Whether a region of X is resized, which input 1 gives."""
    return bool(op.attribute(MODE) == "tf_crop_and_resize")


def is_identity(op: RuleContext, position: int, axis: int, leader: Leader | None) -> bool:
    """Whether the axis is known to come out as it went in."""
    if crops(op):
        return False
    if leader is not None:
        return leader.scale == 1
    if scales_of(op) is not None:  # an axis may keep its size where its scale is not 1
        return number_at(scales_of(op), position) == 1
    size = op.input.dim(axis)
    return size is not None and size in (op.output.dim(axis), number_at(op.optional(3), position))


def contract(
    op: RuleContext, dy: Value, position: int, axes: list[int], rank: int, leader: Leader | None
) -> Value:
    """``W_a^T dY`` along the axis at ``position``."""
    axis = axes[position]
    out_first = axis != rank - 2
    if leader is None or leader.resized(op.input.dim(axis)) is not None:
        weights = _weights(op, position, axes, leader, out_first=out_first)
    else:
        weights = _led_weights(op, position, axis, leader, out_first=out_first)
    weights = op.builder.cast(weights, op.floating(dy))
    if axis == rank - 1:
        return dy @ weights
    if axis == rank - 2:
        return weights @ dy
    swap = list(range(rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    return op.builder.transpose(op.builder.transpose(dy, swap) @ weights, swap)


def _led_weights(op: RuleContext, position: int, axis: int, leader: Leader, *, out_first: bool) -> Value:
    """W_a, or its transpose, where another axis may decide the scale.

    Row i of the identity, constant along an axis like the leader, is resized along both: all scales stay in
    one operator, and along the leader nothing changes but the size.
    """
    build, length = op.builder, _length(op, axis)
    identity = _identity(op, length)
    rows = build.unsqueeze(identity, [0, 3])
    spread = build.op("Expand", rows, build.concat([build.ints([1, 1, 1]), leader.length], axis=0))
    sizes = build.concat([entry_at(op, op.required(3), position), leader.size], axis=0)
    given = {name: op.attribute(name) for name in (*KERNEL_ATTRIBUTES, WHOLE_RATIO)}
    resized = op.emit("Resize", spread, None, None, sizes, axes=[2, 3], **given)
    weights = build.squeeze(build.slice(resized, 3, 0, 1), [0, 3])
    return build.transpose(weights, [1, 0]) if out_first else weights


def _length(op: RuleContext, axis: int) -> Value:
    """The size of an axis of X, shape (1,)."""
    size = op.input.dim(axis)
    if isinstance(size, int):
        return op.builder.ints([size])
    return op.emit("Shape", op.input, start=axis, end=axis + 1)


def _identity(op: RuleContext, length: Value) -> Value:
    """An identity matrix in a type that can be resized."""
    shape = op.builder.concat([length, length], axis=0)
    return op.emit("EyeLike", op.builder.fill(shape, 0.0, inner_type(op)))


def entry_at(op: RuleContext, values: Value, at: int) -> Value:
    """Entry ``at`` of a 1-D tensor, shape (1,)."""
    return op.builder.assume_shape(op.builder.slice(values, 0, at, at + 1), (1,))


def _weights(
    op: RuleContext, position: int, axes: list[int], leader: Leader | None, *, out_first: bool
) -> Value:
    """W_a, or its transpose: the identity matrix resized along one of its axes like one axis of X."""
    build = op.builder
    count, axis = len(axes), axes[position]
    identity = _identity(op, _length(op, axis))

    def entry(values: Value | None) -> Value | None:
        return None if values is None or is_empty(values) else entry_at(op, values, position)

    sizes = entry(op.optional(3))
    if leader is not None:
        size = leader.resized(op.input.dim(axis))
        assert size is not None, "a size that is rounded needs the leader"
        sizes = build.ints([size])
    roi, bounds = None, []
    if crops(op):
        region = op.required(1)
        bounds = [entry_at(op, region, at) for at in (position, count + position)]
        roi = build.concat(bounds, axis=0)
    given = {name: op.attribute(name) for name in KERNEL_ATTRIBUTES if op.has_attribute(name)}
    scale = entry(op.optional(2))
    if scale is None or not _may_keep_size(op, position, axis):
        return op.emit("Resize", identity, roi, scale, sizes, axes=[0 if out_first else 1], **given)
    # ONNX Runtime copies a tensor that keeps its shape, whatever the scale: another axis is doubled
    if roi is not None:
        whole = [build.constant([bound], op.floating(roi)) for bound in (0.0, 1.0)]
        roi = build.concat([bounds[0], whole[0], bounds[1], whole[1]], axis=0)
    scales = build.concat([scale, build.constant([2.0], op.floating(scale))], axis=0)
    spread = build.unsqueeze(identity, [0, 3])
    resized = op.emit("Resize", spread, roi, scales, None, axes=[2, 3], **given)
    weights = build.squeeze(build.slice(resized, 3, 0, 1), [0, 3])
    return build.transpose(weights, [1, 0]) if out_first else weights


def _may_keep_size(op: RuleContext, position: int, axis: int) -> bool:
    """Whether the axis may be as long as before though its scale is not 1."""
    scale, size = number_at(scales_of(op), position), op.input.dim(axis)
    if scale is None:
        return True
    return scale != 1 and (not isinstance(size, int) or int(size * scale) == size)
