"""What an operator costs: floating-point operations, and bytes that it writes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.python.workspace.current import current
from netgrad.caffe2.running.blob import is_tensor, shape_of
from netgrad.caffe2.running.errors import RunError
from netgrad.caffe2.running.shapes import inferred
from netgrad.caffe2.running.workspace import message_of

_BYTES = 4  # of float32
_CONVOLUTIONS = ("Conv", "Conv1D", "Conv2D", "Conv3D")


def GetOperatorCost(operator: Any, blobs: Sequence[Any]) -> tuple[int, int]:
    """The cost of a convolution or an ``FC`` for the shapes of blobs of the current workspace.

    Args:
        operator: The operator, its message or the bytes of that.
        blobs: The blobs that are its inputs.

    Returns:
        The number of floating-point operations (a product and its sum are two), and of bytes that are
        written, in float32.

    Raises:
        RunError: A blob is no tensor, or the operator is of another type.
    """
    op: OperatorDef = message_of(operator, OperatorDef)
    if op.type not in (*_CONVOLUTIONS, "FC"):
        raise RunError(f"the cost of {op.type} is not known: it is of {', '.join(_CONVOLUTIONS)} and FC")
    shapes = {}
    for name, blob in zip(op.input, blobs, strict=True):
        value = current().needed(str(blob)).value
        if not is_tensor(value):
            raise RunError(f"blob {blob} holds no tensor, which {op.type} needs")
        shapes[name] = (ir.DataType.FLOAT, shape_of(value))
    net = NetDef(op=[op])
    found = inferred([net], shapes)[0].get(op.output[0])
    if found is None:
        raise RunError(f"the shape of '{op.output[0]}' can't be told from {shapes}")
    outputs, weights = math.prod(found), shapes[op.input[1]][1]
    terms = math.prod(weights) // weights[0]
    per_output = 2 * terms if op.type != "FC" else 2 * terms + 1  # an FC's bias counts
    return outputs * per_output, outputs * _BYTES
