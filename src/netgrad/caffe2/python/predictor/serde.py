"""Messages as bytes."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import Message

_Message = TypeVar("_Message", bound=Message)


def serialize_protobuf_struct(protobuf_struct: Message) -> bytes:
    """A message as bytes."""
    return bytes(protobuf_struct.SerializeToString())


def deserialize_protobuf_struct(serialized_protobuf: bytes, struct_type: type[_Message]) -> _Message:
    """The message that bytes hold.

    Raises:
        google.protobuf.message.DecodeError: They hold none of that type.
    """
    return struct_type.FromString(serialized_protobuf)
