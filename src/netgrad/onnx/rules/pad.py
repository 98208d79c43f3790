"""The gradient rule of Pad, in its four modes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.placing import collect, numbering, pad_axes, scatter_flat

# Modes that copy elements of the tensor itself; NumPy has the same names.
_COPYING_MODES = ("reflect", "edge", "wrap")

# "To the end" as a bound of Slice.
_END = (1 << 63) - 1


@rule("Pad", attributes=("mode",), not_differentiable=(1, 3))
def pad(op: RuleContext, dy: Value) -> Sequence[Value | None]:
    """Y = X with entries added (or, where a pad is negative, cut off) at both ends of its axes.

    Mode constant: dX = dY with the entries cut off again (or zeros added), and the padding value's gradient
    is the sum of dY over the added entries. Modes reflect, edge and wrap: each element of X collects dY from
    all its copies.
    """
    mode = op.attribute("mode")
    gradients: list[Value | None] = [None] * len(op.inputs)
    if mode == "constant":
        if op.wants(0):
            gradients[0] = _cut_off(op, dy)
        if op.wants(2):
            gradients[2] = _sum_of_padding(op, dy)
    elif mode in _COPYING_MODES:
        gradients[0] = _collect_copies(op, dy, mode)
        if op.wants(2):
            gradients[2] = op.builder.zeros_like(op.required(2))  # no mode but constant reads it
    else:
        raise op.refuse(f"mode {mode!r} is none of 'constant', 'reflect', 'edge' and 'wrap'")
    return gradients


def _constant_pads(op: RuleContext) -> dict[int, tuple[int, int]] | None:
    """Pads before and after by axis, where both or one is not 0; None if they are not known."""
    pads, axes, rank = op.required(1).constant, op.optional(3), op.input.rank
    if pads is None or rank is None or (axes is not None and axes.constant is None):
        return None
    numbers = range(rank) if axes is None or axes.constant is None else axes.constant.tolist()
    half = len(pads) // 2
    pairs = zip(numbers, pads[:half].tolist(), pads[half:].tolist(), strict=True)
    return {axis % rank: (before, after) for axis, before, after in pairs if before or after}


def _cut_off(op: RuleContext, dy: Value) -> Value:
    """The entries of ``dy`` that were not added.

    Slice where all pads are known and none is negative; else Pad itself, with the opposite pads.
    """
    b = op.builder
    known = _constant_pads(op)
    if known is None or any(pad < 0 for pair in known.values() for pad in pair):
        pads, axes = _negated(b, op.required(1)), op.optional(3)
        if axes is None or axes.constant is None or dy.rank is None:
            return b.op("Pad", dy, pads, None, axes)
        numbers = [axis % dy.rank for axis in axes.constant.tolist()]
        margins = {
            axis: (_entry(b, pads, k), _entry(b, pads, k + len(numbers))) for k, axis in enumerate(numbers)
        }
        return pad_axes(b, dy, margins)
    if not known:
        return dy
    starts = [before for before, _ in known.values()]
    ends = [-after if after else _END for _, after in known.values()]
    return b.op("Slice", dy, b.ints(starts), b.ints(ends), b.ints(list(known)))


def _entry(b: Builder, pads: Value, k: int) -> Value:
    return b.slice(pads, 0, k, k + 1) if pads.constant is None else b.ints([int(pads.constant[k])])


def _negated(b: Builder, pads: Value) -> Value:
    return -pads if pads.constant is None else b.ints((-pads.constant).tolist())


def _sum_of_padding(op: RuleContext, dy: Value) -> Value:
    """The sum of ``dy`` over the added entries, picked by a mask: a difference would lose digits."""
    b = op.builder
    inside = b.op("ConstantOfShape", b.shape_of(op.input), value=ir.tensor(np.zeros(1, np.bool_)))
    added = b.op("Pad", inside, op.required(1), b.constant(np.asarray(True)), op.optional(3))
    total = b.op("ReduceSum", b.where(added, dy, 0.0), keepdims=0)
    return b.reshape_like(total, op.required(2))


def _collect_copies(op: RuleContext, dy: Value, mode: str) -> Value:
    """Axis by axis where pads and sizes are known; else from the padded numbers of the elements."""
    b, x = op.builder, op.input
    known = _constant_pads(op)
    sizes = None if known is None else [x.dim(axis) for axis in known]
    if known is None or sizes is None or not all(isinstance(size, int) for size in sizes):
        places = b.op("Pad", numbering(b, x), op.required(1), None, op.optional(3), mode=mode)
        return scatter_flat(b, dy, places, x)
    dx = dy
    for axis, (before, after) in known.items():
        size = x.dim(axis)
        assert isinstance(size, int), "checked above"
        dx = collect(b, dx, axis, _padded_places(size, before, after, mode), size)
    return dx


def _padded_places(size: int, before: int, after: int, mode: str) -> np.ndarray:
    """Which entry each entry of a padded axis is a copy of; negative pads cut off first."""
    places = np.arange(size)[max(-before, 0) : size - max(-after, 0)]
    widths = (max(before, 0), max(after, 0))
    return np.pad(places, widths, mode=mode)  # type: ignore[call-overload, no-any-return]
