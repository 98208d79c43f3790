"""The definition of FlexAttention, into which the graphs that it holds are written."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir

from netgrad.onnx.view import captured_values

DOMAIN = "ai.onnx.preview"


def is_flex_attention(node: onnx_ir.Node) -> bool:
    """Whether a node is the standard's FlexAttention."""
    return node.domain == DOMAIN and node.op_type == "FlexAttention"


def flex_attention_definition(
    node: onnx_ir.Node, schema: Any, types: list[bytes]
) -> onnx.FunctionProto | None:
    """The standard's definition of one FlexAttention node, with further inputs for what its graphs capture.

    The standard writes the graphs that change scores and probabilities into the definition, but leaves names
    that they read from outside as they are. They get names that nothing in the definition has.

    Args:
        node: The node; it is not changed.
        schema: Of its operator.
        types: Serialised types of its inputs.
    """
    captured = captured_values(node)
    former = [value.name or "" for value in captured]
    given = [f"captured_by_flex_attention_{k}" for k in range(len(captured))]
    try:
        for value, passed in zip(captured, given, strict=True):
            value.name = passed
        content = schema.get_context_dependent_function_with_opset_version(
            max(schema.context_dependent_function_opset_versions),
            onnx_ir.to_proto(node).SerializeToString(),
            types,
        )
    finally:
        for value, name in zip(captured, former, strict=True):
            value.name = name
    function = onnx.FunctionProto.FromString(content)
    if not function.node:
        return None
    del function.attribute[:]  # the graphs are in it already
    function.input.extend(given)
    return function


def read_captured(node: onnx_ir.Node) -> None:
    """Make inputs of what the graphs of a FlexAttention node capture, and drop the graphs, in place."""
    captured = captured_values(node)
    count = len(node.inputs)
    node.resize_inputs(count + len(captured))
    for k, value in enumerate(captured):
        node.replace_input_with(count + k, value)
    for name in ("score_mod", "prob_mod"):
        node.attributes.pop(name, None)
