"""Indexes: numbers from 1 on for keys, in the order in which they come; 0 stands for unknown keys."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import BlobProto
from netgrad.caffe2.running.blob import Array
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs
from netgrad.caffe2.stored import Stored
from netgrad.caffe2.tensors import elements_of, to_message
from netgrad.core import InvalidModelError

_TYPE = "std::unique_ptr<caffe2::IndexBase>"
_DTYPES: dict[str, Any] = {
    "IntIndexCreate": np.int32,
    "LongIndexCreate": np.int64,
    "StringIndexCreate": object,
}


class Index(Stored, blob_type=_TYPE):
    """Keys with their numbers.

    Attributes:
        dtype: The type of the keys; texts are objects.
        limit: How many numbers there are at most, 0 included.
        numbers: The number of each key.
        frozen: Whether no key is added any more.
    """

    def __init__(self, dtype: Any, limit: int = sys.maxsize) -> None:
        self.dtype = np.dtype(dtype)
        self.limit = limit
        self.numbers: dict[Any, int] = {}
        self.frozen = False

    def keys(self) -> Array:
        """The keys in the order of their numbers."""
        found = np.empty(len(self.numbers), self.dtype)
        found[:] = list(self.numbers)
        return found

    def number(self, key: Any) -> int:
        """The number of a key, which is added if the index isn't frozen; 0 for one that isn't known then.

        Raises:
            OverflowError: There is no room for it.
        """
        found = self.numbers.get(key)
        if found is None:
            if self.frozen:
                return 0
            found = len(self.numbers) + 1
            if found >= self.limit:
                raise OverflowError(f"the index has room for {self.limit - 1} keys only")
            self.numbers[key] = found
        return found

    def to_message(self, name: str) -> BlobProto:
        """The keys as a blob of this name."""
        keys = self.keys()
        return BlobProto(name=name, type=_TYPE, tensor=to_message(keys, name, 0, keys.size))

    @classmethod
    def of(cls, blob: BlobProto, where: str) -> Index:
        """The index that a blob holds; keys may be added to it.

        Raises:
            InvalidModelError: It is something else.
        """
        if not blob.HasField("tensor"):
            raise InvalidModelError(f"{where} is no index: it holds no keys")
        keys = elements_of(blob.tensor)
        index = cls(keys.dtype)
        for key in keys.tolist():
            index.number(key)
        return index


@runs(*_DTYPES)
def _create(call: Call) -> None:
    limit = call.argument("max_elements", sys.maxsize)
    call.put(0, Index(_DTYPES[call.definition.type], limit))


@runs("IndexGet")
def _get(call: Call) -> None:
    """The numbers of keys; unknown ones are added, or have 0 once the index is frozen."""
    index = _index(call)
    call.write(0, _numbers(call, index, _keys(call, index)))


@runs("IndexLoad")
def _load(call: Call) -> None:
    """Add keys to an index that has none; with ``skip_first_entry`` all but the first."""
    index = _index(call)
    if index.numbers:
        raise call.error(f"the index '{call.definition.input[0]}' has keys already")
    _numbers(call, index, _keys(call, index).reshape(-1)[call.argument("skip_first_entry", 0) :])
    if call.definition.output:
        call.put(0, index)


@runs("IndexStore")
def _store(call: Call) -> None:
    call.write(0, _index(call).keys())


@runs("IndexFreeze")
def _freeze(call: Call) -> None:
    index = _index(call)
    index.frozen = True
    if call.definition.output:
        call.put(0, index)


@runs("IndexSize")
def _size(call: Call) -> None:
    """How many numbers are used, 0 included."""
    call.write(0, np.int64(len(_index(call).numbers) + 1))


def _index(call: Call) -> Index:
    index = call.value(0)
    if not isinstance(index, Index):
        raise call.error(f"input '{call.definition.input[0]}' holds no index")
    return index


def _keys(call: Call, index: Index) -> Array:
    keys = call.array(1)
    if keys.dtype != index.dtype:
        raise call.error(
            f"the index has keys of {index.dtype}, and '{call.definition.input[1]}' is {keys.dtype}"
        )
    return keys


def _numbers(call: Call, index: Index, keys: Array) -> Array:
    try:
        numbers = [index.number(key) for key in keys.reshape(-1).tolist()]
    except OverflowError as error:
        raise call.error(str(error)) from error
    return np.array(numbers, np.int32).reshape(keys.shape)
