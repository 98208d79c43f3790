"""Gradient rules of operators on sequences of tensors.

The cotangent of a sequence is a sequence of as many tensors, each in the shape of its primal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.sequences import element, for_each, replaced, zeros_like
from netgrad.onnx.view import TensorInfo


@rule("SequenceConstruct")
def sequence_construct(op: RuleContext, dy: Value) -> Sequence[Value | None]:
    """Y = [X_1, .., X_n]; dX_i = dY[i]."""
    b = op.builder
    return [
        b.assume_like(_at(b, dy, k), op.required(k)) if op.wants(k) else None for k in range(len(op.inputs))
    ]


@rule("SequenceInsert", not_differentiable=(2,))
def sequence_insert(op: RuleContext, dy: Value) -> Sequence[Value | None]:
    """Y = S[:p] + [X] + S[p:]; dS = dY without its tensor p, dX = dY[p]. Without p, X goes to the end."""
    b, position = op.builder, op.optional(2)
    place = b.constant(np.int64(-1)) if position is None else _in_longer(b, position)
    results: list[Value | None] = [None] * len(op.inputs)
    if op.wants(0):
        results[0] = b.assume_like(b.op("SequenceErase", dy, place), op.required(0))
    if op.wants(1):
        results[1] = b.assume_like(b.op("SequenceAt", dy, place), op.required(1))
    return results


@rule("SequenceErase", not_differentiable=(1,))
def sequence_erase(op: RuleContext, dy: Value) -> Sequence[Value | None]:
    """Y = S[:p] + S[p+1:]; dS = dY with zeros inserted at p. Without p, the last tensor is erased."""
    b, source, position = op.builder, op.input, op.optional(1)
    last = b.constant(np.int64(-1)) if position is None else position
    zeros = b.zeros_like(element(b, source, last))
    at_end = last.constant is not None and int(last.constant) == -1
    place = None if at_end else _from_front(b, last, source)
    return [b.assume_like(b.op("SequenceInsert", dy, zeros, place), source), None][: len(op.inputs)]


@rule("SequenceAt", not_differentiable=(1,))
def sequence_at(op: RuleContext, dy: Value) -> Value:
    """Y = S[p]; dS = zeros in place of all tensors but p, which is dY."""
    b, source = op.builder, op.input
    return replaced(b, zeros_like(b, source), _from_front(b, op.required(1), source), dy)


@rule("SplitToSequence", attributes=("axis", "keepdims"), not_differentiable=(1,))
def split_to_sequence(op: RuleContext, dy: Value) -> Value:
    """S_1; ..; S_n = X along an axis; dX = the tensors of dS joined along it.

    X may have no elements along the axis, and dS no tensors; so a last one of size 0 is joined to them. Where
    the axis was dropped (keepdims=0 without a split), each tensor gets it back first.
    """
    b, x, axis = op.builder, op.input, op.attribute("axis")
    dropped = op.optional(1) is None and not op.attribute("keepdims")
    size = x.dim(axis)
    if isinstance(size, int) and size > 0:
        result = b.op("ConcatFromSequence", dy, axis=axis, new_axis=1 if dropped else None)
        return b.assume_like(result, x)
    if dropped:
        dy = for_each(b, [dy], lambda inner, parts: inner.unsqueeze(parts[0], [axis]), TensorInfo(x.dtype))
    nothing = b.slice(b.zeros_like(x), axis, 0, 0)
    return b.assume_like(b.op("ConcatFromSequence", b.op("SequenceInsert", dy, nothing), axis=axis), x)


@rule("ConcatFromSequence", attributes=("axis", "new_axis"))
def concat_from_sequence(op: RuleContext, dy: Value) -> Value:
    """Y = [S_1; ..; S_n] along an axis, or stacked along a new one; dS = dY split into as many tensors."""
    b, source, axis = op.builder, op.input, op.attribute("axis")
    if op.attribute("new_axis"):
        return b.assume_like(b.op("SplitToSequence", dy, axis=axis, keepdims=0), source)
    size = source.dim(axis)
    if isinstance(size, int) and size > 0:
        split = b.constant(np.int64(size))
    else:
        sizes = for_each(
            b,
            [source],
            lambda inner, parts: _size(inner, parts[0], axis),
            TensorInfo(ir.DataType.INT64, (1,)),
        )
        split = b.op("ConcatFromSequence", sizes, axis=0)
    return b.assume_like(b.op("SplitToSequence", dy, split, axis=axis), source)


def _size(builder: Builder, tensor: Value, axis: int) -> Value:
    """Size of a tensor along ``axis``, int64 of shape (1,)."""
    return builder.op("Gather", builder.shape_of(tensor), builder.ints([axis]), axis=0)


def _at(builder: Builder, sequence: Value, position: int) -> Value:
    return element(builder, sequence, builder.constant(np.int64(position)))


def _in_longer(builder: Builder, position: Value) -> Value:
    """Where a tensor is after it was inserted at ``position``, which counts from the end if negative."""
    if position.constant is not None:
        place = int(position.constant)
        return builder.constant(np.int64(place if place >= 0 else place - 1))
    return builder.where(position < 0, position - 1, position)


def _from_front(builder: Builder, position: Value, sequence: Value) -> Value:
    """``position`` counted from the front, where it counts from the end of ``sequence`` if negative."""
    if position.constant is not None and int(position.constant) >= 0:
        return position
    position = builder.cast(position, ir.DataType.INT64)
    from_end = position + builder.op("SequenceLength", sequence)
    return from_end if position.constant is not None else builder.where(position < 0, from_end, position)
