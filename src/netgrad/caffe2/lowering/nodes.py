"""Operators that a builder has written, as nodes of a model and of graphs inside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx
from onnx import helper

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.core import Operator
from netgrad.onnx.body import Body, captured_of
from netgrad.onnx.builder import Value
from netgrad.onnx.infer import attribute_proto
from netgrad.onnx.view import TensorInfo


def title(definition: OperatorDef) -> str:
    """What the nodes of an operator are called, so that what goes wrong in one is led back to it."""
    return f"{definition.type}({', '.join(definition.input)}) -> ({', '.join(definition.output)})"


def graph_of(
    operators: Sequence[Operator],
    owners: Sequence[str],
    name: str,
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    names: Sequence[str] | None = None,
) -> onnx.GraphProto:
    """The operators that the outputs depend on, as a graph.

    Args:
        operators: What was written, in order.
        owners: For each of them what its node is named after.
        name: The name of the graph.
        inputs: The inputs.
        outputs: The outputs, which are copied: one may be an input, come from around, or be given twice.
        names: What the outputs are called; None for names of their own.
    """
    called = [f"{name}:out:{k}" for k in range(len(outputs))] if names is None else names
    nodes = []
    needed = _needed(operators, [value.name for value in outputs])
    for index, (operator, owner) in enumerate(zip(operators, owners, strict=True)):
        if index in needed:
            nodes.append(_node(operator, f"{owner}: {operator.type}_{index}"))
    for k, (value, output) in enumerate(zip(outputs, called, strict=True)):
        nodes.append(helper.make_node("Identity", [value.name], [output], name=f"output_{k}"))
    return helper.make_graph(
        nodes,
        name,
        [value_info(value.name, value.info) for value in inputs],
        [value_info(output, value.info) for value, output in zip(outputs, called, strict=True)],
    )


def _node(operator: Operator, name: str) -> onnx.NodeProto:
    """An operator as a node. What its bodies read from outside they find there, under the same names."""
    inputs = operator.inputs[: len(operator.inputs) - len(captured_of(operator))]
    node = helper.make_node(
        operator.type, list(inputs), list(operator.outputs), name=name, domain=operator.domain or None
    )
    for key, value in operator.attributes.items():
        if isinstance(value, Body):
            node.attribute.append(helper.make_attribute(key, _body(value, name)))
        elif isinstance(value, onnx.GraphProto):
            node.attribute.append(helper.make_attribute(key, value))
        else:
            node.attribute.append(attribute_proto(key, value))
    return node


def _body(body: Body, name: str) -> onnx.GraphProto:
    """A body as a graph; ONNX Runtime's errors name the node around it, too."""
    return helper.make_graph(
        [_node(op, f"{op.type}_{index}") for index, op in enumerate(body.operators)],
        name,
        [value_info(value, body.types[value]) for value in body.inputs],
        [value_info(value, body.types[value]) for value in body.outputs],
    )


def _needed(operators: Sequence[Operator], wanted: Iterable[str]) -> set[int]:
    """Numbers of the operators that ``wanted`` depends on; ONNX Runtime would run the others as well."""
    names = set(wanted)
    found = set()
    for index in range(len(operators) - 1, -1, -1):
        if not names.isdisjoint(operators[index].outputs):
            found.add(index)
            names.update(operators[index].inputs)
            for value in operators[index].attributes.values():
                if isinstance(value, onnx.GraphProto):
                    names.update(_reads(value))
            names.discard("")
    return found


def _reads(graph: onnx.GraphProto) -> Iterable[str]:
    """All names that the nodes of a graph and of those inside it read."""
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _reads(attribute.g)


def value_info(name: str, info: TensorInfo) -> onnx.ValueInfoProto:
    """What a model says of a value; dims that are unknown have no name."""
    assert info.dtype is not None, f"the element type of {name} is known"
    return helper.make_tensor_value_info(name, int(info.dtype), info.shape)


def drop_copies(graph: onnx.GraphProto, *, constants: bool = True) -> None:
    """Let the nodes that compute the outputs write them, where a copy does that.

    Args:
        graph: The graph, which is changed.
        constants: Whether constants become outputs themselves.
    """
    outputs = {info.name for info in graph.output}
    written = {name for node in graph.node for name in node.output if constants or node.op_type != "Constant"}
    written -= outputs  # which keep their names: a second output may be a copy of one
    names: dict[str, str] = {}
    kept = []
    for node in graph.node:
        source = node.input[0] if node.op_type == "Identity" else ""
        if source in written and source not in names and node.output[0] in outputs:
            names[source] = node.output[0]
        else:
            kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)
    rename(graph, names)


def rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Rename what the nodes of a graph, and of the graphs inside them, read and write."""
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                rename(attribute.g, names)
