"""``RecurrentNetwork``: a step net that runs for each row of a sequence, as an ONNX ``Scan``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.steps import Steps, as_timestep, batched, run_step, step_count
from netgrad.caffe2.recurrence import Link, Recurrence
from netgrad.onnx.builder import Builder, Value


@lowers("RecurrentNetwork")
def _recurrent_network(c: Context, *operands: Value) -> Sequence[Value | None]:
    """Inputs: the sequence (steps, batch, ...), initial states, parameters.

    Outputs: rows of the states; the number of steps, for what the original calls step workspaces; and what
    the gradient reads (see `netgrad.caffe2.recurrence.with_kept`), with the steps as first axis.
    """
    said = Recurrence(c.definition)
    b, sequence = c.b, operands[0]
    count = step_count(b, sequence)
    steps = Steps(b, count)
    inputs = dict(zip(c.definition.input, operands, strict=True))
    values = {name: steps.captured(value) for name, value in inputs.items()}
    number = steps.number()
    values[said.timestep] = as_timestep(steps.b, number)

    lengths = {state: said.initial_length(state) for state in said.states}
    initial = {
        state: batched(c, b, operands[at], sequence, lengths[state])
        for state, at in zip(said.states, said.initial, strict=True)
    }
    before = {state: steps.carried(rows) for state, rows in initial.items()}
    new_rows = {state: blob for state in said.states if (blob := said.new_row(state)) is not None}
    with_new: dict[str, list[Link]] = {}
    for link in said.links:
        if link.external not in before:
            values[link.internal] = _input_rows(c, steps, link, inputs, sequence, number)
        elif link.offset + link.window <= lengths[link.external]:
            values[link.internal] = _state_rows(c, steps.b, link, before[link.external])
        elif link.internal != new_rows.get(link.external):
            with_new.setdefault(link.external, []).append(link)

    def follow(state: str, value: Value) -> dict[str, Value]:
        """The blobs that are rows of a state up to the step's new one, which is known by now."""
        rows = _with_row(steps.b, before[state], value, lengths[state])
        return {link.internal: _state_rows(c, steps.b, link, rows) for link in with_new[state]}

    hooks = {new_rows[state]: partial(follow, state) for state in with_new if state in new_rows}
    run_step(c, steps.b, said.step_net, values, hooks)

    after, rows = [], []
    for state, held in before.items():
        name = new_rows.get(state)
        if name is None or name not in values:
            raise c.refused(f"its step net gives state '{state}' no new row")
        remaining, row = _stepped(steps.b, held, values[name], lengths[state])
        after.append(remaining)
        rows.append(steps.b.squeeze(row, [0]))
    finals, stacks = steps.write(after, [*rows, *(values[blob] for blob in said.kept)])

    last = dict(zip(before, finals, strict=True))
    stacked = dict(zip(before, stacks, strict=False))
    outputs: list[Value | None] = []
    aliases = {alias.output: alias for alias in said.aliases}
    for name in c.definition.output[: len(aliases)]:
        alias = aliases.get(name)
        if alias is None or alias.state not in before:
            raise c.refused(f"no alias says of which of its states output '{name}' is a part")
        length = lengths[alias.state]
        if alias.offset == -1:
            final = last[alias.state]
            outputs.append(b.slice(final, 0, length - 1, length) if length > 1 else final)
        elif alias.offset == length:
            outputs.append(stacked[alias.state])
        else:
            everything = b.concat([initial[alias.state], stacked[alias.state]], 0)
            outputs.append(b.slice(everything, 0, alias.offset, np.iinfo(np.int64).max))
    hidden = [b.concat([initial[state], stacked[state]], 0) for state in said.hidden_states]
    return [*outputs, count, *stacks[len(before) :], *hidden][: c.outputs]


def as_row(b: Builder, value: Value, row: Value) -> Value:
    """What a step net has written, as a row of a state, (1, batch, size): perhaps it is of another rank."""
    return b.assume_like(value, row) if value.rank == row.rank else b.reshape_like(value, row)


def _stepped(b: Builder, held: Value, new: Value, length: int) -> tuple[Value, Value]:
    """The rows that a state hands on to the next step, and the new one among them."""
    if length == 1:
        row = as_row(b, new, held)
        return row, row
    everything = _with_row(b, held, new, length)
    remaining = b.assume_like(b.slice(everything, 0, 1, length + 1), held)
    return remaining, b.slice(everything, 0, length, length + 1)


def _with_row(b: Builder, held: Value, new: Value, length: int) -> Value:
    """The rows that a state had before the step, (length, batch, size), and its new one."""
    row = b.op("Reshape", new, b.concat([b.ints([1]), b.slice(b.shape_of(held), 0, 1, 3)], 0))
    dims = (1, *(held.shape or ())[1:])
    return b.assume_shape(b.concat([held, b.assume_shape(row, dims)], 0), (length + 1, *dims[1:]))


def _state_rows(c: Context, b: Builder, link: Link, rows: Value) -> Value:
    """The rows of a state that a link reads, of those that there are in a step."""
    end = link.offset + link.window
    if link.offset < 0 or end > c.static(rows, 0):
        raise c.refused(
            f"'{link.internal}' is linked to rows {link.offset} to {end} of state '{link.external}' in each "
            f"step, and there are {rows.dim(0)}"
        )
    return rows if link.window == rows.dim(0) else b.slice(rows, 0, link.offset, end)


def _input_rows(
    c: Context, steps: Steps, link: Link, inputs: Mapping[str, Value], sequence: Value, number: Value
) -> Value:
    """The rows of an input that a link reads, (window, batch, ...)."""
    if link.external not in inputs or link.offset < 0:
        raise c.refused(
            f"'{link.internal}' is linked to row {link.offset} of '{link.external}', which is no state "
            "and no input of it, or begins later"
        )
    external = inputs[link.external]
    if external is sequence and link.offset == 0 and link.window == 1:
        return steps.b.unsqueeze(steps.row(sequence), [0])
    places = steps.b.op("Add", number, steps.b.ints(range(link.offset, link.offset + link.window)))
    return steps.b.op("Gather", steps.captured(external), places, axis=0)
