"""Values that are neither tensors nor texts, and that databases can hold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import BlobProto, TensorProtos
from netgrad.caffe2.read import parse
from netgrad.caffe2.tensors import elements_of, to_message
from netgrad.core import InvalidModelError

_kinds: dict[str, type[Stored]] = {}


class Stored(ABC):
    """A value that has a form as a message.

    A class that derives from it says how the names of its types start in messages, ``blob_type``.
    """

    def __init_subclass__(cls, blob_type: str) -> None:
        _kinds[blob_type] = cls

    @abstractmethod
    def to_message(self, name: str) -> BlobProto:
        """The value as a blob of this name."""

    @classmethod
    @abstractmethod
    def of(cls, blob: BlobProto, where: str) -> Stored:
        """The value that a blob holds.

        Raises:
            InvalidModelError: It is something else.
        """


def stored_value(blob: BlobProto, where: str) -> Stored | None:
    """The value that a blob holds, or None if it is a tensor, a text, or of an unknown kind.

    Raises:
        InvalidModelError: It isn't what its type says.
    """
    kind = next((kind for start, kind in _kinds.items() if blob.type.startswith(start)), None)
    return None if kind is None else kind.of(blob, where)


_MAP = "(std::unordered_map<"


@dataclass
class IntegerMap(Stored, blob_type=_MAP):
    """A map of integers to integers, each of int32 or int64.

    Attributes:
        key_dtype: The type of the keys.
        value_dtype: The type of the values.
        entries: The values by key.
    """

    key_dtype: np.dtype[Any]
    value_dtype: np.dtype[Any]
    entries: dict[int, int]

    def to_message(self, name: str) -> BlobProto:
        """The map as a blob of this name."""
        keys = np.array(list(self.entries), self.key_dtype)
        values = np.array(list(self.entries.values()), self.value_dtype)
        content = TensorProtos(protos=[to_message(array, name, 0, array.size) for array in (keys, values)])
        kind = f"{_MAP}{self.key_dtype}_t, {self.value_dtype}_t>)"
        return BlobProto(name=name, type=kind, content=content.SerializeToString())

    @classmethod
    def of(cls, blob: BlobProto, where: str) -> IntegerMap:
        """The map that a blob holds.

        Raises:
            InvalidModelError: It is something else.
        """
        found = parse(TensorProtos, blob.content, where)
        if len(found.protos) != 2:
            raise InvalidModelError(f"{where} is no map: it holds {len(found.protos)} tensors")
        keys, values = (elements_of(tensor) for tensor in found.protos)
        return IntegerMap(keys.dtype, values.dtype, dict(zip(keys.tolist(), values.tolist(), strict=True)))
