"""What an operator costs: floating-point operations, and bytes that it writes and reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import onnx_ir as ir
from onnxruntime import OrtValue

from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef, TensorProto
from netgrad.caffe2.lowering.context import ELEMENT_TYPES
from netgrad.caffe2.python.workspace.current import current
from netgrad.caffe2.running.blob import is_tensor, shape_of
from netgrad.caffe2.running.errors import RunError
from netgrad.caffe2.running.shapes import inferred
from netgrad.caffe2.running.workspace import message_of

_Shape = tuple[int, ...]
_Count = Callable[[Sequence[_Shape], int], int]
"""Operations, by the shapes of the inputs and the number of elements of the first output."""


class OperatorCost(NamedTuple):
    """How many floating-point operations an operator takes, and how many bytes it writes and reads."""

    flops: int
    bytes_written: int
    bytes_read: int


def _of_products(inputs: Sequence[_Shape], outputs: int) -> int:
    """A product and a sum for each element of a weight that belongs to one channel."""
    return outputs * 2 * math.prod(inputs[1][1:])


_CONVOLUTIONS = ("Conv", "Conv1D", "Conv2D", "Conv3D")
_COUNTS: dict[str, _Count] = {
    **dict.fromkeys(_CONVOLUTIONS, _of_products),
    "FC": lambda inputs, outputs: _of_products(inputs, outputs) + outputs,  # its bias counts
    "BatchMatMul": lambda inputs, outputs: outputs * 2 * inputs[0][-1],
    "DotProduct": lambda inputs, outputs: 2 * math.prod(inputs[0]),
    "Sum": lambda inputs, outputs: outputs * (len(inputs) - 1),
    "LeakyRelu": lambda inputs, outputs: outputs * 2,
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), lambda inputs, outputs: outputs),
    **dict.fromkeys(("Concat", "Split", "Relu"), lambda inputs, outputs: 0),
}


def GetOperatorCost(operator: Any, blobs: Sequence[Any]) -> OperatorCost:
    """The cost of an operator for the shapes of blobs of the current workspace.

    Args:
        operator: The operator, its message or the bytes of that.
        blobs: The blobs that are its inputs.

    Returns:
        The number of floating-point operations (a product and its sum are two), and of bytes that are
        written and read.

    Raises:
        RunError: A blob is no tensor, or the operator is of a type whose cost isn't known.
    """
    op: OperatorDef = message_of(operator, OperatorDef)
    if op.type not in _COUNTS:
        raise RunError(f"the cost of {op.type} is not known: it is of {', '.join(_COUNTS)}")
    known = {}
    for name, blob in zip(op.input, blobs, strict=True):
        value = current().needed(str(blob)).value
        if not is_tensor(value):
            raise RunError(f"blob {blob} holds no tensor, which {op.type} needs")
        known[name] = _type_of(value), shape_of(value)
    read = sum(_bytes(*known[name]) for name in op.input)
    if op.type == "Split":  # the parts, whose sizes may be values, are as large as the whole
        return OperatorCost(0, _bytes(*known[op.input[0]]), read)
    shapes, types = inferred([NetDef(op=[op])], known)
    missing = [name for name in op.output if name not in shapes]
    if missing:
        raise RunError(f"the shape of '{missing[0]}' can't be told from {known}")
    count = _COUNTS[op.type]([known[name][1] for name in op.input], math.prod(shapes[op.output[0]]))
    if op.type in _CONVOLUTIONS:  # they are stated to write floats, whatever they read
        types = dict.fromkeys(types, TensorProto.FLOAT)
    written = sum(_bytes(ELEMENT_TYPES[types[name]], shapes[name]) for name in op.output)
    return OperatorCost(count, written, read)


def _type_of(value: Any) -> ir.DataType:
    if isinstance(value, OrtValue):
        return ir.DataType(value.element_type())
    return ir.DataType.from_numpy(value.dtype)


def _bytes(dtype: ir.DataType, shape: Sequence[int]) -> int:
    return math.prod(shape) * int(dtype.itemsize)
