"""``RecurrentNetworkGradient``: the backward net of a step, from the last step to the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.lowering.all_rows import AllRows
from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.recurrent_network import as_row
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.steps import Steps, as_timestep, batched, run_step, step_count
from netgrad.caffe2.recurrence import Recurrence, undefined
from netgrad.onnx.builder import Builder, Value


@dataclass(frozen=True)
class _Operands:
    """The inputs of the operator.

    Attributes:
        gradients: Of the outputs of the forward operator that have one, by index.
        inputs: Those of the forward operator, in order, with their names.
        outputs: The rows of states that it has written, by name.
        kept: What it has kept of each step, and states that no output shows, by name.
    """

    gradients: dict[int, Value]
    inputs: list[tuple[str, Value]]
    outputs: dict[str, Value]
    kept: dict[str, Value]


def _operands(c: Context, said: Recurrence, operands: Sequence[Value]) -> _Operands:
    names, given, aliases = list(c.definition.input), len(said.outputs_with_grads), len(said.aliases)
    kept = [*said.kept, *said.hidden_states]
    forward = len(names) - len(kept)  # the end of what the forward operator read and wrote
    workspaces = names[forward - 1] if forward else ""
    if names[forward:] != list(said.kept_blobs(workspaces)):
        raise c.refused("what the forward operator has kept of its steps is not among its inputs")
    start = forward - 1 - aliases
    pairs = list(zip(names, operands, strict=True))
    return _Operands(
        dict(zip(said.outputs_with_grads, operands, strict=False)),
        pairs[given:start],
        {
            alias.output: value
            for alias, value in zip(said.aliases, operands[start : forward - 1], strict=True)
        },
        dict(zip(kept, operands[forward:], strict=True)),
    )


@lowers("RecurrentNetworkGradient")
def _recurrent_network_gradient(c: Context, *operands: Value) -> Sequence[Value | None]:
    """Outputs: the gradients of the sequence, of the parameters and of the initial states.

    In step t a state's gradient is what step t + 1 has handed on, and what the output that shows the state
    has for row t; the backward net makes of it the gradient of the state before the step.
    """
    said = Recurrence(c.definition)
    net = said.backward_step_net
    if net is None:
        raise c.refused("it says nothing of a backward step (argument 'backward_link_internal')")
    given = _operands(c, said, operands)
    b, sequence = c.b, given.inputs[0][1]
    steps = Steps(b, step_count(b, sequence), backwards=True)
    values = _forward_values(c, b, steps, said, given, net)

    before = {}
    links = _state_links(c, said)
    for state, at in zip(said.states, said.initial, strict=True):
        zeros = b.zeros_like(batched(c, b, given.inputs[at][1], sequence, 1))
        before[state] = arriving = steps.carried(_with(b, zeros, _of_alias(c, said, given, state, -1)))
        rows = _of_alias(c, said, given, state, 1)
        values[links[state, 1]] = (
            arriving if rows is None else arriving + steps.b.unsqueeze(steps.row(rows), [0])
        )
    wanted = dict(zip(said.params, _param_grads(said, given), strict=True))
    products = AllRows(net, [(name, given.inputs[at][0]) for at, name in wanted.items()])
    totals = {
        at: steps.carried(b.zeros_like(given.inputs[at][1]))
        for at, name in wanted.items()
        if name not in products.names
    }
    run_step(c, steps.b, net, values, products.hooks(values))

    after = []
    for state, arriving in before.items():
        internal = links.get((state, 0))
        after.append(
            steps.b.zeros_like(arriving)
            if internal is None
            else as_row(steps.b, _needed(c, values, internal), arriving)
        )
    for at, total in totals.items():
        gradient = steps.b.reshape_like(_needed(c, values, wanted[at]), total)
        after.append(steps.b.assume_like(total + gradient, total))
    of_sequence = _sequence_gradient(c, steps.b, said, values)
    finals, stacks = steps.write(after, [of_sequence, *products.rows])
    found = dict(zip(totals, finals[len(before) :], strict=True))
    by_name = products.written(c, stacks[1:], dict(given.inputs))
    found.update((at, by_name[name]) for at, name in wanted.items() if name in by_name)
    initial = [
        _like_initial(c, b, gradient, given.inputs[at][1])
        for at, gradient in zip(said.initial, finals, strict=False)
    ]
    return _added(c, b, [stacks[0], *(found[at] for at in said.params), *initial])


def _forward_values(
    c: Context, b: Builder, steps: Steps, said: Recurrence, given: _Operands, net: NetDef
) -> dict[str, Value]:
    """What the backward net of a step reads of the forward pass."""
    values = {name: steps.captured(value) for name, value in given.inputs}
    needed = set(undefined(net))
    if said.timestep in needed:
        values[said.timestep] = as_timestep(steps.b, steps.number())
    inputs = dict(given.inputs)
    initial = dict(zip(said.states, said.initial, strict=True))
    for link in said.links:
        if link.internal not in needed or link.internal in said.kept:
            continue
        if link.window != 1 or link.offset not in (0, 1) or (link.external in inputs and link.offset):
            raise c.refused(
                f"the link of '{link.internal}' has no gradient: it is not the row before or after"
            )
        if link.external in inputs:
            rows = inputs[link.external]
        else:
            shown = next(
                (
                    given.outputs[alias.output]
                    for alias in said.aliases
                    if alias.state == link.external and alias.offset == 1
                ),
                None,
            )
            if shown is None:
                shown = b.slice(given.kept[link.external], 0, 1, np.iinfo(np.int64).max)
            first = batched(c, b, given.inputs[initial[link.external]][1], given.inputs[0][1], 1)
            rows = shown if link.offset else b.concat([first, b.slice(shown, 0, 0, -1)], 0)
        values[link.internal] = steps.b.unsqueeze(steps.row(rows), [0])
    for blob in said.kept:
        values[blob] = steps.row(given.kept[blob])
    return values


def _state_links(c: Context, said: Recurrence) -> dict[tuple[str, int], str]:
    """The blobs of the backward net that are gradients of a state: after the step (1) and before it (0)."""
    states = {f"{state}_grad": state for state in said.states}
    found: dict[tuple[str, int], str] = {}
    for link in said.backward_links:
        if link.external not in states:
            continue
        place = states[link.external], link.offset
        if link.offset not in (0, 1) or link.window != 1 or place in found:
            raise c.refused(f"the gradient of state '{place[0]}' is linked to other rows than two in a row")
        found[place] = link.internal
    for state in said.states:
        if said.initial_length(state) != 1:
            raise c.refused(f"state '{state}' has {said.initial_length(state)} initial rows, not one")
        if (state, 1) not in found:
            raise c.refused(f"no link takes the gradient of state '{state}' into the backward step")
    return found


def _of_alias(c: Context, said: Recurrence, given: _Operands, state: str, offset: int) -> Value | None:
    """The gradient of the outputs that show a state from ``offset`` on."""
    found = None
    for at, alias in enumerate(said.aliases):
        if alias.state != state or at not in given.gradients:
            continue
        if alias.offset not in (1, -1):
            raise c.refused(f"output '{alias.output}', the state from row {alias.offset} on, has no gradient")
        if alias.offset == offset:
            found = given.gradients[at] if found is None else found + given.gradients[at]
    return found


def _with(b: Builder, zeros: Value, gradient: Value | None) -> Value:
    return zeros if gradient is None else b.assume_like(zeros + gradient, zeros)


def _needed(c: Context, values: dict[str, Value], name: str) -> Value:
    if name not in values:
        raise c.refused(f"its net of a backward step does not write '{name}'")
    return values[name]


def _param_grads(said: Recurrence, given: _Operands) -> list[str]:
    return list(said.param_grads) or [f"{given.inputs[at][0]}_grad" for at in said.params]


def _sequence_gradient(c: Context, b: Builder, said: Recurrence, values: dict[str, Value]) -> Value:
    """The row of the gradient of the sequence, without the first axis."""
    states = {f"{state}_grad" for state in said.states}
    found = [link for link in said.backward_links if link.external not in states]
    if len(found) != 1 or found[0].offset or found[0].window != 1:
        raise c.refused("its links say nothing, or several things, of the gradient of its sequence")
    return b.squeeze(_needed(c, values, found[0].internal), [0])


def _like_initial(c: Context, b: Builder, gradient: Value, initial: Value) -> Value:
    """The gradient of an initial state, (1, batch, size), in the shape that this was given in."""
    rank = c.rank(initial)
    if rank == 1:
        gradient = b.reduce_sum(gradient, [0, 1])
    elif rank == 2:
        gradient = b.squeeze(gradient, [0])
    return b.assume_like(gradient, initial)


def _added(c: Context, b: Builder, gradients: Sequence[Value]) -> list[Value | None]:
    """The gradients; where an input has several roles, the sum of its gradients at each place."""
    totals: dict[str, Value] = {}
    for name, gradient in zip(c.definition.output, gradients, strict=True):
        totals[name] = totals[name] + gradient if name in totals else gradient
    return [totals[name] for name in c.definition.output]
