"""Nodes and attributes of ONNX in a form that Python handles more easily than their messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import onnx
from onnx import AttributeProto

from netgrad.caffe2.arguments import make_argument
from netgrad.caffe2.caffe2_pb2 import Argument, OperatorDef
from netgrad.core import InvalidArgumentError

_READ: dict[int, Callable[[AttributeProto], Any]] = {
    AttributeProto.FLOAT: lambda one: one.f,
    AttributeProto.INT: lambda one: one.i,
    AttributeProto.STRING: lambda one: one.s,
    AttributeProto.TENSOR: lambda one: one.t,
    AttributeProto.FLOATS: lambda one: list(one.floats),
    AttributeProto.INTS: lambda one: list(one.ints),
    AttributeProto.STRINGS: lambda one: list(one.strings),
}


def force_unicode(s: Any) -> Any:
    """Bytes as text; anything else as it is."""
    return s.decode("utf-8") if isinstance(s, bytes) else s


def convertAttributeProto(onnx_arg: AttributeProto) -> Any:
    """The value of an attribute; a text as bytes, a tensor as its message.

    Raises:
        InvalidArgumentError: It is a graph, or of another kind that no argument of Caffe2 holds.
    """
    if onnx_arg.type not in _READ:
        kind = AttributeProto.AttributeType.Name(onnx_arg.type).lower()
        raise InvalidArgumentError(
            f"the attribute '{onnx_arg.name}' is of the kind {kind}",
            hint="convert the whole model, which converts graphs inside nodes as well",
        )
    return _READ[onnx_arg.type](onnx_arg)


class OnnxAttributes(dict[str, Any]):
    """Attributes by name."""

    @staticmethod
    def from_onnx(args: Iterable[AttributeProto]) -> OnnxAttributes:
        """The attributes of a node; see `convertAttributeProto`."""
        return OnnxAttributes((arg.name, convertAttributeProto(arg)) for arg in args)

    def caffe2(self, kmap: Callable[[str], str] = lambda k: k) -> Iterator[Argument]:
        """Arguments of an operator, under the names that ``kmap`` gives; those that it calls ``""`` not."""
        for name, value in self.items():
            if kmap(name):
                yield make_argument(kmap(name), value)


class OnnxNode:
    """A node.

    Attributes:
        name: Its name.
        op_type: The type of its operator.
        attrs: Its attributes.
        inputs: The names of its inputs.
        outputs: The names of its outputs.
    """

    def __init__(self, node: onnx.NodeProto) -> None:
        self.name = str(node.name)
        self.op_type = str(node.op_type)
        self.attrs = OnnxAttributes.from_onnx(node.attribute)
        self.inputs = list(node.input)
        self.outputs = list(node.output)


class Caffe2Ops(NamedTuple):
    """What stands for a node: operators, those that go before into the init net, and blobs from outside."""

    ops: list[OperatorDef]
    init_ops: list[OperatorDef]
    interface_blobs: list[str]
