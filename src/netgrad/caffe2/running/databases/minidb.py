"""Databases of the kind ``minidb``: a file of records in the order in which they were written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from netgrad.caffe2.minidb import read_records, write_records
from netgrad.caffe2.running.databases.interface import Cursor, Database, OpenMode, Record, as_bytes
from netgrad.caffe2.running.errors import RunError


class _MiniCursor(Cursor):
    def __init__(self, records: list[Record]) -> None:
        self._records = records
        self._at = 0

    def seek_to_first(self) -> None:
        self._at = 0

    def supports_seek(self) -> bool:
        return False

    def seek(self, key: bytes | str) -> None:
        raise RunError("the records of a minidb database are in no order, so that none is found by its key")

    def next(self) -> None:
        self._at += 1

    def valid(self) -> bool:
        return self._at < len(self._records)

    def key(self) -> bytes:
        return self._records[self._at][0]

    def value(self) -> bytes:
        return self._records[self._at][1]


class MiniDatabase(Database):
    """A ``minidb`` file."""

    def __init__(self, path: Path, mode: OpenMode) -> None:
        super().__init__(path, mode)
        if mode is OpenMode.read and not path.is_file():
            raise RunError(f"there is no database {path}")
        if mode is OpenMode.new:
            path.write_bytes(b"")
        elif mode is OpenMode.write:
            path.touch()

    def new_cursor(self) -> Cursor:
        """A cursor at the first record."""
        records = read_records(self.path.read_bytes(), str(self.path))
        return _MiniCursor([(as_bytes(key), value) for key, value in records])

    def append(self, records: Iterable[Record]) -> None:
        """Add records: behind the others."""
        with self.path.open("ab") as file:
            write_records(file, ((key.decode("utf-8", "surrogateescape"), value) for key, value in records))

    def close(self) -> None:
        """Nothing: the file is open only while it is read or written."""
