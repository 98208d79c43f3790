"""Optional outputs that rules need are added to active nodes, and taken back where no one reads them."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import onnx_ir as ir
from onnx import TensorProto, helper

from netgrad.onnx.rules.choices import Choices
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import Declaration, Kind
from netgrad.onnx.rules.source import OnnxRules
from netgrad.onnx.view import value_types
from netgrad.transforms.outputs import add_needed_outputs, drop_unread


def _graph(*outputs: str) -> ir.Graph:
    node = helper.make_node("LayerNormalization", ["x", "scale"], list(outputs), axis=1)
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.DOUBLE, [2, "n", 3]),
        helper.make_tensor_value_info("scale", TensorProto.DOUBLE, ["n", 3]),
    ]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    return ir.from_proto(model).graph


def _rules(graph: ir.Graph, needs: int | Callable[[RuleContext], int]) -> OnnxRules:
    declared = Declaration("LayerNormalization", "", Kind.RULE, needs_outputs=needs)
    return OnnxRules(value_types(graph), 18, Choices(declarations={("", "LayerNormalization"): declared}))


def _names(graph: ir.Graph) -> list[str | None]:
    return [value.name for value in graph.node(0).outputs]


def test_absent_outputs_are_added_with_fresh_names_and_types() -> None:
    graph = _graph("y")
    graph.inputs[0].name = "y_output_1"  # the wished name is taken
    added = add_needed_outputs(graph, _rules(graph, 3), {"y"})
    assert _names(graph) == ["y", "y_output_1_1", "y_output_2"]
    assert [value.shape for value in added] == [ir.Shape([2, 1, 1])] * 2
    assert all(value.dtype is not None for value in added)


def test_outputs_that_the_model_has_keep_their_names() -> None:
    graph = _graph("y", "", "inverse")
    added = add_needed_outputs(graph, _rules(graph, 3), {"y"})
    assert _names(graph) == ["y", "y_output_1", "inverse"]
    assert [value.name for value in added] == ["y_output_1"]


def test_a_rule_decides_from_the_operator() -> None:
    graph = _graph("y")
    assert not add_needed_outputs(
        graph, _rules(graph, lambda op: 3 if op.attribute("axis") == -1 else 1), {"y"}
    )
    assert (
        len(add_needed_outputs(graph, _rules(graph, lambda op: 2 if op.input.rank == 3 else 1), {"y"})) == 1
    )


def test_nodes_off_the_active_path_are_left_alone() -> None:
    graph = _graph("y")
    assert not add_needed_outputs(graph, _rules(graph, 3), {"x"})
    assert _names(graph) == ["y"]


def test_what_nobody_reads_is_taken_back() -> None:
    graph = _graph("y")
    added = add_needed_outputs(graph, _rules(graph, 3), {"y"})
    graph.append(ir.Node("", "Neg", [added[0]], outputs=[ir.Value(name="read")]))
    drop_unread(added)
    assert _names(graph) == ["y", "y_output_1"]
    graph = _graph("y", "", "inverse")
    drop_unread(add_needed_outputs(graph, _rules(graph, 3), {"y"}))
    assert _names(graph) == ["y", "", "inverse"]
