"""Random draws in bodies as outputs: the backward pass must see the numbers of the forward run."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from netgrad.onnx.edit import constant_of
from netgrad.onnx.names import NameAuthority
from netgrad.onnx.rules.draws import RANDOM
from netgrad.onnx.view import all_names, dims_of
from netgrad.transforms.outputs import drop_unread

_BRANCHES = ("then_branch", "else_branch")


def draws_in(graph: ir.Graph, names: NameAuthority) -> tuple[list[ir.Value], list[ir.Value]]:
    """The values that nodes of a body draw, and those of them that were added: masks of Dropout, in place.

    Nodes in bodies of the body are left out.
    """
    drawn: list[ir.Value] = []
    masks: list[ir.Value] = []
    for node in graph:
        if node.domain not in ("", "ai.onnx"):
            continue
        if node.op_type in RANDOM:
            drawn.append(node.outputs[0])
        elif node.op_type == "Dropout" and _drops(node):
            if len(node.outputs) < 2 or not node.outputs[1].name:
                node.resize_outputs(2)
                masks.append(_named_mask(node, names))
            drawn.append(node.outputs[1])
    return drawn, masks


def _drops(node: ir.Node) -> bool:
    training = node.inputs[2] if len(node.inputs) > 2 else None
    known = constant_of(training)
    return training is not None and (known is None or bool(known))


def _named_mask(node: ir.Node, names: NameAuthority) -> ir.Value:
    mask = node.outputs[1]
    mask.name = names.unique(f"{node.outputs[0].name}/mask")
    mask.type, mask.shape = ir.TensorType(ir.DataType.BOOL), node.outputs[0].shape
    return mask


@dataclass(frozen=True)
class SavedDraws:
    """The outputs that were added to one If.

    Attributes:
        node: The If.
        first: Position of the first added output.
        nodes: In each branch, what gives the added outputs.
        masks: Masks of Dropout nodes in the branches that were added to be handed out.
    """

    node: ir.Node
    first: int
    nodes: tuple[tuple[ir.Node, ...], tuple[ir.Node, ...]]
    masks: tuple[ir.Value, ...]


def save_draws(graph: ir.Graph, active: Collection[str]) -> list[SavedDraws]:
    """Let the active If nodes of a graph hand out what the nodes of their branches draw, in place.

    The branch that does not draw a number gives an empty tensor for it.

    Args:
        graph: A prepared graph.
        active: Names of the values between what is differentiated and what it is differentiated by.
    """
    names = NameAuthority([*all_names(graph), *(node.name or "" for node in graph.all_nodes())])
    added: list[SavedDraws] = []
    for node in graph:
        is_if = node.op_type == "If" and node.domain in ("", "ai.onnx")
        if not is_if or not any(output.name in active for output in node.outputs):
            continue
        branches = [node.attributes[name].as_graph() for name in _BRANCHES]
        found = [draws_in(branch, names) for branch in branches]
        places = [(k, value) for k, (drawn, _) in enumerate(found) for value in drawn]
        if not places:
            continue
        first = len(node.outputs)
        node.resize_outputs(first + len(places))
        given: tuple[list[ir.Node], list[ir.Node]] = ([], [])
        for (k, value), output in zip(places, node.outputs[first:], strict=True):
            copy, other = _copy(value), _nothing(value)
            for branch, writer, list_ in ((k, copy, given[k]), (1 - k, other, given[1 - k])):
                writer.name = names.unique(f"{node.name}/draw")
                writer.outputs[0].name = names.unique(f"{value.name}/drawn")
                branches[branch].append(writer)
                branches[branch].outputs.append(writer.outputs[0])
                list_.append(writer)
            output.name = names.unique(f"{node.name}/{value.name}")
            output.type = value.type
            dims = dims_of(value.shape)
            output.shape = None if dims is None else ir.Shape([None] * len(dims))
        masks = tuple(mask for _, of_branch in found for mask in of_branch)
        added.append(SavedDraws(node, first, (tuple(given[0]), tuple(given[1])), masks))
    return added


def _copy(value: ir.Value) -> ir.Node:
    node = ir.Node("", "Identity", [value])
    node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
    return node


def _nothing(value: ir.Value) -> ir.Node:
    dims, dtype = dims_of(value.shape), value.dtype or ir.DataType.FLOAT
    shape = [0] * len(dims) if dims is not None else [0]
    tensor = ir.tensor(np.zeros(shape, dtype.numpy()))
    node = ir.Node("", "Constant", [], attributes=[ir.AttrTensor("value", tensor)])
    node.outputs[0].type, node.outputs[0].shape = ir.TensorType(dtype), ir.Shape(shape)
    return node


def drop_unread_draws(added: Iterable[SavedDraws]) -> None:
    """Take back, in place, the added outputs of those nodes of which the backward pass reads none."""
    for saved in added:
        node, first = saved.node, saved.first
        if any(output.uses() or output.is_graph_output() for output in node.outputs[first:]):
            continue
        node.resize_outputs(first)
        for name, writers in zip(_BRANCHES, saved.nodes, strict=True):
            branch = node.attributes[name].as_graph()
            del branch.outputs[first:]
            for writer in writers:
                branch.remove(writer, safe=True)
        drop_unread(saved.masks)
