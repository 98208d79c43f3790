"""The node tests of the standard as models to differentiate: as written, and in two other forms."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from netgrad.onnx.view import FLOATING

FORMS = ("as written", "symbolic dims", "initializers")
"""As the standard has it; every dim of every input a symbol of its own; initializers in place of inputs."""


@dataclass(frozen=True)
class NodeTest:
    """A model that the onnx package generates, with the inputs it comes with.

    Attributes:
        name: Its name there.
        model: The model; sequences and optionals among its inputs and outputs are taken apart into tensors.
        inputs: An array for each input.
    """

    name: str
    model: onnx.ModelProto
    inputs: dict[str, Any]

    @property
    def operator(self) -> str:
        """The type of the operator that is tested, with its domain unless that is the standard's."""
        node = next(node for node in self.model.graph.node if node.name != _ADDED)
        return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


_ADDED = "taken_apart"


@functools.cache
def node_tests() -> dict[str, NodeTest]:
    """All node tests by name, without the function bodies written out (``_expanded``)."""
    from onnx.backend.test.case import node

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [case for case in node.collect_testcases() if "_expanded" not in case.name]
    return {case.name: _taken_apart(case) for case in cases}


def in_form(test: NodeTest, form: str) -> NodeTest:
    """The same test in one of `FORMS`."""
    if form == "as written":
        return test
    model = onnx.ModelProto()
    model.CopyFrom(test.model)
    if form == "symbolic dims":
        for value in [*model.graph.input, *model.graph.output]:
            shape = value.type.tensor_type.shape
            for axis in range(len(shape.dim)):
                shape.dim[axis].dim_param = f"{value.name}_{axis}"
        return NodeTest(test.name, model, test.inputs)
    fed = {}
    for value in list(model.graph.input):
        model.graph.input.remove(value)
        content = test.inputs[value.name]
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(content), value.name))
    # since IR version 4 an initializer need not be an input
    model.ir_version = max(model.ir_version, 4)
    return NodeTest(test.name, model, fed)


def differentiable_path(model: onnx.ModelProto) -> tuple[list[str], list[str]]:
    """Floating-point inputs and initializers with a path to floating-point outputs, and those outputs.

    A path goes from every input of a node (and what the graphs in it read) to each of its outputs.
    """
    graph = model.graph
    sources = [value.name for value in graph.input if value.type.tensor_type.elem_type in FLOATING]
    sources += [tensor.name for tensor in graph.initializer if tensor.data_type in FLOATING]
    targets = [value.name for value in graph.output if value.type.tensor_type.elem_type in FLOATING]
    reached = {name: {name} for name in sources}
    for node in graph.node:
        before: set[str] = set().union(*(reached.get(name, set()) for name in _reads(node)))
        for name in node.output:
            reached[name] = before
    of = [name for name in targets if reached.get(name)]
    used = set().union(*(reached[name] for name in of))
    return [name for name in sources if name in used], of


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    yield from node.input
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs]:
            for inner in graph.node:
                yield from _reads(inner)


def _taken_apart(case: Any) -> NodeTest:
    """The test with tensors in place of sequences and optionals: they are made, and read, by nodes."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph = model.graph
    given, expected = case.data_sets[0]
    inputs: dict[str, Any] = {}
    before: list[onnx.NodeProto] = []
    after: list[onnx.NodeProto] = []
    if not any(opset.domain == "" for opset in model.opset_import):
        model.opset_import.append(helper.make_opsetid("", 18))
    for value, content in zip(list(graph.input), given, strict=True):
        made = _made_from_tensors(value, content)
        if made is None:
            inputs[value.name] = _array(content)
            continue
        nodes, tensors = made
        before += nodes
        graph.input.remove(value)
        for name, array in tensors.items():
            inputs[name] = array
            element = helper.np_dtype_to_tensor_dtype(array.dtype)
            graph.input.append(helper.make_tensor_value_info(name, element, array.shape))
    for value, content in zip(list(graph.output), expected, strict=True):
        if value.type.WhichOneof("value") == "tensor_type" or content is None:
            continue
        graph.output.remove(value)
        nodes, results = _read_as_tensors(value, content)
        after += nodes
        graph.output.extend(results)
    for node in before + after:
        node.name = _ADDED
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)
    return NodeTest(case.name, model, inputs)


def _array(content: Any) -> Any:
    return numpy_helper.to_array(content) if isinstance(content, TensorProto) else np.asarray(content)


def _made_from_tensors(
    value: onnx.ValueInfoProto, content: Any
) -> tuple[list[onnx.NodeProto], dict[str, Any]] | None:
    """Nodes that make a sequence or optional out of tensors, and those; None for a tensor."""
    kind = value.type.WhichOneof("value")
    if kind == "tensor_type":
        return None
    inner = value.type.optional_type.elem_type if kind == "optional_type" else value.type
    is_sequence = inner.WhichOneof("value") == "sequence_type"
    if content is None:
        type_ = onnx.AttributeProto(name="type", type=onnx.AttributeProto.TYPE_PROTO)
        type_.tp.CopyFrom(inner)
        node = helper.make_node("Optional", [], [value.name])
        node.attribute.append(type_)
        return [node], {}
    # an optional tensor comes bare, or as the only item of a list
    items = [_array(item) for item in (content if isinstance(content, list) else [content])]
    names = [f"{value.name}_{k}" for k in range(len(items))]
    made = f"{value.name}_made" if kind == "optional_type" else value.name
    nodes = []
    if not is_sequence:
        made = names[0]
    elif names:
        nodes.append(helper.make_node("SequenceConstruct", names, [made]))
    else:
        element = inner.sequence_type.elem_type.tensor_type.elem_type
        nodes.append(helper.make_node("SequenceEmpty", [], [made], dtype=element))
    if kind == "optional_type":
        nodes.append(helper.make_node("Optional", [made], [value.name]))
    return nodes, dict(zip(names, items, strict=True))


def _read_as_tensors(
    value: onnx.ValueInfoProto, content: Any
) -> tuple[list[onnx.NodeProto], list[onnx.ValueInfoProto]]:
    """Nodes that read every tensor out of a sequence or optional, and what they give."""
    kind, name = value.type.WhichOneof("value"), value.name
    inner = value.type.optional_type.elem_type if kind == "optional_type" else value.type
    nodes = []
    if kind == "optional_type":
        nodes.append(helper.make_node("OptionalGetElement", [name], [f"{name}_held"]))
        name = f"{name}_held"
    if inner.WhichOneof("value") != "sequence_type":
        return nodes, [onnx.ValueInfoProto(name=name, type=inner)]
    results = []
    for position, item in enumerate(content):
        index = helper.make_tensor(f"{name}_position_{position}", TensorProto.INT64, [], [position])
        nodes.append(helper.make_node("Constant", [], [f"{name}_index_{position}"], value=index))
        result = f"{name}_{position}"
        nodes.append(helper.make_node("SequenceAt", [name, f"{name}_index_{position}"], [result]))
        array = _array(item)
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
        results.append(helper.make_tensor_value_info(result, element, array.shape))
    return nodes, results
