"""A list of operators as one ONNX model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import helper

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.lowering.held import TRUTH, Perhaps, Stack
from netgrad.caffe2.lowering.nodes import drop_copies, graph_of
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
        perhaps: Blobs that are perhaps written, and on which truth value they are: further outputs
            ``perhaps:0``, ... with the values, and ``whether:0``, ... with the truth values.
        stacks: The stacks of workspaces that the net has written, with the number of workspaces on them.
    """

    model: onnx.ModelProto
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    perhaps: Mapping[str, bool]
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
    shared = Written(definitions, wanted is None)
    scope = NetScope(Builder(OPSET, "n"), shared, types)
    scope.run(definitions)
    values: dict[str, Value] = {}
    perhaps: dict[str, Perhaps] = {}
    for blob in scope.written if wanted is None else wanted:
        held = scope.blobs.get(blob)
        if isinstance(held, Perhaps):
            if held.value is None or wanted is not None:
                raise held.error
            perhaps[blob] = held
        if isinstance(held, Value):
            values[blob] = held
    further = [one.value for one in perhaps.values() if one.value is not None]
    truths = [scope.b.value(one.condition, TRUTH) for one in perhaps.values()]
    graph = graph_of(
        scope.b.operators,
        scope.owners,
        "net",
        [scope.b.value(name, types[blob]) for blob, name in scope.given.items()],
        [*values.values(), *further, *truths],
        [
            *(f"out:{k}" for k in range(len(values))),
            *(f"perhaps:{k}" for k in range(len(perhaps))),
            *(f"whether:{k}" for k in range(len(perhaps))),
        ],
    )
    # a copy of every blob would cost as much as a small operator
    drop_copies(graph, constants=False)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=_IR_VERSION, producer_name="netgrad"
    )
    stacks = {blob: len(held.elements) for blob, held in scope.blobs.items() if isinstance(held, Stack)}
    return Lowered(
        model, tuple(scope.given), tuple(values), {blob: one.holds for blob, one in perhaps.items()}, stacks
    )
