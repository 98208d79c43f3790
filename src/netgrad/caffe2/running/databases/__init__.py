"""Databases: records of keys and values in files, of the kinds ``minidb`` and ``lmdb``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from netgrad.caffe2.running.databases.interface import Cursor, Database, OpenMode, Transaction
from netgrad.caffe2.running.databases.lmdb import LmdbDatabase
from netgrad.caffe2.running.databases.minidb import MiniDatabase
from netgrad.caffe2.running.errors import RunError

__all__ = ["Cursor", "Database", "OpenMode", "Transaction", "open_database", "records_of", "registered_kinds"]

_KINDS: dict[str, Callable[[Path, OpenMode], Database]] = {
    "minidb": MiniDatabase,
    "MiniDB": MiniDatabase,
    "lmdb": LmdbDatabase,
    "LMDB": LmdbDatabase,
}


def open_database(kind: str, path: str | Path, mode: OpenMode) -> Database:
    """Open a database.

    Args:
        kind: ``minidb`` or ``lmdb``.
        path: Its file; with ``lmdb`` its folder.
        mode: What for. With `OpenMode.new` a ``minidb`` file is replaced, and an ``lmdb`` folder is made.

    Raises:
        RunError: There are no databases of that kind, it isn't there to be read, or is there to be new.
    """
    if kind not in _KINDS:
        raise RunError(f"databases of type '{kind}' can't be read or written; minidb and lmdb can")
    return _KINDS[kind](Path(path), mode)


def records_of(kind: str, path: str | Path) -> Iterator[tuple[str, bytes]]:
    """The records of a database, with their keys as texts.

    Raises:
        RunError: As `open_database`.
    """
    cursor = open_database(kind, path, OpenMode.read).new_cursor()
    while cursor.valid():
        yield cursor.key().decode("utf-8", "surrogateescape"), cursor.value()
        cursor.next()


def registered_kinds() -> list[str]:
    """The names of the kinds of databases that there are."""
    return list(_KINDS)
