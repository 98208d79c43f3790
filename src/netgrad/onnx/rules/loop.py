"""Gradient rule of Loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netgrad.onnx.body import Body
from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.repetition import Repetition
from netgrad.onnx.rules.saving import GrowingList, SavedState, appended_to, given_draws, saved_states
from netgrad.onnx.rules.subgraph import Draft, Reads, arrive, index_type, sum_type, write, zero_sum
from netgrad.onnx.sequences import held, zeros_like
from netgrad.onnx.view import TensorInfo

_FIRST = 2  # trip count and condition come before the initial states


@rule("Loop", attributes=("body",), not_differentiable=(0, 1))
def loop(op: RuleContext, *dy: Value | None) -> Sequence[Value | None]:
    """S_{t+1}, Z_t = body(t, S_t, C) for the iterations that run; the outputs are S_n and the stacked Z.

    dS_t and dC come of a Loop over the same n iterations in reverse: its body computes iteration t again from
    the saved S_t, runs the backward pass of the body, hands on dS_t and adds to dC. n is the length of what
    was stacked, so it doesn't matter whether the trip count or the condition ended the loop.
    """
    parts = _parts(op)
    b, body = op.builder, parts.body
    states = parts.active_states(dy, ())
    captured = parts.captured
    sources = {k: op.operator.inputs[k] for k in captured}
    reads = Reads(op)
    draft = Draft(op, body, reads)
    last = reads.add("last", None, index_type())
    places = {j: _place(parts, reads, j) for j in range(parts.states)}
    stacked = {
        k: reads.add(f"cotangents_{k}", cotangent)
        for k, cotangent in enumerate(dy)
        if cotangent is not None and k >= parts.states
    }

    iteration = draft.input(reads.fresh("iteration"), index_type())
    going = draft.input(reads.fresh("going"), TensorInfo(ir.DataType.BOOL, ()))
    cotangents: dict[str, Value] = {}
    arriving = {
        j: draft.input(reads.fresh(f"state_cotangent_{j}"), parts.info(parts.state_inputs[j])) for j in states
    }
    sums = {k: draft.input(reads.fresh(f"sum_{k}"), sum_type(op.required(k).info)) for k in captured}
    inner = draft.builder
    place = inner.op("Sub", inner.value(last, index_type()), iteration)
    counter, condition = body.inputs[:_FIRST]
    draft.define(counter, "Reshape", [place, inner.ints(_dims(parts.info(counter)))])
    draft.define(condition, "Identity", [inner.constant(np.ones(_dims(parts.info(condition)), bool))])
    for j, name in enumerate(parts.state_inputs):
        places[j].define(draft, name, place)
    for name, stack in given_draws(parts).items():
        formal = reads.add(f"drawn_{name}", stack)
        draft.give(name)
        draft.define(name, "Gather", [inner.value(formal, stack.info), place], axis=0)
    for j in states:
        cotangent_after = held(inner, arriving[j]) if _is_opened(parts, j) else arriving[j]
        arrive(inner, cotangents, parts.state_outputs[j], cotangent_after)
    for k, formal in stacked.items():
        name = parts.scan_outputs[k - parts.states]
        one = inner.op("Gather", inner.value(formal, reads.info(formal)), place, axis=0)
        arrive(inner, cotangents, name, inner.assume_shape(one, parts.info(name).shape))
    wrt = [*(parts.state_inputs[j] for j in states), *sources.values()]
    gradients = draft.differentiate(cotangents, list(dict.fromkeys(wrt)))

    draft.outputs.append(going.name)
    for name in (parts.state_inputs[j] for j in states):
        draft.output(gradients.get(name), name)
    for k in captured:
        draft.add_to(sums[k], gradients.get(sources[k]))

    _, read = draft.finish()
    length_of = next((op.optional_output(k) for k in range(parts.states, len(op.outputs))), None)
    grown: list[int] = []
    saving: dict[int, SavedState] = {}
    for j, before in places.items():
        if isinstance(before, SavedState):
            if not read.isdisjoint(before.names):
                saving[j] = before
        elif before.name in read:
            grown.append(j)
            draft.input(before.name, parts.info(parts.state_inputs[j]))
            draft.outputs.append(parts.state_inputs[j])
    saved = saved_states(parts, list(saving), counted=length_of is None)
    for j, before in saving.items():
        before.fill(saved.states[j])
    counted = saved.count or length_of
    assert counted is not None, "the iterations are counted, by what is stacked or by themselves"
    trips = b.op("Gather", b.op("Shape", counted), b.constant(np.int64(0)), axis=0)
    reads.names[last] = b.op("Sub", trips, b.constant(np.int64(1)))

    initial: list[Value] = []
    for j in states:
        cotangent = dy[j]
        final = op.optional_output(j) or op.required(_FIRST + j)
        start = zeros_like(b, final) if cotangent is None else cotangent
        initial.append(b.op("Optional", start) if _is_opened(parts, j) else start)
    initial += [zero_sum(op, k) for k in captured]
    initial += [value for j in grown if (value := op.optional_output(j)) is not None]
    infos = [op.required(_FIRST + j).info.plain for j in states]
    infos += [sum_type(op.required(k).info) for k in captured]
    infos += [parts.info(parts.state_inputs[j]) for j in grown]
    explicit = [trips, b.constant(np.bool_(True)), *initial]
    results = write(op, "Loop", explicit, {"body": draft}, reads, infos)
    contributions: list[Value | None] = [None] * len(op.inputs)
    for k, result in zip([*(_FIRST + j for j in states), *captured], results, strict=False):
        contributions[k] = b.assume_like(result, op.required(k))
    for j in range(parts.states):
        if op.wants(_FIRST + j) and contributions[_FIRST + j] is None:
            contributions[_FIRST + j] = zeros_like(b, op.required(_FIRST + j))
    return contributions


def _is_opened(parts: Repetition, j: int) -> bool:
    """Whether state ``j`` is an optional before an iteration, and after it the sequence itself.

    The standard lets a Loop start with an optional that may hold nothing and go on with a sequence. The
    cotangent is carried as an optional in all iterations.
    """
    before, after = (parts.info(names[j]).structure for names in (parts.state_inputs, parts.state_outputs))
    return before.is_optional and not after.is_optional


def _place(parts: Repetition, reads: Reads, j: int) -> SavedState | GrowingList:
    """Where the gradient finds state ``j`` before each iteration."""
    info, appended = parts.info(parts.state_inputs[j]), appended_to(parts, j)
    if appended is None or parts.op.optional_output(j) is None:
        return SavedState(parts, reads, j)
    return GrowingList(reads, j, info, appended)


def _parts(op: RuleContext) -> Repetition:
    body = op.operator.attributes["body"]
    assert isinstance(body, Body), "a prepared Loop holds its body"
    states = len(op.inputs) - len(body.captured) - _FIRST
    return Repetition(
        op,
        body,
        _FIRST,
        body.inputs[_FIRST:],
        body.outputs[1 : 1 + states],
        body.outputs[1 + states :],
    )


def _dims(info: TensorInfo) -> list[int]:
    """The shape of a counter or a condition: some exporters declare one element in a row."""
    return [1] * len(info.shape or ())
