"""Rows of data sets as single values, in tensors of such values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from netgrad.caffe2.caffe2_pb2 import BlobProto, TensorProto

Array = np.ndarray[Any, Any]

_KIND = "std::shared_ptr<std::vector<TensorCPU>>"


class PackedRecord:
    """Some rows of a data set in one value: a part of each column.

    Attributes:
        parts: The part of each column; None of a record that was saved, which keeps no content.
    """

    def __init__(self, parts: list[Array] | None) -> None:
        self.parts = parts


def is_packed(value: Any) -> bool:
    """Whether a value is a tensor of records."""
    is_objects = isinstance(value, np.ndarray) and value.dtype == object and value.size > 0
    return is_objects and all(isinstance(one, PackedRecord) for one in value.reshape(-1))


def is_empty(value: Any) -> bool:
    """Whether it is a tensor of records without content."""
    return is_packed(value) and all(one.parts is None for one in value.reshape(-1))


def rows_in_one(rows: Sequence[Any], like: Array) -> Array:
    """Rows as one tensor, with the type of the tensor ``like`` that such rows come from."""
    if not rows:
        return like[:0]
    if like.dtype != object or like.ndim > 1:
        return np.stack(rows).astype(like.dtype)
    found = np.empty(len(rows), object)
    found[:] = rows
    return found


def to_message(value: Array, name: str) -> BlobProto:
    """A tensor of records as a blob of this name, without their content, as Caffe2 saves it."""
    record = BlobProto(name="", type=_KIND, content=b"").SerializeToString()
    tensor = TensorProto(
        dims=value.shape,
        data_type=TensorProto.UNDEFINED,
        string_data=[record] * value.size,
        name=name,
    )
    return BlobProto(name=name, type="Tensor", tensor=tensor)


def from_serialized(serialized: bytes) -> Array | None:
    """The tensor of records, without content, that a blob was saved from; None of any other blob."""
    try:
        blob = BlobProto.FromString(serialized)
    except DecodeError:
        return None
    texts = blob.tensor.string_data
    if blob.tensor.data_type != TensorProto.UNDEFINED or not texts:
        return None
    if any(BlobProto.FromString(text).type != _KIND for text in texts):
        return None
    found = np.empty(len(texts), object)
    found[:] = [PackedRecord(None) for _ in texts]
    return found.reshape(tuple(blob.tensor.dims))
