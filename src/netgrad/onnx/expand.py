"""Expanding composite operators into what the ONNX standard defines them to be, in functions or in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import onnx
import onnx.defs
import onnx_ir

from netgrad.core.errors import UnsupportedOperatorError
from netgrad.onnx.causal_conv import causal_conv_definition
from netgrad.onnx.constants import lift_constants
from netgrad.onnx.edit import EXPANDED_FROM as EXPANDED_FROM
from netgrad.onnx.edit import Editor, all_graphs, as_operator, inner_graphs
from netgrad.onnx.flex_attention import flex_attention_definition, is_flex_attention, read_captured
from netgrad.onnx.fold import discard, fold
from netgrad.onnx.fused import NotYetKnownError, fused_definition, is_fused
from netgrad.onnx.inline import inline_calls, part_outputs
from netgrad.onnx.lowering.lower import check_lowered, refusal_of
from netgrad.onnx.masked_rows import guard_masked_rows
from netgrad.onnx.names import name_inner_values, name_nodes
from netgrad.onnx.opset import lift
from netgrad.onnx.recurrent import RECURRENT, recurrent_definition
from netgrad.onnx.shapes import infer_shapes
from netgrad.onnx.versions import too_new

_DOMAIN = "netgrad.expansion"  # only while nodes are being expanded


def expand(
    model: onnx_ir.Model, wanted: Callable[[onnx_ir.Node], bool], *, keep: Collection[str] = ()
) -> list[str]:
    """Replace composite operators by their definition, in place, as long as there are any that are wanted.

    A node for which ``wanted`` is true and whose operator the standard defines by a function is replaced by
    the body of that function, in the model's opset; the nodes of the body are looked at in turn. Outputs keep
    their names, values and nodes in between are named after the node. Constants of the body become
    initializers marked as no parameters, and its shape arithmetic is folded.

    Args:
        model: A prepared model, shapes inferred.
        wanted: Which nodes to replace. It may be asked several times for one node.
        keep: Names of values that must stay, see ``fold``.

    Returns:
        What was done, one readable line each.
    """
    counts: Counter[str] = Counter()
    while True:
        expanded = _one_level(model, wanted)
        if not expanded:
            break
        counts.update(expanded)
        lift_constants(model, derived=True)
        name_inner_values(model)
        infer_shapes(model)
        if lift(model, 1):
            infer_shapes(model)
        fold(model, keep=keep)
        name_nodes(model)
    return [f"expanded {count} {operator} into its definition" for operator, count in sorted(counts.items())]


def has_definition(node: onnx_ir.Node, opset: int) -> bool:
    """Whether the node's operator is defined in terms of others, in this version of its operator set."""
    if refusal_of(node):
        return False
    return (
        is_fused(node)
        or (node.domain == "" and node.op_type in RECURRENT)
        or _definition(node, opset) is not None
    )


def _one_level(model: onnx_ir.Model, wanted: Callable[[onnx_ir.Node], bool]) -> list[str]:
    """Replace the wanted nodes by one level of definition; give their operator types."""
    nodes = [node for graph in all_graphs(model) for node in graph if wanted(node)]
    editor = Editor(model)
    expanded: list[str] = []
    waiting: list[NotYetKnownError] = []
    for node in nodes:
        try:
            proto = _definition(node, model.opset_imports.get(node.domain, 0))
        except NotYetKnownError as error:
            waiting.append(error)  # what it reads may be known when the others are expanded
            continue
        if proto is None:
            continue
        if not is_fused(node):
            _write_defaults(node, model.opset_imports[node.domain])
        if is_flex_attention(node):
            read_captured(node)
        _fit_outputs(proto, node)
        function = onnx_ir.serde.deserialize_function(proto)
        _fit(function, node, editor)
        expanded.append(node.op_type)
        # A function of its own for every node: the definition may depend on the node's attributes and types.
        node.domain, node.op_type = _DOMAIN, str(len(expanded))
        function.domain, function.name, function.overload = node.domain, node.op_type, node.overload
        model.functions[function.identifier()] = function
    if waiting and not expanded:
        raise waiting[0]
    if expanded:
        inline_calls(model, lambda function: function.domain == _DOMAIN)
        _drop_unread(model)
    return expanded


def _definition(node: onnx_ir.Node, opset: int) -> onnx.FunctionProto | None:
    """The function that defines a node's operator, in the latest form that is not later than ``opset``.

    What the standard gives as a function is right for any version; what is written here is right for those
    that are known.

    Raises:
        UnsupportedOperatorError: The definition does not cover the node's form, or its version.
    """
    check_lowered(node)
    if inner_graphs(node) and not is_flex_attention(node):
        # SequenceMap; its body would have to become a part of the definition
        return None
    if is_fused(node) or (node.domain == "" and node.op_type in RECURRENT):
        newer = too_new(node.op_type, node.domain, {node.domain: opset})
        if newer is not None:
            raise UnsupportedOperatorError(f"no gradient for this form of {as_operator(node)}: {newer}")
        return fused_definition(node) if is_fused(node) else recurrent_definition(node)
    schema: Any  # the stubs of onnx leave out what it says of functions
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return None
    if is_flex_attention(node):
        return flex_attention_definition(node, schema, _input_types(node))
    content = b""
    if schema.has_function:
        versions = [version for version in schema.function_opset_versions if version <= opset]
        if versions:
            content = schema.get_function_with_opset_version(max(versions))
    elif schema.has_context_dependent_function:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
        if versions:
            content = schema.get_context_dependent_function_with_opset_version(
                max(versions), onnx_ir.to_proto(node).SerializeToString(), _input_types(node)
            )
    function = onnx.FunctionProto.FromString(content)
    if node.op_type == "Attention":
        guard_masked_rows(function)
    if node.op_type == "CausalConvWithState" and not function.node:
        return causal_conv_definition(node)
    return function if function.node else None


def _input_types(node: onnx_ir.Node) -> list[bytes]:
    types: list[bytes] = []
    for value in node.inputs:
        proto = onnx.TypeProto()
        if value is not None and value.type is not None:
            proto = onnx_ir.serde.serialize_value(value, name="x").type
        types.append(proto.SerializeToString())
    return types


def _write_defaults(node: onnx_ir.Node, opset: int) -> None:
    """Write out the defaults of attributes: a body that refers to an absent one would lose it."""
    schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    for name, attribute in schema.attributes.items():
        if name not in node.attributes and attribute.default_value.name:
            node.attributes[name] = onnx_ir.serde.deserialize_attribute(attribute.default_value)


def _fit_outputs(proto: onnx.FunctionProto, node: onnx_ir.Node) -> None:
    """Make a definition give as many outputs as the node has; those left out are not computed by the body."""
    while len(node.outputs) > 1 and not node.outputs[-1].name:
        node.resize_outputs(len(node.outputs) - 1)
    del proto.output[len(node.outputs) :]
    written = {name for inner in proto.node for name in inner.output} | set(proto.input)
    for index, name in enumerate(proto.output):
        if name not in written:
            proto.output[index] = proto.output[0]  # nobody reads it: any value will do


def _fit(function: onnx_ir.Function, node: onnx_ir.Node, editor: Editor) -> None:
    """Make a definition fit one node: versions of its own, and names that lead back to the node."""
    for output in node.outputs:
        output.name = output.name or editor.fresh(f"{node.name}_unread")
    part_outputs(function)
    version = function.opset_imports.get("")
    function.opset_imports.clear()
    for inner in function.all_nodes():
        inner.version = version
        inner.name = f"{node.name}_{inner.op_type}"
        inner.metadata_props[EXPANDED_FROM] = f"{node.op_type} '{node.name}'"
        for output in inner.outputs:
            if output.name:
                output.name = editor.fresh(f"{node.name}_{output.name}")


def _drop_unread(model: onnx_ir.Model) -> None:
    """Remove nodes of expansions that compute what was not asked for."""
    for graph in all_graphs(model):
        for node in reversed(list(graph)):
            if EXPANDED_FROM in node.metadata_props and not any(
                output.uses() or output.is_graph_output() for output in node.outputs
            ):
                discard(node)
