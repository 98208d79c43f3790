"""A node of ONNX by itself, and a tensor, in Caffe2's operators: what the original's native module offers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import onnx
import onnx.defs
from onnx import TensorProto, helper, numpy_helper

from netgrad.caffe2.arguments import make_argument
from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.makers.types import registered_types
from netgrad.caffe2.onnx_import.model import write_graph
from netgrad.caffe2.onnx_import.names import DummyName
from netgrad.caffe2.onnx_import.registry import WRITERS
from netgrad.caffe2.running.errors import RunError
from netgrad.caffe2.saved_model import init_net_of
from netgrad.core import NetgradError
from netgrad.onnx.read import load

KNOWN_OPSET = 9
"""The version of the operator set that a node is taken to be of, if nothing is said: the original's."""


def _text(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


_FILLS: dict[int, tuple[str, Callable[[Any], Any]]] = {
    TensorProto.FLOAT: ("GivenTensorFill", float),
    TensorProto.DOUBLE: ("GivenTensorDoubleFill", float),
    TensorProto.INT64: ("GivenTensorInt64Fill", int),
    TensorProto.UINT32: ("GivenTensorInt64Fill", int),
    TensorProto.INT32: ("GivenTensorIntFill", int),
    TensorProto.UINT16: ("GivenTensorIntFill", int),
    TensorProto.INT16: ("GivenTensorIntFill", int),
    TensorProto.UINT8: ("GivenTensorIntFill", int),
    TensorProto.INT8: ("GivenTensorIntFill", int),
    TensorProto.BOOL: ("GivenTensorBoolFill", int),
    TensorProto.STRING: ("GivenTensorStringFill", _text),
}
"""The fill that holds a tensor of each type, and what makes a value of it."""


def fill_of(tensor: onnx.TensorProto, name: str = "") -> OperatorDef:
    """The operator that writes a tensor; small whole numbers become int32, which fills have.

    Args:
        tensor: The tensor.
        name: The blob to write; the tensor's name without.

    Raises:
        RunError: No fill holds tensors of its type, or nothing says a name.
    """
    blob = name or tensor.name
    if not blob:
        raise RunError("a tensor without a name needs one")
    if tensor.data_type not in _FILLS:
        raise RunError(
            f"'{blob}' is of {helper.tensor_dtype_to_string(tensor.data_type)}, which no fill can hold"
        )
    type_, kind = _FILLS[tensor.data_type]
    array = numpy_helper.to_array(tensor).reshape(-1)
    values = [kind(value) for value in array.tolist()]
    fill = OperatorDef(type=type_, output=[blob])
    fill.arg.append(make_argument("values", values))
    shape = make_argument("shape", [])
    shape.ints.extend(tensor.dims)
    fill.arg.append(shape)
    return fill


class NodeConverter:
    """Converts nodes and tensors, given and returned as bytes of their messages.

    Args:
        names: What gives blobs in between their names.
    """

    def __init__(self, names: DummyName | None = None) -> None:
        self._names = DummyName() if names is None else names

    def support_onnx_import(self, op_type: str) -> bool:
        """Whether there is a way to write this type of ONNX's operators."""
        return op_type in WRITERS or (op_type in registered_types() and not onnx.defs.has(op_type))

    def convert_node(
        self, node_str: bytes, value_infos_bytes: Sequence[bytes] = (), opset_version: int = KNOWN_OPSET
    ) -> list[list[bytes]]:
        """Write a node in Caffe2's operators.

        Args:
            node_str: The node.
            value_infos_bytes: What is known of its inputs.
            opset_version: The version of the operator set that it is of.

        Returns:
            The operators that write what it needs besides its inputs, and those that stand for it.

        Raises:
            RunError: It can't be written, or has an attribute that its operator doesn't know.
        """
        node = onnx.NodeProto.FromString(node_str)
        infos = [onnx.ValueInfoProto.FromString(info) for info in value_infos_bytes]
        _check_attributes(node, opset_version)
        try:
            first, then = operators_of(node, infos, opset_version, self._names)
        except NetgradError as error:
            raise RunError(str(error)) from error
        return [[op.SerializeToString() for op in operators] for operators in (first, then)]

    def _build_tensor_filling_op(self, tensor_str: bytes, name: str) -> bytes:
        """The operator that writes a tensor; see `fill_of`."""
        return fill_of(onnx.TensorProto.FromString(tensor_str), name).SerializeToString()


def _check_attributes(node: onnx.NodeProto, opset: int) -> None:
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return
    for attribute in node.attribute:
        if attribute.name not in schema.attributes:
            raise RunError(
                f"Don't know how to map unexpected argument {attribute.name} (from operator {node.op_type})."
            )


def operators_of(
    node: onnx.NodeProto, infos: Sequence[onnx.ValueInfoProto], opset: int, names: DummyName
) -> tuple[list[OperatorDef], list[OperatorDef]]:
    """A node in Caffe2's operators, whose inputs may be of unknown type.

    Args:
        node: The node.
        infos: What is known of its inputs.
        opset: The version of the operator set that it is of.
        names: What gives blobs in between their names.

    Returns:
        The operators that write what it needs besides its inputs, and those that stand for it.

    Raises:
        UnsupportedOperatorError: Caffe2 can't express it, as far as its inputs are known.
        InvalidModelError: The node is not valid.
    """
    known = {info.name: info for info in infos}
    read = [name for name in dict.fromkeys(node.input) if name]
    inputs = [known.get(name, onnx.ValueInfoProto(name=name)) for name in read]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = onnx.GraphProto(name="node", node=[node], input=inputs, output=outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    target, _ = write_graph(load(model), untyped=True)
    first, then = list(init_net_of(target.parameters).op), list(target.net.op)
    renamed = {name: name for name in (*read, *node.output)}
    for op in (*first, *then):
        for blobs in (op.input, op.output):
            for blob in blobs:
                if blob not in renamed:
                    renamed[blob] = _free(names, renamed)
            blobs[:] = [renamed[blob] for blob in blobs]
    return first, then


def _free(names: DummyName, taken: Collection[str]) -> str:
    """The next name that the node doesn't have itself."""
    while (name := names.new_dummy_name()) in taken:
        continue
    return name
