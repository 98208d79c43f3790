"""Gradient rules of Concat and Split, each of which is the other's gradient."""

from __future__ import annotations

from collections.abc import Sequence

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.placing import joined, length, pad_axis


@rule("Concat", attributes=("axis",))
def concat(op: RuleContext, dy: Value) -> Sequence[Value | None]:
    """Y = [X_1; ..; X_n] along an axis; dX_i = the part of dY that X_i became.

    One Split gives all of them; a single one that is wanted is cut out by Slice, without copying the others.
    """
    b, axis = op.builder, op.attribute("axis")
    parts = [op.required(k) for k in range(len(op.inputs))]
    wanted = [k for k in range(len(parts)) if op.wants(k)]
    if len(parts) == 1:
        return [dy]
    sizes = [part.dim(axis) for part in parts]
    known = [size for size in sizes if isinstance(size, int)]
    if len(wanted) == 1 and len(known) == len(sizes):
        (only,) = wanted
        start = sum(known[:only])
        return [b.slice(dy, axis, start, start + known[k]) if k == only else None for k in range(len(parts))]
    split = joined(b, [length(b, part, axis) for part in parts])
    return [
        b.assume_like(piece, part)
        for piece, part in zip(b.ops("Split", dy, split, outputs=len(parts), axis=axis), parts, strict=True)
    ]


@rule("Split", attributes=("axis", "num_outputs"), not_differentiable=(1,))
def split(op: RuleContext, *dy: Value | None) -> Value:
    """[Y_1; ..; Y_n] = X along an axis; dX = [dY_1; ..; dY_n], with zeros for an output nobody uses.

    Unused outputs before the first and after the last used one become one Pad.
    """
    b, axis = op.builder, op.attribute("axis")
    used = [k for k, cotangent in enumerate(dy) if cotangent is not None]
    first, last = used[0], used[-1]
    pieces = _pieces(op, axis)
    before = _total(pieces[:first], axis)
    after = _total(pieces[last + 1 :], axis)
    if before is None or after is None:
        first, last, before, after = 0, len(pieces) - 1, 0, 0
    terms = []
    for k in range(first, last + 1):
        cotangent = dy[k]
        terms.append(b.zeros_like(pieces[k]) if cotangent is None else cotangent)
    return pad_axis(b, b.concat(terms, axis=axis), axis, before, after)


def _pieces(op: RuleContext, axis: int) -> list[Value]:
    """The outputs; where some are left out, those of an equal Split that has them all."""
    outputs = [value for value in op.outputs if value is not None]
    if len(outputs) == len(op.outputs):
        return outputs
    return list(
        op.builder.ops(
            "Split",
            op.input,
            op.optional(1),
            outputs=len(op.outputs),
            axis=axis,
            num_outputs=op.attribute("num_outputs"),
        )
    )


def _total(pieces: Sequence[Value], axis: int) -> int | None:
    """Size of all pieces together along ``axis``, None where it is unknown."""
    sizes = [piece.dim(axis) for piece in pieces]
    known = [size for size in sizes if isinstance(size, int)]
    return sum(known) if len(known) == len(sizes) else None
