"""States of loops as outputs: what the backward pass of a Loop or a Scan reads of every iteration.

The gradient of a Loop needs the carried values before every iteration. Where the loop hands them out itself,
stacked, it need not run a second time for them (see `netgrad.onnx.rules.repetition`). The random numbers that
a body draws have to be handed out, those of the branches of an If too: a second run would draw others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import onnx_ir as ir

from netgrad.onnx.names import NameAuthority
from netgrad.onnx.rules.saving import keeps_shape
from netgrad.onnx.view import all_names, dims_of
from netgrad.transforms.drawn import draws_in
from netgrad.transforms.outputs import drop_unread

_FIRST_STATE = {"Loop": 2, "Scan": 0}
_LISTS = ("scan_output_axes", "scan_output_directions")


@dataclass(frozen=True)
class SavedStates:
    """The outputs that were added to one node.

    Attributes:
        node: A Loop or a Scan.
        body: Its body.
        copies: In the body, what hands each state or draw out.
        first: Position of the first added output.
        masks: Masks of Dropout nodes in the body that were added to be handed out.
    """

    node: ir.Node
    body: ir.Graph
    copies: tuple[ir.Node, ...]
    first: int
    masks: tuple[ir.Value, ...] = ()


def save_states(graph: ir.Graph, active: Collection[str]) -> list[SavedStates]:
    """Let the active Loop and Scan nodes of a graph hand out, in place, all that a second run would not give.

    That is all states before each iteration, and all that the nodes of the body draw.

    Args:
        graph: A prepared graph.
        active: Names of the values between what is differentiated and what it is differentiated by.
    """
    names = NameAuthority([*all_names(graph), *(node.name or "" for node in graph.all_nodes())])
    added: list[SavedStates] = []
    for node in graph:
        first_state = _FIRST_STATE.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if first_state is None or not any(output.name in active for output in node.outputs):
            continue
        body = node.attributes["body"].as_graph()
        # A Loop's body gives the condition first, which is no output of the node.
        sequences_only = len(body.outputs) == 1 + _states(node) and node.op_type == "Loop"
        carried = zip(body.inputs[first_state:], body.outputs[node.op_type == "Loop" :], strict=False)
        states = [
            state
            for state, after in list(carried)[: _states(node)]
            if isinstance(state.type, ir.TensorType)  # sequences can't be stacked
            and (node.op_type == "Scan" or keeps_shape(dims_of(state.shape), dims_of(after.shape)))
        ]
        if not states and sequences_only and isinstance(body.inputs[0].type, ir.TensorType):
            states = [body.inputs[0]]  # the number of the iteration, so that they are counted
        drawn, masks = draws_in(body, names)
        states += drawn
        if not states or len(node.outputs) != len(body.outputs) - (node.op_type == "Loop"):
            continue
        first = len(node.outputs)
        node.resize_outputs(first + len(states))
        copies = []
        for state, output in zip(states, node.outputs[first:], strict=True):
            copy = ir.Node("", "Identity", [state], name=names.unique(f"{node.name}/save"))
            copy.outputs[0].name = names.unique(f"{state.name}/saved")
            copy.outputs[0].type, copy.outputs[0].shape = state.type, state.shape
            body.append(copy)
            body.outputs.append(copy.outputs[0])
            output.name = names.unique(f"{node.name}/{state.name}")
            output.type = state.type
            dims = dims_of(state.shape)
            output.shape = None if dims is None else ir.Shape([None, *dims])
            copies.append(copy)
        _resize_lists(node, len(states))
        added.append(SavedStates(node, body, tuple(copies), first, tuple(masks)))
    return added


def drop_unread_states(added: Iterable[SavedStates]) -> None:
    """Take back, in place, those of the added outputs that the finished backward pass does not read."""
    for saved in added:
        node, body, first = saved.node, saved.body, saved.first
        offset = len(body.outputs) - len(node.outputs)
        stacks = list(node.outputs[first:])
        read = [k for k, stack in enumerate(stacks) if stack.uses() or stack.is_graph_output()]
        for place, k in enumerate(read):  # those that stay move forward, into the places of those that go
            if place == k:
                continue
            target, source = stacks[place], stacks[k]
            source.replace_all_uses_with(target)
            target.name, source.name = source.name, target.name
            target.type, target.shape = source.type, source.shape
            body.outputs[first + offset + place] = saved.copies[k].outputs[0]
        del body.outputs[first + offset + len(read) :]
        node.resize_outputs(first + len(read))
        for k, copy in enumerate(saved.copies):
            if k not in read:
                body.remove(copy, safe=True)
        _resize_lists(node, len(read) - len(saved.copies))
        drop_unread(saved.masks)


def _states(node: ir.Node) -> int:
    if node.op_type == "Loop":
        return len(node.inputs) - _FIRST_STATE["Loop"]
    return len(node.inputs) - node.attributes["num_scan_inputs"].as_int()


def _resize_lists(node: ir.Node, count: int) -> None:
    """Let the lists that speak of scan outputs speak of ``count`` more (or fewer), stacked plainly."""
    for name in _LISTS:
        if name in node.attributes:
            numbers = list(node.attributes[name].as_ints())
            numbers = numbers + [0] * count if count > 0 else numbers[: len(numbers) + count]
            node.attributes[name] = ir.AttrInt64s(name, numbers)
