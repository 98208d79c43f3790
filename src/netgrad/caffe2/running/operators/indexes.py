"""Indexes: dictionaries from keys to numbers, counted from 1; 0 stands for what is not known."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import BlobProto
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs
from netgrad.caffe2.stored import Stored
from netgrad.caffe2.tensors import elements_of, to_message
from netgrad.core import InvalidModelError

_BLOB_TYPE = "std::unique_ptr<caffe2::IndexBase>"
_LIMIT = 2**31 - 1

_TYPES: dict[str, Any] = {
    "StringIndexCreate": object,
    "IntIndexCreate": np.int32,
    "LongIndexCreate": np.int64,
}


class Index(Stored, blob_type=_BLOB_TYPE):
    """Keys of one type, by number.

    Attributes:
        dtype: Their type.
        limit: How many numbers there may be, 0 among them.
        frozen: Whether no keys come in any more.
    """

    def __init__(self, dtype: Any, limit: int) -> None:
        self.dtype = dtype
        self.limit = limit
        self.frozen = False
        self.numbers: dict[Any, int] = {}

    def to_message(self, name: str) -> BlobProto:
        """The keys, in the order of their numbers, as a blob of this name."""
        keys = np.array(list(self.numbers), self.dtype)
        return BlobProto(name=name, type=_BLOB_TYPE, tensor=to_message(keys, name, 0, keys.size))

    @classmethod
    def of(cls, blob: BlobProto, where: str) -> Index:
        """The index of the keys that a blob holds; further ones may come in.

        Raises:
            InvalidModelError: It is something else.
        """
        if not blob.HasField("tensor"):
            raise InvalidModelError(f"{where} is no index: it holds no keys")
        keys = elements_of(blob.tensor)
        index = cls(keys.dtype, _LIMIT)
        index.numbers = {key: number for number, key in enumerate(keys.tolist(), 1)}
        return index


@runs(*_TYPES)
def _create(call: Call) -> None:
    call.put(0, Index(_TYPES[call.definition.type], call.argument("max_elements", _LIMIT)))


def _index(call: Call) -> Index:
    found = call.value(0)
    if not isinstance(found, Index):
        raise call.error(f"input '{call.definition.input[0]}' holds no index")
    return found


def _keys(call: Call, index: Index) -> list[Any]:
    array = call.array(1)
    if array.dtype != index.dtype:
        raise call.error(f"its keys are {array.dtype}, and those of the index {np.dtype(index.dtype)}")
    keys: list[Any] = array.reshape(-1).tolist()
    return [key.encode() if isinstance(key, str) else key for key in keys]


def _add(call: Call, index: Index, key: Any) -> int:
    if len(index.numbers) + 1 >= index.limit:
        raise call.error(f"Dict max size reached: the index holds {index.limit - 1} keys")
    index.numbers[key] = len(index.numbers) + 1
    return index.numbers[key]


@runs("IndexGet")
def _get(call: Call) -> None:
    """The numbers of keys; new keys get one, unless the index is frozen."""
    index = _index(call)
    found = []
    for key in _keys(call, index):
        number = index.numbers.get(key, 0)
        if not number and not index.frozen:
            number = _add(call, index, key)
        found.append(number)
    call.write(0, np.array(found, np.int64).reshape(call.array(1).shape))


@runs("IndexFreeze")
def _freeze(call: Call) -> None:
    _index(call).frozen = True
    call.put(0, _index(call))


@runs("IndexLoad")
def _load(call: Call) -> None:
    """Keys in the place of those that are there; with ``skip_first_entry`` without the first."""
    index = _index(call)
    keys = _keys(call, index)[1 if call.argument("skip_first_entry", 0) else 0 :]
    if len(set(keys)) != len(keys):
        raise call.error("keys repeat")
    index.numbers = {}
    for key in keys:
        _add(call, index, key)
    call.put(0, index)


@runs("IndexStore")
def _store(call: Call) -> None:
    """The keys, by number from 1."""
    index = _index(call)
    keys = np.empty(len(index.numbers), index.dtype)
    keys[:] = list(index.numbers)
    call.write(0, keys)


@runs("IndexSize")
def _size(call: Call) -> None:
    """How many numbers there are, 0 among them."""
    call.write(0, np.array([len(_index(call).numbers) + 1], np.int64))
