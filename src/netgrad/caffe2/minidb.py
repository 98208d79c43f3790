"""The ``minidb`` format: records of keys and values, one after the other, and nothing else."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from netgrad.core import InvalidModelError

_LENGTHS = struct.Struct("<ii")


def read_records(content: bytes, file: str = "") -> Iterator[tuple[str, bytes]]:
    """The records of a database.

    Args:
        content: The bytes of the file.
        file: Its name, for errors.

    Raises:
        InvalidModelError: It is no such file, or cut off.
    """
    at, where = 0, f"{file}: " if file else ""
    while at < len(content):
        if at + _LENGTHS.size > len(content):
            raise InvalidModelError(f"{where}the database is cut off at byte {at}")
        key, value = _LENGTHS.unpack_from(content, at)
        start = at + _LENGTHS.size
        if key <= 0 or value <= 0 or start + key + value > len(content):
            raise InvalidModelError(f"{where}no minidb database, or cut off at byte {at}")
        yield (
            content[start : start + key].decode("utf-8", "surrogateescape"),
            content[start + key : start + key + value],
        )
        at = start + key + value


def write_records(file: BinaryIO, records: Iterable[tuple[str, bytes]]) -> None:
    """Append records to a database."""
    for key, value in records:
        name = key.encode("utf-8", "surrogateescape")
        file.write(_LENGTHS.pack(len(name), len(value)) + name + value)


def is_minidb(content: bytes) -> bool:
    """Whether a file starts like such a database."""
    if len(content) < _LENGTHS.size:
        return False
    key, value = _LENGTHS.unpack_from(content, 0)
    return bool(key > 0 and value > 0 and _LENGTHS.size + key + value <= len(content))
