"""Caffe2's own operators in ONNX models: an exporter without a word of ONNX wrote them under their names."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from netgrad.caffe2.makers.types import registered_types
from netgrad.caffe2.onnx_import.node import Node
from netgrad.onnx.edit import all_graphs
from netgrad.onnx.fused import is_fused
from netgrad.onnx.opset import changes

DOMAIN = "org.pytorch._caffe2"
"""The domain that PyTorch gives them."""

_DYNAMIC_SLICE = 10  # the version in which Slice took over what the experimental DynamicSlice was


def take_over(model: ir.Model) -> set[tuple[str, str]]:
    """Move Caffe2's operators to their domain, in place, wherever the standard never had such a type.

    ``DynamicSlice``, which was tried out before Slice took its form, becomes Slice.

    Returns:
        Domain and type of all of Caffe2's operators in the model.
    """
    known = registered_types()
    found: set[tuple[str, str]] = set()
    for graph in all_graphs(model):
        for node in graph:
            if node.domain == DOMAIN:
                found.add((DOMAIN, node.op_type))
            if node.domain not in ("", "ai.onnx") or is_fused(node) or changes(node.op_type):
                continue
            if node.op_type == "DynamicSlice":
                node.op_type, node.version = "Slice", _DYNAMIC_SLICE
            elif node.op_type in known:
                node.domain, node.version = DOMAIN, None
                found.add((DOMAIN, node.op_type))
    if found:
        model.opset_imports.setdefault(DOMAIN, 1)
    return found


def write_own(n: Node) -> None:
    """Write the operator as it is, its attributes as arguments.

    Raises:
        UnsupportedOperatorError: Caffe2 has no such type, an input in between is left out, or an attribute
            is nothing that an argument holds.
    """
    if n.op.type not in registered_types():
        raise n.refused("Caffe2 has no operator of that type")
    inputs = list(n.inputs)
    while inputs and not inputs[-1]:
        inputs.pop()
    if not all(inputs):
        raise n.refused("Caffe2's operators have no inputs that are left out in between")
    arguments: dict[str, Any] = {}
    for name in n.op.attributes:
        value = n.attribute(name, None)
        items = value if isinstance(value, list) else [value]
        if not all(isinstance(item, int | float | str | bytes) for item in items):
            raise n.refused(f"its attribute '{name}' is neither a number nor a text, nor a list of these")
        arguments[name] = value
    n.write(n.op.type, inputs, n.outputs, **arguments)
