"""Blobs that are filled at random, and blobs of eight bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.python.workspace.blobs import FeedBlob, FetchBlob
from netgrad.caffe2.running.errors import RunError
from netgrad.caffe2.running.workspace import message_of

_TYPES: dict[str, Any] = {
    "float": np.float32,
    "double": np.float64,
    "int": np.int32,
    "int64": np.int64,
    "int64_t": np.int64,
    "bool": np.bool_,
}


def FillRandomNetworkInputs(
    net: Any, input_dims: Sequence[Sequence[Sequence[int]]], input_types: Sequence[Sequence[str]]
) -> None:
    """Feed what a net reads with random elements: from 0 to 1, integers from 0 to 9.

    Args:
        net: The net.
        input_dims: For each operator the shapes of its inputs that no operator before it writes.
        input_types: Their types, such as ``float`` or ``int``, likewise.

    Raises:
        RunError: There are more or fewer shapes or types than inputs; a type is unknown.
    """
    definition: NetDef = message_of(net, NetDef)
    if not len(input_dims) == len(input_types) == len(definition.op):
        raise RunError(
            f"{len(input_dims)} lists of shapes and {len(input_types)} of types are given for the "
            f"{len(definition.op)} operators of net {definition.name}"
        )
    written: set[str] = set()
    for op, shapes, types in zip(definition.op, input_dims, input_types, strict=True):
        names = [name for name in op.input if name not in written]
        if not len(shapes) == len(types) == len(names):
            raise RunError(
                f"{len(shapes)} shapes and {len(types)} types are given for the inputs of {op.type}: "
                f"{', '.join(names)}"
            )
        for name, shape, kind in zip(names, shapes, types, strict=True):
            if kind not in _TYPES:
                raise RunError(f"'{kind}' is no type of elements (types: {', '.join(_TYPES)})")
            _fill(name, tuple(shape), np.dtype(_TYPES[kind]))
        written.update(op.output)


def _fill(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    if dtype.kind == "f":
        FeedBlob(name, np.random.random_sample(shape).astype(dtype))
    else:
        FeedBlob(name, np.random.randint(2 if dtype.kind == "b" else 10, size=shape).astype(dtype))


class Int8Tensor(NamedTuple):
    """A tensor of eight bits: its elements stand for ``scale * (data - zero_point)``."""

    data: Any
    scale: float
    zero_point: int


def FetchInt8Blob(name: Any) -> NoReturn:
    """The tensor of eight bits that a blob holds.

    Raises:
        AssertionError: There are no operators that write such tensors, and so no blob holds one.
    """
    FetchBlob(name)  # an unknown blob is an error of its own
    raise AssertionError(f"You are not fetching an Int8Blob {name}. Please use FetchBlob")


FetchInt8BlobRealVal = FetchInt8Blob


def FetchTorch(name: Any) -> NoReturn:
    """A blob as a tensor of another framework.

    Raises:
        NotImplementedError: Always: blobs are fetched as arrays.
    """
    raise NotImplementedError(f"netgrad has no tensors of PyTorch: fetch {name} by FetchBlob")
