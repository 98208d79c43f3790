"""What databases of all kinds do."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

from netgrad.caffe2.running.errors import RunError

Record = tuple[bytes, bytes]


class OpenMode(enum.Enum):
    """What a database is opened for: to read it, to add to it, or to start it anew."""

    read = 0
    write = 1
    new = 2


class Cursor(ABC):
    """Goes over the records of a database, from the first one on."""

    @abstractmethod
    def seek_to_first(self) -> None:
        """Go to the first record."""

    @abstractmethod
    def supports_seek(self) -> bool:
        """Whether it finds records by key."""

    @abstractmethod
    def seek(self, key: bytes | str) -> None:
        """Go to the first record whose key is not before this one.

        Raises:
            RunError: Databases of this kind are not ordered by key.
        """

    @abstractmethod
    def next(self) -> None:
        """Go to the next record."""

    @abstractmethod
    def valid(self) -> bool:
        """Whether it is at a record."""

    @abstractmethod
    def key(self) -> bytes:
        """The key of the record."""

    @abstractmethod
    def value(self) -> bytes:
        """The content of the record."""


class Transaction:
    """Records on their way into a database: written by `commit`, or when it is deleted."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._records: list[Record] = []

    def put(self, key: bytes | str, value: bytes | str) -> None:
        """Add a record."""
        self._records.append((as_bytes(key), as_bytes(value)))

    def commit(self) -> None:
        """Write what was added."""
        records, self._records = self._records, []
        self._database.append(records)

    def __del__(self) -> None:
        if self._records:
            self.commit()


class Database(ABC):
    """A database that is open.

    Attributes:
        path: Where it is.
        mode: What it is open for.
    """

    def __init__(self, path: Path, mode: OpenMode) -> None:
        self.path = path
        self.mode = mode

    def new_transaction(self) -> Transaction:
        """A transaction.

        Raises:
            RunError: The database is open for reading.
        """
        if self.mode is OpenMode.read:
            raise RunError(f"database {self.path} is open for reading only")
        return Transaction(self)

    @abstractmethod
    def new_cursor(self) -> Cursor:
        """A cursor at the first record."""

    @abstractmethod
    def append(self, records: Iterable[Record]) -> None:
        """Add records, all or none."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the file."""


def as_bytes(text: bytes | str) -> bytes:
    """A key or content as it is written."""
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
