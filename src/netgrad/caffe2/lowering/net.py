"""A list of operators as one ONNX model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import helper

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.lowering.held import Perhaps, Stack
from netgrad.caffe2.lowering.nodes import graph_of
from netgrad.caffe2.lowering.scopes import NetScope, Written
from netgrad.onnx.builder import Builder, Value
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
        stacks: The stacks of workspaces that the net has written, with the number of workspaces on them.
    """

    model: onnx.ModelProto
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    stacks: Mapping[str, int]


def lowered(
    definitions: Sequence[OperatorDef], types: Mapping[str, TensorInfo], wanted: Iterable[str] | None = None
) -> Lowered:
    """Write the operators of a net in ONNX.

    Args:
        definitions: The operators in order. A blob may be written again and again; the model has its last
            value.
        types: Element type and shape of each blob that exists before the net runs.
        wanted: The blobs that become outputs; None for all that are written, by nets inside of operators as
            well.

    Raises:
        UnsupportedOperatorError: An operator has no lowering in its form.
        ControlFlowError: One that holds nets has none, or a blob that is wanted is perhaps not written.
        StaticShapeNeededError: A lowering needs dims that ``types`` doesn't say.
        KeyError: An operator reads a blob that isn't there.
    """
    shared = Written(definitions)
    scope = NetScope(Builder(OPSET, "n"), shared, types)
    scope.run(definitions)
    values: dict[str, Value] = {}
    for blob in scope.written if wanted is None else wanted:
        held = scope.blobs.get(blob)
        if isinstance(held, Perhaps):
            raise held.error
        if isinstance(held, Value):
            values[blob] = held
    graph = graph_of(
        scope.b.operators,
        scope.owners,
        "net",
        [scope.b.value(name, types[blob]) for blob, name in scope.given.items()],
        list(values.values()),
        [f"out:{k}" for k in range(len(values))],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=_IR_VERSION, producer_name="netgrad"
    )
    stacks = {blob: len(held.elements) for blob, held in scope.blobs.items() if isinstance(held, Stack)}
    return Lowered(model, tuple(scope.given), tuple(values), stacks)
