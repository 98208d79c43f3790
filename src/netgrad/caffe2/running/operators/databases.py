"""Databases: readers over them, and blobs saved to them and loaded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from netgrad.caffe2.blobs import from_records, to_records
from netgrad.caffe2.caffe2_pb2 import SerializationOptions, TensorProto, TensorProtos
from netgrad.caffe2.running.blob import as_array, is_tensor, is_text
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.databases import Cursor, Database, OpenMode, open_database
from netgrad.caffe2.running.errors import RunError
from netgrad.caffe2.running.registry import runs
from netgrad.caffe2.stored import Stored
from netgrad.caffe2.stored_forms import CHUNK, WHOLE, StoredForms
from netgrad.caffe2.tensors import to_array


class RecordReader(ABC):
    """Gives the records of a database one by one."""

    @abstractmethod
    def next(self) -> tuple[str, bytes]:
        """The next record."""

    @abstractmethod
    def all(self) -> Iterator[tuple[str, bytes]]:
        """All records, from the first on."""


class Reader(RecordReader):
    """Goes round and round the records of a database, or of a shard of it.

    Attributes:
        cursor: Where it is in the database.
    """

    def __init__(self, cursor: Cursor, shards: int = 1, shard: int = 0) -> None:
        self.cursor = cursor
        self._shards, self._shard = shards, shard
        self._to_first()

    def _to_first(self) -> None:
        self.cursor.seek_to_first()
        self._skip(self._shard)

    def _skip(self, count: int) -> None:
        for _ in range(count):
            if self.cursor.valid():
                self.cursor.next()

    def next(self) -> tuple[str, bytes]:
        """The next record; after the last one the first again."""
        record = _text(self.cursor.key()), self.cursor.value()
        self._skip(self._shards)
        if not self.cursor.valid():
            self._to_first()
        return record

    def all(self) -> Iterator[tuple[str, bytes]]:
        """All records of the database, from the first on; afterwards it is at its first again."""
        self.cursor.seek_to_first()
        while self.cursor.valid():
            yield _text(self.cursor.key()), self.cursor.value()
            self.cursor.next()
        self._to_first()


def _text(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")


def _name(call: Call) -> str:
    name: str = call.argument("db", "")
    if not name:
        raise call.error("argument 'db', the path of the database, is missing")
    return name


def _path(call: Call) -> Path:
    """The file that the operator saves to or loads from, from the root folder on."""
    return _from_root(call, _name(call))


def _from_root(call: Call, name: str) -> Path:
    return Path(name) if call.argument("absolute_path", 0) else Path(call.workspace.root_folder) / name


def _open(call: Call, path: Path, mode: OpenMode, kind: str | None = None) -> Database:
    try:
        return open_database(kind or call.argument("db_type", "minidb"), path, mode)
    except RunError as error:
        raise call.error(str(error)) from error


def own_reader(call: Call) -> Reader:
    """The reader that an operator without inputs keeps, over the database that its arguments name."""
    if "reader" not in call.memory:
        kind = call.argument("db_type", "leveldb")
        call.memory["reader"] = Reader(_open(call, Path(_name(call)), OpenMode.read, kind).new_cursor())
    found: Reader = call.memory["reader"]
    return found


@runs("CreateDB")
def _create_db(call: Call) -> None:
    """A reader over a shard of the records, of a database that isn't sought in the root folder."""
    path = Path(_name(call))
    shards, shard = call.argument("num_shards", 1), call.argument("shard_id", 0)
    if not 0 <= shard < shards:
        raise call.error(f"there is no shard {shard} of {shards}")
    reader = Reader(_open(call, path, OpenMode.read).new_cursor(), shards, shard)
    if not reader.cursor.valid():
        raise call.error(f"database {path} has no records for shard {shard} of {shards}")
    call.put(0, reader)


@runs("TensorProtosDBInput")
def _tensor_protos_db_input(call: Call) -> None:
    """The next records, a tensor of each place of their messages stacked over the batch."""
    reader = call.value(0)
    if not isinstance(reader, RecordReader):
        raise call.error(f"input '{call.definition.input[0]}' was not written by CreateDB")
    size = call.argument("batch_size", 0)
    rows = [[to_array(proto) for proto in protos_of(call, *reader.next())] for _ in range(size or 1)]
    if any(len(row) != len(call.definition.output) for row in rows):
        raise call.error(
            f"records hold other numbers of tensors than its {len(call.definition.output)} outputs"
        )
    for at, column in enumerate(zip(*rows, strict=True)):
        if not size:
            call.write(at, column[0])
            continue
        if len({element.shape for element in column}) > 1:
            raise call.error(f"the tensors for output '{call.definition.output[at]}' have different shapes")
        call.write(at, np.stack(column))


def protos_of(call: Call, key: str, value: bytes) -> list[TensorProto]:
    """The tensors of a record.

    Raises:
        RunError: There are none.
    """
    message = TensorProtos.FromString(value)
    if not message.protos:
        raise call.error(f"record '{key}' holds no tensors")
    return list(message.protos)


@runs("GetAllBlobNames")
def _get_all_blob_names(call: Call) -> None:
    """The names of the workspace's own blobs, and with ``include_shared`` of those that it sees besides."""
    shared = call.argument("include_shared", 1)
    names = call.workspace.names() if shared else call.workspace.local_names()
    call.write(0, np.array([name.encode() for name in names], object))


@runs("VideoInput")
def _video_input(call: Call) -> None:
    """Refused: netgrad decodes no films."""
    raise call.error(
        "it decodes films, which netgrad doesn't: decode them before, write their tensors to a database, "
        "and read that by TensorProtosDBInput"
    )


@runs("DBExists")
def _db_exists(call: Call) -> None:
    call.write(0, np.bool_(_from_root(call, call.argument("db_name", "")).exists()))


@runs("Save", "Checkpoint", "Snapshot")
def _save(call: Call) -> None:
    """Write blobs to a new database; `Checkpoint` every so many iterations, with their number.

    A ``minidb`` file that is there is replaced.
    """
    names = list(call.definition.input)
    if call.definition.type != "Save":
        every, iteration = call.argument("every", 1), call.scalar(0)
        if every <= 0 or iteration % every:
            return
        pattern: str = call.argument("db", "")
        path = _from_root(call, pattern % iteration if "%" in pattern else pattern)
    else:
        path = _path(call)
    blobs = dict(zip(_saved_names(call, names), (_saved(call, name) for name in names), strict=True))
    chunk = call.argument("chunk_size", -1)  # 0: each tensor in one record, however large
    options = SerializationOptions.FromString(call.argument("options", b"")).options
    forms = StoredForms(WHOLE if chunk == 0 else CHUNK if chunk < 0 else chunk, options)
    records = list(to_records(blobs, forms))
    transaction = _open(call, path, OpenMode.new).new_transaction()
    for key, value in records:
        transaction.put(key, value)
    transaction.commit()


def _saved_names(call: Call, names: list[str]) -> list[str]:
    """The names that blobs have in the database."""
    overrides: list[str] = [one.decode() for one in call.argument("blob_name_overrides", ())]
    prefix: str = call.argument("strip_prefix", "")
    if overrides and prefix:
        raise call.error("blob_name_overrides and strip_prefix both say how blobs are called: give one")
    if overrides and len(overrides) != len(names):
        raise call.error(f"blob_name_overrides has {len(overrides)} names for {len(names)} blobs")
    found = overrides or [_without(prefix, name) for name in names]
    _check_once(call, found, "saved")
    return found


def _check_once(call: Call, names: Iterable[str], what: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise call.error(f"blobs are {what} more than once: {', '.join(twice)}")


def _saved(call: Call, name: str) -> Any:
    value = call.workspace.value(name, call.definition)
    if isinstance(value, bytes | Stored):
        return value
    if is_tensor(value) or is_text(value):
        return as_array(value)
    raise call.error(f"blob '{name}' holds {type(value).__name__}, which can't be saved")


@runs("Load")
def _load(call: Call) -> None:
    """Read the operator's outputs, or with ``load_all`` all blobs, from databases or readers.

    What is read is called as in the database, without all that goes up to ``strip_prefix``, and behind
    ``add_prefix``. Of several blobs that are called the same the first one is read.
    """
    prefix, stripped = call.argument("add_prefix", ""), call.argument("strip_prefix", "")
    found: dict[str, Any] = {}
    for records in _sources(call):
        more = from_records(records)
        _check_once(call, [*found, *more], "in the databases")
        found.update(more)
    outputs = list(call.definition.output)
    sources = [name.decode() for name in call.argument("source_blob_names", ())]
    if sources and len(sources) != len(outputs):
        raise call.error(f"source_blob_names has {len(sources)} names for {len(outputs)} outputs")
    if sources and stripped:
        raise call.error("source_blob_names and strip_prefix both say how blobs are called: give one")
    sources = sources or outputs
    _check_once(call, sources, "loaded")
    named = [(prefix + _without(stripped, name), value) for name, value in found.items()]
    wanted = dict(zip(sources, outputs, strict=True))
    if call.argument("load_all", 0):
        _check_once(call, [name for name, _ in named], "loaded")
        wanted = {name: name for name, _ in named}
    values = dict(reversed(named))
    missing = [name for name in sources if name not in values]
    if missing and not call.argument("allow_incomplete", 0):
        behind = f" (behind '{prefix}', which is added)" if prefix else ""
        raise call.error(f"the database has no blobs {', '.join(missing)}{behind}")
    for source, name in wanted.items():
        if source in values:
            call.workspace.feed_blob(name, values[source])


def _without(prefix: str, name: str) -> str:
    """A name without all that goes up to a prefix, if it has that anywhere."""
    return name.split(prefix, 1)[-1] if prefix else name


def _sources(call: Call) -> Iterable[Iterable[tuple[str, bytes]]]:
    if call.definition.input:
        for at, name in enumerate(call.definition.input):
            reader = call.value(at)
            if not isinstance(reader, RecordReader):
                raise call.error(f"input '{name}' was not written by CreateDB")
            yield reader.all()
        return
    names = [name.decode() for name in call.argument("dbs", ())]
    for path in [_from_root(call, name) for name in names] or [_path(call)]:
        yield Reader(_open(call, path, OpenMode.read).new_cursor()).all()
