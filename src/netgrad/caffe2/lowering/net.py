"""A list of operators as one ONNX model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import helper

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.lowering.context import Context, StaticShapeNeededError
from netgrad.caffe2.lowering.registry import lower
from netgrad.core import Operator
from netgrad.onnx.body import Body, captured_of, live
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.infer import attribute_proto
from netgrad.onnx.view import TensorInfo

# The newest at which ONNX Runtime has kernels for all that is written, random draws among them.
OPSET = 21
_IR_VERSION = 10


@dataclass(frozen=True)
class Lowered:
    """A net as an ONNX model.

    Attributes:
        model: The model; its inputs and outputs are called ``in:0``, ``out:0``, ...
        inputs: The blobs that the inputs are, in order.
        outputs: The blobs that the outputs are, in order.
    """

    model: onnx.ModelProto
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def lowered(
    definitions: Sequence[OperatorDef], types: Mapping[str, TensorInfo], wanted: Iterable[str] | None = None
) -> Lowered:
    """Write the operators of a net in ONNX.

    Args:
        definitions: The operators in order. A blob may be written again and again; the model has its last
            value.
        types: Element type and shape of each blob that exists before the net runs.
        wanted: The blobs that become outputs; None for all that an operator writes.

    Raises:
        UnsupportedOperatorError: An operator has no lowering in its form.
        StaticShapeNeededError: A lowering needs dims that ``types`` doesn't say.
        KeyError: An operator reads a blob that isn't there.
    """
    builder = Builder(OPSET, "n")
    values: dict[str, Value] = {}
    given: dict[str, str] = {}
    owners: list[str] = []
    for definition in definitions:
        for blob in definition.input:
            if blob not in values:
                given[blob] = f"in:{len(given)}"
                values[blob] = builder.value(given[blob], types[blob].plain)
        try:
            results = lower(Context(definition, builder), [values[blob] for blob in definition.input])
        except StaticShapeNeededError as error:
            raise StaticShapeNeededError(title(definition)) from error
        for blob, value in zip(definition.output, results, strict=False):
            if value is not None:
                values[blob] = value
        owners += [title(definition)] * (len(builder.operators) - len(owners))
    written = dict.fromkeys(blob for definition in definitions for blob in definition.output)
    outputs = [blob for blob in (written if wanted is None else wanted) if blob in values]
    return Lowered(_model(builder, owners, types, given, outputs, values), tuple(given), tuple(outputs))


def title(definition: OperatorDef) -> str:
    """What the nodes of an operator are called, so that what goes wrong in one is led back to it."""
    return f"{definition.type}({', '.join(definition.input)}) -> ({', '.join(definition.output)})"


def _model(
    builder: Builder,
    owners: Sequence[str],
    types: Mapping[str, TensorInfo],
    given: Mapping[str, str],
    outputs: Sequence[str],
    values: Mapping[str, Value],
) -> onnx.ModelProto:
    nodes = [
        _node(builder.operators[index], f"{owners[index]}: {builder.operators[index].type}_{index}")
        for index in live(builder.operators, [values[blob].name for blob in outputs])
    ]
    results = []
    for index, blob in enumerate(outputs):
        nodes.append(
            helper.make_node("Identity", [values[blob].name], [f"out:{index}"], name=f"output_{index}")
        )
        results.append(_value_info(f"out:{index}", values[blob].info))
    graph = helper.make_graph(
        nodes, "net", [_value_info(name, types[blob]) for blob, name in given.items()], results
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=_IR_VERSION, producer_name="netgrad"
    )


def _node(operator: Operator, name: str) -> onnx.NodeProto:
    """An operator as a node. What its bodies read from outside they find there, under the same names."""
    inputs = operator.inputs[: len(operator.inputs) - len(captured_of(operator))]
    node = helper.make_node(
        operator.type, list(inputs), list(operator.outputs), name=name, domain=operator.domain or None
    )
    for key, value in operator.attributes.items():
        if isinstance(value, Body):
            node.attribute.append(helper.make_attribute(key, _graph(value, name)))
        else:
            node.attribute.append(attribute_proto(key, value))
    return node


def _graph(body: Body, name: str) -> onnx.GraphProto:
    """A body as a graph; ONNX Runtime's errors name the node around it, too."""
    return helper.make_graph(
        [_node(op, f"{op.type}_{index}") for index, op in enumerate(body.operators)],
        name,
        [_value_info(value, body.types[value]) for value in body.inputs],
        [_value_info(value, body.types[value]) for value in body.outputs],
    )


def _value_info(name: str, info: TensorInfo) -> onnx.ValueInfoProto:
    assert info.dtype is not None, f"the element type of {name} is known"
    return helper.make_tensor_value_info(name, int(info.dtype), info.shape)
