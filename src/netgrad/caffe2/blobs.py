"""Blobs in a database: tensors in chunks, texts and other values whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import BlobProto
from netgrad.caffe2.read import parse
from netgrad.caffe2.stored import Stored, stored_value
from netgrad.caffe2.stored_forms import StoredForms
from netgrad.caffe2.tensors import ELEMENTS, Array, elements_of, to_message
from netgrad.core import InvalidModelError

_SEPARATOR = "#%"
_STRING = "std::string"


def to_records(blobs: Mapping[str, Any], forms: StoredForms | None = None) -> Iterator[tuple[str, bytes]]:
    """The records of blobs: arrays, texts or bytes, and what else has a form there (see `Stored`).

    Args:
        blobs: The values by name.
        forms: How tensors are cut and stored; None: all alike.

    Raises:
        InvalidArgumentError: Caffe2 has no tensors of an array's element type.
    """
    forms = forms or StoredForms()
    for name, value in blobs.items():
        if isinstance(value, str | bytes):
            content = value.encode() if isinstance(value, str) else value
            yield name, BlobProto(name=name, type=_STRING, content=content).SerializeToString()
            continue
        if isinstance(value, Stored):
            yield name, value.to_message(name).SerializeToString()
            continue
        array, form = np.asarray(value), forms.of(name)
        for count, begin in enumerate(range(0, max(array.size, 1), form.chunk)):
            end = min(begin + form.chunk, array.size)
            tensor = to_message(array, name, begin, end, bfloat16=form.bfloat16)
            tensor.device_detail.SetInParent()
            blob = BlobProto(name=name, type="Tensor", tensor=tensor)
            yield f"{name}{_SEPARATOR}{count}", blob.SerializeToString()


def from_records(records: Iterable[tuple[str, bytes]], file: str = "") -> dict[str, Array | bytes | Stored]:
    """The blobs of a database: arrays, bytes for texts, and other values. Chunks may come in any order.

    Args:
        records: What was read.
        file: Where from, for errors.

    Raises:
        InvalidModelError: A record is no blob, or a tensor isn't complete.
    """
    where = f"{file}: " if file else ""
    blobs: dict[str, Array | bytes | Stored] = {}
    missing: dict[str, int] = {}
    for key, value in records:
        name = key.split(_SEPARATOR)[0]
        blob = parse(BlobProto, value, f"{where}blob '{name}'")
        stored = stored_value(blob, f"{where}blob '{name}'")
        if stored is not None:
            blobs[name] = stored
            continue
        if not blob.HasField("tensor"):
            blobs[name] = blob.content
            continue
        tensor, elements = blob.tensor, elements_of(blob.tensor)
        if name not in blobs:
            blobs[name] = np.empty(tuple(tensor.dims), ELEMENTS[tensor.data_type])
            missing[name] = int(np.prod(tensor.dims, dtype=np.int64))
        target = blobs[name]
        assert isinstance(target, np.ndarray), "only tensors come in chunks"
        begin = tensor.segment.begin if tensor.HasField("segment") else 0
        if begin + elements.size > target.size:
            raise InvalidModelError(f"{where}a chunk of blob '{name}' lies outside the tensor")
        target.reshape(-1)[begin : begin + elements.size] = elements
        missing[name] -= elements.size
    incomplete = sorted(name for name, count in missing.items() if count)
    if incomplete:
        raise InvalidModelError(f"{where}tensors with missing chunks: {', '.join(incomplete)}")
    return blobs
