"""What the translators of layers have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import OperatorDef, TensorProto
from netgrad.caffe2.python import utils


def BaseTranslate(layer: Any, caffe2_type: str) -> OperatorDef:
    """An operator with the inputs and outputs of a layer."""
    return OperatorDef(type=caffe2_type, input=list(layer.bottom), output=list(layer.top))


def AddArgument(op: OperatorDef, key: str, value: Any) -> None:
    """Add an argument to an operator."""
    op.arg.append(utils.MakeArgument(key, value))


def parameter_of(op: OperatorDef, array: Any, suffix: str) -> TensorProto:
    """A parameter of an operator, which reads it."""
    name = op.output[0] + suffix
    op.input.append(name)
    return utils.NumpyArrayToCaffe2Tensor(np.asarray(array, np.float32), name)


def refused(layer: Any, reason: str) -> NotImplementedError:
    """The error that says why a layer isn't translated."""
    return NotImplementedError(f"layer {layer.name!r} of type {layer.type!r} isn't translated: {reason}")


def check_trained(layer: Any, arrays: Sequence[Any], least: int) -> None:
    """Check that a layer has its trained arrays.

    Raises:
        ValueError: There are fewer.
    """
    if len(arrays) < least:
        raise ValueError(
            f"layer {layer.name!r} of type {layer.type!r} has {least} trained arrays or more, and there are "
            f"{len(arrays)}: the trained model has no layer of that name, or another one"
        )
