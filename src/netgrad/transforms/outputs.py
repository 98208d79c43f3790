"""Outputs that a rule reads but the model leaves out: Dropout's mask, MaxPool's indices, saved means."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import onnx_ir as ir

from netgrad.onnx.infer import infer_node
from netgrad.onnx.names import NameAuthority
from netgrad.onnx.rules.source import OnnxRules
from netgrad.onnx.view import all_names, operator_of, tensor_info


def add_needed_outputs(graph: ir.Graph, rules: OnnxRules, active: Collection[str]) -> list[ir.Value]:
    """Give the active nodes, in place, the optional outputs that their rules declare in ``needs_outputs``.

    A rule must see what the very same run of its operator computed: the mask of a second Dropout node would
    be another mask.

    Args:
        graph: A prepared graph.
        rules: Says how many outputs of an operator its rule reads.
        active: Names of the values between what is differentiated and what it is differentiated by.

    Returns:
        The outputs that were added, with fresh names and inferred types.
    """
    names = NameAuthority(all_names(graph))
    added: list[ir.Value] = []
    for node in graph:
        if not any(output.name in active for output in node.outputs if output.name):
            continue
        needed = rules.needed_outputs(operator_of(node))
        absent = [k for k in range(needed) if k >= len(node.outputs) or not node.outputs[k].name]
        if not absent:
            continue
        node.resize_outputs(max(needed, len(node.outputs)))
        infos = infer_node(
            node.op_type,
            "" if node.domain == "ai.onnx" else node.domain,
            rules.opset,
            [None if value is None else tensor_info(value) for value in node.inputs],
            dict(node.attributes),
            len(node.outputs),
        )
        for k in absent:
            value, info = node.outputs[k], infos[k]
            value.name = names.unique(f"{node.outputs[0].name or node.op_type}_output_{k}")
            value.type = None if info.dtype is None else ir.TensorType(info.dtype)
            value.shape = None if info.shape is None else ir.Shape(info.shape)
            added.append(value)
    return added


def drop_unread(added: Iterable[ir.Value]) -> None:
    """Take back, in place, those of the added outputs that the finished backward pass does not read."""
    for value in added:
        node = value.producer()
        assert node is not None, "an output has its node"
        if not value.uses() and not value.is_graph_output():
            value.name = ""
            while len(node.outputs) > 1 and not node.outputs[-1].name:
                node.resize_outputs(len(node.outputs) - 1)
