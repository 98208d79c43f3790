"""Databases of the kind ``lmdb``: folders whose records are ordered by key, by the package of that name."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from netgrad.caffe2.running.databases.interface import Cursor, Database, OpenMode, Record, as_bytes
from netgrad.caffe2.running.errors import RunError

_SIZE = 1 << 40  # the largest that a file may become; it is as large as what is in it


class _Environment:
    """An open folder of LMDB, which a process may open once only."""

    def __init__(self, path: Path, reading: bool) -> None:
        lmdb = _lmdb()
        self.reading = reading
        try:
            self.handle = lmdb.open(str(path), map_size=_SIZE, readonly=reading, lock=not reading)
        except lmdb.Error as error:
            raise RunError(f"database {path} can't be opened: {error}") from error

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self.handle.close()


_environments: weakref.WeakValueDictionary[str, _Environment] = weakref.WeakValueDictionary()


def _environment(path: Path, mode: OpenMode) -> _Environment:
    key, reading = os.path.realpath(path), mode is OpenMode.read
    found = _environments.get(key)
    if found is None:
        found = _environments[key] = _Environment(path, reading)
    elif found.reading and not reading:
        raise RunError(
            f"database {path} can't be written while it is read: drop the blobs and cursors that read it"
        )
    return found


def _lmdb() -> Any:
    try:
        import lmdb
    except ImportError as error:
        raise RunError(
            "databases of type 'lmdb' need the package lmdb, which is not installed: pip install "
            "'netgrad[lmdb]'"
        ) from error
    return lmdb


class _LmdbCursor(Cursor):
    def __init__(self, environment: _Environment) -> None:
        self._environment = environment  # stays open as long as the cursor is there
        self._transaction = environment.handle.begin(buffers=False)
        self._cursor = self._transaction.cursor()
        self._valid = self._cursor.first()

    def seek_to_first(self) -> None:
        self._valid = self._cursor.first()

    def supports_seek(self) -> bool:
        return True

    def seek(self, key: bytes | str) -> None:
        self._valid = self._cursor.set_range(as_bytes(key))

    def next(self) -> None:
        self._valid = self._cursor.next()

    def valid(self) -> bool:
        return bool(self._valid)

    def key(self) -> bytes:
        return bytes(self._cursor.key())

    def value(self) -> bytes:
        return bytes(self._cursor.value())

    def __del__(self) -> None:
        if hasattr(self, "_cursor"):
            self._cursor.close()
            self._transaction.abort()


class LmdbDatabase(Database):
    """An ``lmdb`` folder."""

    def __init__(self, path: Path, mode: OpenMode) -> None:
        super().__init__(path, mode)
        _lmdb()
        if mode is OpenMode.read and not (path / "data.mdb").is_file():
            raise RunError(f"there is no database {path}")
        if mode is OpenMode.new and path.exists():
            raise RunError(f"database {path} exists already")
        self._environment: _Environment | None = _environment(path, mode)

    def _opened(self) -> _Environment:
        if self._environment is None:
            raise RunError(f"database {self.path} is closed")
        return self._environment

    def new_cursor(self) -> Cursor:
        """A cursor at the first record."""
        return _LmdbCursor(self._opened())

    def append(self, records: Iterable[Record]) -> None:
        """Add records: a record of a key that is there is replaced."""
        with self._opened().handle.begin(write=True) as transaction:
            for key, value in records:
                transaction.put(key, value)

    def close(self) -> None:
        """Let go of the folder, as soon as no cursor needs it."""
        self._environment = None
