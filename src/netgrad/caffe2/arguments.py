"""Arguments of operators: Python values to messages and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from google.protobuf.message import Message

from netgrad.caffe2.caffe2_pb2 import Argument, NetDef, OperatorDef

_LISTS = ("floats", "ints", "strings", "nets", "tensors", "qtensors")
_SCALARS = ("f", "i", "s", "n", "t")


def make_argument(key: str, value: Any) -> Argument:
    """The message of one argument.

    A float goes to ``f``; an int or bool to ``i``; text (as UTF-8) and bytes to ``s``; a `NetDef` to ``n``;
    another message to ``s``, serialized; a list of one of these kinds to the repeated field. NumPy scalars
    count as their Python values, arrays as flat lists. An empty list leaves all values unset.

    Raises:
        ValueError: ``value`` is None, of another kind, or a list of several kinds.
    """
    argument = Argument(name=key)
    if isinstance(value, np.ndarray):
        if value.dtype == np.float32:
            argument.floats.extend(value.flat)
            return argument
        value = value.ravel().tolist()
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        argument.f = value
    elif isinstance(value, bool | int):
        argument.i = int(value)
    elif isinstance(value, bytes):
        argument.s = value
    elif isinstance(value, str):
        argument.s = value.encode()
    elif isinstance(value, NetDef):
        argument.n.CopyFrom(value)
    elif isinstance(value, Message):
        argument.s = value.SerializeToString()
    elif isinstance(value, Iterable):
        _set_list(argument, [item.item() if isinstance(item, np.generic) else item for item in value])
    else:
        raise ValueError(f"argument '{key}' can't hold {value!r} ({type(value).__name__})")
    return argument


def _set_list(argument: Argument, items: list[Any]) -> None:
    if all(isinstance(item, float) for item in items):
        argument.floats.extend(items)
    elif all(isinstance(item, bool | int) for item in items):
        argument.ints.extend(int(item) for item in items)
    elif all(isinstance(item, str | bytes) for item in items):
        argument.strings.extend(item.encode() if isinstance(item, str) else item for item in items)
    elif all(isinstance(item, NetDef) for item in items):
        argument.nets.extend(items)
    elif all(isinstance(item, Message) for item in items):
        argument.strings.extend(item.SerializeToString() for item in items)
    else:
        raise ValueError(f"argument '{argument.name}' can't hold a list of several kinds: {items!r}")


def value_of(argument: Argument) -> Any:
    """The Python value of an argument: a scalar, bytes, a message, or a tuple; ``()`` if nothing is set."""
    for field in _SCALARS:
        if argument.HasField(field):
            return getattr(argument, field)
    for field in _LISTS:
        if len(getattr(argument, field)):
            return tuple(getattr(argument, field))
    return ()


class Arguments(Mapping[str, Any]):
    """What an operator says besides its type, blobs, device and name, as the attributes of a core operator.

    As a mapping it gives the values of the arguments by name. All the rest (engine, control inputs, debug
    text, fields of later schemas) is in ``message``, so that nothing is lost on the way through the core.

    Attributes:
        message: An `OperatorDef` without type, blobs, device and name. Not to be changed.
    """

    __slots__ = ("_values", "message")

    def __init__(self, message: OperatorDef) -> None:
        self.message = message
        self._values: dict[str, Any] | None = None

    @staticmethod
    def of(definition: OperatorDef) -> Arguments:
        """Those of an operator definition, which is copied."""
        message = OperatorDef()
        message.CopyFrom(definition)
        for field in ("input", "output", "type", "name", "device_option"):
            message.ClearField(field)
        return Arguments(message)

    def _by_name(self) -> dict[str, Any]:
        if self._values is None:
            self._values = {argument.name: value_of(argument) for argument in self.message.arg}
        return self._values

    def __getitem__(self, name: str) -> Any:
        return self._by_name()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name())

    def __len__(self) -> int:
        return len(self._by_name())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Arguments):
            return self.message == other.message
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # the message can change

    def __reduce__(self) -> tuple[Any, ...]:
        return _parsed, (self.message.SerializeToString(),)


def _parsed(serialized: bytes) -> Arguments:
    return Arguments(OperatorDef.FromString(serialized))
