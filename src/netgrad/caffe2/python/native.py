"""What the original has in its native module ``C``, as far as it has a Python form here."""

from __future__ import annotations

import enum
from pathlib import Path

from netgrad.caffe2.makers.types import registered_types
from netgrad.caffe2.minidb import read_records, write_records
from netgrad.caffe2.running.blob import Blob, Tensor
from netgrad.caffe2.running.errors import RunError
from netgrad.caffe2.running.workspace import Workspace


class Workspaces:
    """The workspaces of the process.

    Attributes:
        by_name: All of them.
        name: The name of the current one.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, Workspace] = {"default": Workspace()}
        self.name = "default"

    def current(self) -> Workspace:
        """The current one."""
        return self.by_name[self.name]


workspaces = Workspaces()


class _CurrentOf(type):
    @property
    def current(cls) -> Workspace:
        """The current workspace."""
        return workspaces.current()


class _Workspace(Workspace, metaclass=_CurrentOf):
    """A workspace as an object of its own."""


class OpenMode(enum.Enum):
    """What a database is opened for."""

    read = 0
    write = 1
    new = 2


class Transaction:
    """Records on their way into a database."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._records: list[tuple[str, bytes]] = []

    def put(self, key: str, value: bytes | str) -> None:
        """Add a record."""
        self._records.append((key, value.encode() if isinstance(value, str) else value))

    def commit(self) -> None:
        """Write what was added."""
        records, self._records = self._records, []
        with self._path.open("ab") as file:
            write_records(file, records)

    def __del__(self) -> None:
        if self._records:
            self.commit()


class Cursor:
    """Goes over the records of a database."""

    def __init__(self, records: list[tuple[str, bytes]]) -> None:
        self._records = records
        self._at = 0

    def seek_to_first(self) -> None:
        """Go to the first record."""
        self._at = 0

    def supports_seek(self) -> bool:
        """Whether it finds records by key: it doesn't."""
        return False

    def next(self) -> None:
        """Go to the next record."""
        self._at += 1

    def valid(self) -> bool:
        """Whether it is at a record."""
        return self._at < len(self._records)

    def key(self) -> str:
        """The key of the record."""
        return self._records[self._at][0]

    def value(self) -> bytes:
        """The content of the record."""
        return self._records[self._at][1]


class Database:
    """A ``minidb`` file."""

    def __init__(self, path: Path, mode: OpenMode) -> None:
        self._path = path
        if mode is OpenMode.read and not path.is_file():
            raise RunError(f"there is no database {path}")
        if mode is OpenMode.new and path.exists():
            raise RunError(f"database {path} exists already")
        if mode is not OpenMode.read:
            path.write_bytes(b"")
        self._mode = mode

    def new_transaction(self) -> Transaction:
        """A transaction, which is committed by its `commit` or when it is deleted.

        Raises:
            RunError: The database is open for reading.
        """
        if self._mode is OpenMode.read:
            raise RunError(f"database {self._path} is open for reading only")
        return Transaction(self._path)

    def new_cursor(self) -> Cursor:
        """A cursor at the first record."""
        return Cursor(list(read_records(self._path.read_bytes(), str(self._path))))

    def close(self) -> None:
        """Nothing: a file is open only while it is read or written."""


class C:
    """The native module of the original."""

    Workspace = _Workspace
    Blob = Blob
    Tensor = Tensor
    Mode = OpenMode

    @staticmethod
    def create_db(db_type: str, name: str, mode: OpenMode) -> Database:
        """Open a database.

        Raises:
            RunError: It is of another type than ``minidb``, isn't there to be read, or is there to be new.
        """
        if db_type != "minidb":
            raise RunError(f"databases of type '{db_type}' can't be read or written; minidb can")
        return Database(Path(name), mode)

    @staticmethod
    def registered_operators() -> list[str]:
        """The names of all operator types."""
        return sorted(registered_types())
