"""Nets that run once for each row of a sequence, with states that go from one step to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.python import core, workspace
from netgrad.caffe2.recurrence import FORWARD, GRADIENT, Link, Recurrence
from netgrad.caffe2.recurrence_backward import backward_arguments, link_arguments


def recurrent_net(
    net: Any,
    cell_net: Any,
    inputs: Sequence[tuple[Any, Any]],
    initial_cell_inputs: Sequence[tuple[Any, Any]],
    links: Mapping[Any, Any],
    timestep: Any = None,
    scope: Any = None,
    outputs_with_grads: Sequence[int] = (0,),
    recompute_blobs_on_backward: Iterable[Any] | None = None,
    forward_only: bool = False,
) -> tuple[Any, ...]:
    """Add a ``RecurrentNetwork`` to a net.

    Args:
        net: Where it is added.
        cell_net: The net of one step. What it reads besides the blobs named below are parameters.
        inputs: One pair: the blob of ``cell_net`` that is the step's row, (1, batch, ...), and the sequence
            in ``net``, (steps, batch, ...).
        initial_cell_inputs: For each state the blob of ``cell_net`` that holds it before a step, and the blob
            in ``net`` that it starts with: (1, batch, size), (batch, size), or (size,) for the whole batch.
        links: For each of these blobs of ``cell_net`` the one that is the state after the step.
        timestep: The blob of ``cell_net`` with the number of the step; None: ``timestep``.
        scope: What the names of states begin with; None: a new name.
        outputs_with_grads: The outputs whose gradients the gradient operator takes.
        recompute_blobs_on_backward: Blobs of ``cell_net`` that the backward pass computes again.
        forward_only: Whether there will be no backward pass.

    Returns:
        For each state two references: the state after each step, (steps, batch, size), and after the last
        one, (1, batch, size).
    """
    assert len(inputs) == 1, "a recurrent net goes over one sequence"
    proto = cell_net.Proto()
    name = net.NextName("recurrent") if scope is None else str(scope)
    pairs = [(str(inside), outside) for inside, outside in initial_cell_inputs]
    after = {str(before): str(links[before]) for before, _ in pairs}
    (row, sequence) = inputs[0]
    known = {str(row), *after, *([] if timestep is None else [str(timestep)])}
    references = [core.BlobReference(blob) for blob in proto.external_input if blob not in known]
    operands = [sequence, *(outside for _, outside in pairs), *references]
    proto.type = "simple"

    states = {before: f"{name}/{before}_states" for before, _ in pairs}
    forward_links: list[Link] = []
    for before, state in states.items():
        forward_links += [Link(before, state, 0), Link(after[before], state, 1)]
    forward_links.append(Link(str(row), str(sequence), 0))
    shown = [
        (state, f"{after[before]}{ending}", offset)
        for before, state in states.items()
        for ending, offset in (("_all", 1), ("_last", -1))
    ]
    arguments: dict[str, Any] = {}
    if not forward_only:
        arguments = backward_arguments(
            proto,
            (str(row), str(sequence)),
            {before: (state, after[before]) for before, state in states.items()},
            list(map(str, references)),
            name=core.Net("RecurrentBackwardStep").Name(),
            outputs_with_grads=outputs_with_grads,
            recomputed=set(map(str, recompute_blobs_on_backward or ())),
            by=core.GradientRegistry.GetBackwardPass,
        )
    results = net.RecurrentNetwork(
        operands,
        [*(core.BlobReference(output) for _, output, _ in shown), f"{name}/step_workspaces"],
        alias_src=[state for state, _, _ in shown],
        alias_dst=[output for _, output, _ in shown],
        alias_offset=[offset for _, _, offset in shown],
        recurrent_states=list(states.values()),
        initial_recurrent_state_ids=range(1, 1 + len(pairs)),
        **link_arguments("link", forward_links),
        enable_rnn_executor=1,
        step_net=proto,
        timestep="timestep" if timestep is None else str(timestep),
        **arguments,
    )
    return tuple(results[:-1])


def set_rnn_executor_config(
    rnn_op: OperatorDef, num_threads: int | None = None, max_cuda_streams: int | None = None
) -> None:
    """Note how many threads and streams the original's executor takes; ONNX Runtime has its own setting."""
    assert rnn_op.type in (FORWARD, GRADIENT), f"{rnn_op.type} is no recurrent net"
    for name, number in (("num_threads", num_threads), ("max_cuda_streams", max_cuda_streams)):
        if number is not None:
            rnn_op.arg.add(name=f"rnn_executor.{name}", i=number)


def retrieve_step_blobs(net: Any, prefix: str = "rnn") -> list[bytes]:
    """Make a blob of the workspace for each step's row, states, and blob that the backward pass reads.

    Args:
        net: A net that has run; all its recurrent nets are looked at.
        prefix: What the blobs' names begin with; then comes the name in the step net, and the step's number.

    Returns:
        The names.
    """
    found: list[bytes] = []
    for number, op in enumerate((op for op in net.Proto().op if op.type == FORWARD), 1):
        names = []
        for blob, rows in _sequences(op):
            for step, value in enumerate(rows):
                names.append(f"{prefix}_{blob}{step}".encode())
                workspace.FeedBlob(names[-1].decode(), value)
        workspace.FeedBlob(f"{prefix}_{number}", np.array(names, dtype=object))
        found += names
    return found


def _sequences(op: OperatorDef) -> list[tuple[str, Any]]:
    """The blobs of a step net that are in the workspace, with their values in all steps."""
    said = Recurrence(op)
    everything: dict[str, Any] = {}
    shown = {alias.state: alias.output for alias in said.aliases if alias.offset == 1}
    for link in said.links:
        if link.external == op.input[0] and link.offset == 0:
            everything[link.internal] = workspace.FetchBlob(link.external)[:, np.newaxis]
        elif link.offset == 1 and link.external in shown:
            everything[link.internal] = workspace.FetchBlob(shown[link.external])[:, np.newaxis]
    for blob in said.kept:
        everything[blob] = workspace.FetchBlob(f"{op.output[-1]}/{blob}")
    return list(everything.items())
