"""Gradients of a net, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from netgrad.caffe2.backward import differentiate
from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.definitions import to_definition
from netgrad.caffe2.execute import Program
from netgrad.core import Gradient, GradientSlice, InvalidArgumentError


def gradients(
    net: NetDef,
    blobs: Mapping[str, Any],
    *,
    wrt: Sequence[str],
    of: str,
    cotangent: Any = None,
) -> dict[str, np.ndarray[Any, Any]]:
    """The gradients of one blob of a net by some of the blobs that it reads.

    The backward pass is made of Caffe2's gradient operators, and runs with the net on ONNX Runtime. Values
    that the net overwrites and the backward pass needs are kept.

    Args:
        net: The net.
        blobs: The blobs that it reads.
        wrt: The blobs to differentiate by.
        of: The blob to differentiate, at its last version.
        cotangent: The gradient that it has, of its shape; None for all ones.

    Returns:
        A gradient for each name in ``wrt``, of the shape and type of the blob: zeros where it has no
        influence.

    Raises:
        InvalidArgumentError: A blob isn't there.
        UnsupportedOperatorError: An operator has no gradient, or can't be written in ONNX.
        RuntimeFailureError: ONNX Runtime can't run the net.
    """
    unknown = [name for name in wrt if name not in blobs]
    if unknown:
        raise InvalidArgumentError(f"wrt names blobs that aren't given: {', '.join(unknown)}")
    start = f"{of}_grad"
    operators, result = differentiate(net.op, {of: None if cotangent is None else start}, overwritten="keep")
    given = {blob: np.asarray(array) for blob, array in blobs.items()}
    if cotangent is not None:
        given[start] = np.asarray(cotangent)
    forward = [to_definition(one) for one in result.forward]
    found = {name: _first_version(result, name) for name in wrt}
    wanted = [name for gradient in found.values() for name in _names(gradient)]
    values = Program([*forward, *operators], list(dict.fromkeys(wanted))).run(given)
    values = {**given, **values}
    return {name: _dense(gradient, values, given[name]) for name, gradient in found.items()}


def _first_version(result: Any, name: str) -> Gradient | None:
    """The gradient of the value that a blob has when the net starts."""
    if name not in {blob for op in result.forward for blob in (*op.inputs, *op.outputs)}:
        return None
    found: Gradient | None = result.gradient_of(name, 0)
    return found


def _names(gradient: Gradient | None) -> list[str]:
    if gradient is None:
        return []
    return [gradient.indices, gradient.values] if isinstance(gradient, GradientSlice) else [gradient]


def _dense(
    gradient: Gradient | None, values: Mapping[str, np.ndarray[Any, Any]], primal: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    if gradient is None:
        return np.zeros_like(primal)
    if not isinstance(gradient, GradientSlice):
        return values[gradient]
    total = np.zeros_like(primal)
    rows = values[gradient.values].reshape((-1, *primal.shape[1:]))
    np.add.at(total, values[gradient.indices].reshape(-1), rows)
    return total
