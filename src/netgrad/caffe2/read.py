"""Reading messages in text or binary form."""

from __future__ import annotations

import re
from typing import TypeVar

from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.core import InvalidModelError

_M = TypeVar("_M", bound=Message)

_OLDER_NAMES = re.compile(r"\bcuda_gpu_id\s*:")


def parse(kind: type[_M], content: str | bytes, file: str = "") -> _M:
    """A message from its text form or, if that fails, its binary form.

    Args:
        kind: The class of the message.
        content: What was read.
        file: Where from, for the error.

    Raises:
        InvalidModelError: It is neither form of such a message.
    """
    where = f"{file}: " if file else ""
    text = content if isinstance(content, str) else _decoded(content)
    reason = "it is no text"
    if text is not None:
        try:
            return text_format.Parse(_OLDER_NAMES.sub("device_id:", text), kind())
        except text_format.ParseError as error:
            reason = str(error)
    if isinstance(content, bytes):
        try:
            return kind.FromString(content)
        except DecodeError:
            pass
    raise InvalidModelError(f"{where}not a {kind.__name__}, in text or binary form ({reason})")


def _decoded(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def parse_net(content: str | bytes) -> NetDef:
    """A net from its text or binary form.

    Raises:
        InvalidModelError: It is neither.
    """
    return parse(NetDef, content)
