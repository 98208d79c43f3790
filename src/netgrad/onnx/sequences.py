"""Arithmetic on values that need not be tensors: sequences of tensors, and optionals.

The cotangent of a sequence is a sequence of as many tensors, each in the shape of its primal; that of an
optional is an optional that holds something exactly where its primal does. So fills and sums are taken tensor
by tensor, by a Loop over the sequence. (SequenceMap would say the same, but ONNX Runtime expands it in a way
that fails where one stands inside another.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
import onnx_ir as ir

from netgrad.core.operator import Operator
from netgrad.onnx.body import Body, live
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.view import Structure, TensorInfo

SUM, ZEROS, CAST = "sum of sequences", "sequence of zeros", "cast of a sequence"
"""Purposes of bodies (see `netgrad.onnx.sequence_sums`)."""

Step = Callable[[Builder, Value, Sequence[Value], Sequence[Value]], Sequence[Value]]
"""What one iteration writes: builder, iteration, states, captured values -> the new states."""


def full_like(builder: Builder, like: Value, number: float) -> Value:
    """A value of the structure of ``like``, every tensor of it filled with ``number``."""
    if like.structure is Structure.TENSOR:
        return builder.full_like(like, number)
    if like.structure is Structure.SEQUENCE:
        purpose = ZEROS if number == 0 else ""
        result = for_each(
            builder, [like], lambda inner, parts: full_like(inner, parts[0], number), purpose=purpose
        )
        return builder.assume_like(result, like)
    filled = if_present(
        builder, [like], lambda inner, parts: inner.op("Optional", full_like(inner, parts[0], number))
    )
    return builder.assume_like(filled, like)


def zeros_like(builder: Builder, like: Value) -> Value:
    """A value of the structure of ``like``, every tensor of it zeros."""
    return full_like(builder, like, 0.0)


def total(builder: Builder, terms: Sequence[Value]) -> Value:
    """The sum of values of one structure, in their order: tensor by tensor."""
    structure = terms[0].structure
    if structure is Structure.TENSOR:
        return reduce(lambda a, b: a + b, terms)
    if structure is Structure.SEQUENCE:
        return for_each(builder, terms, total, purpose=SUM)
    return if_present(builder, terms, lambda inner, parts: inner.op("Optional", total(inner, parts)))


def cast(builder: Builder, x: Value, dtype: ir.DataType) -> Value:
    """A tensor or a sequence with elements of type ``dtype``; ``x`` itself if it has them already."""
    if x.structure is Structure.TENSOR or x.dtype == dtype:
        return builder.cast(x, dtype)
    info = TensorInfo(dtype, x.shape)
    result = for_each(builder, [x], lambda inner, parts: inner.cast(parts[0], dtype), info, CAST)
    return builder.assume_like(result, x)


def empty_sequence(builder: Builder, info: TensorInfo) -> Value:
    """A sequence of no tensors; of those that it may get, what is known is ``info``."""
    assert info.dtype is not None, "the element type of a sequence that is differentiated is known"
    empty = builder.op("SequenceEmpty", dtype=int(info.dtype))
    return builder.value(empty.name, TensorInfo(info.dtype, info.shape, structure=Structure.SEQUENCE))


def for_each(
    builder: Builder,
    sequences: Sequence[Value],
    write: Callable[[Builder, Sequence[Value]], Value],
    info: TensorInfo | None = None,
    purpose: str = "",
) -> Value:
    """The sequence of what ``write`` makes of the first tensors, the second ones, ... of ``sequences``.

    What is known of its tensors is ``info``, by default what is known of those in ``sequences[0]``.
    """

    def step(
        inner: Builder, index: Value, states: Sequence[Value], given: Sequence[Value]
    ) -> Sequence[Value]:
        parts = [element(inner, sequence, index) for sequence in given]
        return [inner.op("SequenceInsert", states[0], write(inner, parts))]

    start = empty_sequence(builder, sequences[0].info if info is None else info)
    count = builder.op("SequenceLength", sequences[0])
    (result,) = repeat(builder, count, [start], sequences, step, purpose)
    return result


def element(builder: Builder, sequence: Value, index: Value) -> Value:
    """Tensor ``index`` of a sequence."""
    return builder.assume_shape(builder.op("SequenceAt", sequence, index), sequence.shape)


def part(builder: Builder, sequence: Value, first: Value, count: Value) -> Value:
    """The ``count`` tensors of a sequence from position ``first`` on, as a sequence."""

    def step(
        inner: Builder, index: Value, states: Sequence[Value], given: Sequence[Value]
    ) -> Sequence[Value]:
        source, start = given
        return [inner.op("SequenceInsert", states[0], element(inner, source, inner.op("Add", start, index)))]

    start = empty_sequence(builder, sequence.info)
    (result,) = repeat(builder, count, [start], [sequence, first], step)
    return result


def extended(builder: Builder, sequence: Value, other: Value) -> Value:
    """A sequence with the tensors of another one behind its own."""

    def step(
        inner: Builder, index: Value, states: Sequence[Value], given: Sequence[Value]
    ) -> Sequence[Value]:
        return [inner.op("SequenceInsert", states[0], element(inner, given[0], index))]

    (result,) = repeat(builder, builder.op("SequenceLength", other), [sequence], [other], step)
    return result


def replaced(builder: Builder, sequence: Value, index: Value, tensor: Value) -> Value:
    """A sequence with ``tensor`` at position ``index``, which is not negative."""
    shorter = builder.op("SequenceErase", sequence, index)
    result = builder.op("SequenceInsert", shorter, tensor, index)
    return builder.assume_like(result, sequence)


def repeat(
    builder: Builder,
    count: Value,
    states: Sequence[Value],
    captured: Sequence[Value],
    step: Step,
    purpose: str = "",
) -> tuple[Value, ...]:
    """Write a Loop of ``count`` iterations.

    Args:
        builder: Writes it.
        count: Number of iterations, 0-d int64.
        states: What is carried from one iteration to the next, at the start.
        captured: What the body reads from outside.
        step: Writes the body with a builder of its own.
        purpose: See `Body`.

    Returns:
        The states after the last iteration.
    """
    inner = Builder(builder.opset, "body")
    index = inner.value("iteration", TensorInfo(ir.DataType.INT64, ()))
    going = inner.value("going", TensorInfo(ir.DataType.BOOL, ()))
    before = [inner.value(f"state_{k}", value.info.plain) for k, value in enumerate(states)]
    formal = [inner.value(f"captured_{k}", value.info) for k, value in enumerate(captured)]
    after = step(inner, index, before, formal)
    onward = inner.op("Identity", going)
    values = [index, going, *before, onward, *after]
    body = Body(
        inputs=tuple(value.name for value in values[: 2 + len(before)]),
        outputs=tuple(value.name for value in values[2 + len(before) :]),
        captured=tuple(value.name for value in formal),
        operators=tuple(inner.operators),
        types={value.name: value.info.plain for value in values},
        purpose=purpose,
    )
    go = builder.constant(np.bool_(True))
    names = [value.name for value in (count, go, *states, *captured)]
    loop = Operator("Loop", names, (), {"body": body})
    return builder.written(loop, [value.info.plain for value in states])


def if_present(
    builder: Builder, optionals: Sequence[Value], write: Callable[[Builder, Sequence[Value]], Value]
) -> Value:
    """What ``write`` makes of what ``optionals`` hold; nothing if they hold nothing, which is so for all."""
    return choose(
        builder,
        builder.op("OptionalHasElement", optionals[0]),
        optionals,
        lambda inner, formal: write(inner, [held(inner, value) for value in formal]),
        lambda inner, formal: inner.op("Identity", formal[0]),
        optionals[0].info,
    )


def choose(
    builder: Builder,
    condition: Value,
    captured: Sequence[Value],
    write: Callable[[Builder, Sequence[Value]], Value],
    otherwise: Callable[[Builder, Sequence[Value]], Value],
    info: TensorInfo,
) -> Value:
    """Write an If: what ``write`` makes of ``captured`` where ``condition`` is true, else ``otherwise``.

    What is known of either result is ``info``.
    """
    inner = Builder(builder.opset, "body")
    formal = [inner.value(f"captured_{k}", value.info) for k, value in enumerate(captured)]
    results = {"then_branch": write(inner, formal), "else_branch": otherwise(inner, formal)}
    types = {value.name: info.plain for value in results.values()}
    branches = {
        branch: Body(
            (), (value.name,), tuple(v.name for v in formal), _live(inner.operators, value.name), types
        )
        for branch, value in results.items()
    }
    names = [condition.name, *(value.name for value in captured)]
    (result,) = builder.written(Operator("If", names, (), branches), [info.plain])
    return result


def held(builder: Builder, optional: Value) -> Value:
    """What an optional holds."""
    return builder.assume_shape(builder.op("OptionalGetElement", optional), optional.shape)


def listed(builder: Builder, optional: Value) -> Value:
    """The tensors that an optional holds, as a sequence: the one or all of its own, or none."""
    info = replace(optional.info.plain, structure=Structure.SEQUENCE)

    def all_of(inner: Builder, formal: Sequence[Value]) -> Value:
        content = held(inner, formal[0])
        return content if content.structure is Structure.SEQUENCE else inner.op("SequenceConstruct", content)

    return choose(
        builder,
        builder.op("OptionalHasElement", optional),
        [optional],
        all_of,
        lambda inner, _: empty_sequence(inner, info),
        info,
    )


def optional_of(builder: Builder, tensors: Sequence[Value], info: TensorInfo) -> Value:
    """An optional, of which ``info`` is known, that holds the tensors of ``tensors[0]``, or nothing.

    Args:
        builder: Writes it.
        tensors: A sequence, and a 0-d bool that says whether the optional holds anything.
        info: What is known of the optional.
    """
    kind = replace(info, structure=_CONTENT[info.structure]).ir_type
    assert kind is not None, "the element type of an optional that is carried is known"

    def full(inner: Builder, formal: Sequence[Value]) -> Value:
        sequence = formal[0]
        if info.structure is Structure.OPTIONAL_SEQUENCE:
            return inner.op("Optional", sequence)
        return inner.op("Optional", element(inner, sequence, inner.constant(np.int64(0))))

    def empty(inner: Builder, _: Sequence[Value]) -> Value:
        type_ = ir.AttrTypeProto("type", ir.TypeAndShape(kind, None))
        return inner.op("Optional", type=type_)

    return choose(builder, tensors[1], tensors[:1], full, empty, info)


_CONTENT = {
    Structure.OPTIONAL: Structure.TENSOR,
    Structure.OPTIONAL_SEQUENCE: Structure.SEQUENCE,
}


def _live(operators: Sequence[Operator], output: str) -> tuple[Operator, ...]:
    return tuple(operators[index] for index in live(operators, [output]))
