"""Databases in all kinds: by themselves, and as operators read and write them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.caffe2_pb2 import BlobSerializationOptions, SerializationOptions, TensorProtos
from netgrad.caffe2.python import core, utils, workspace

KINDS = ["minidb", "lmdb"]
Mode = workspace.C.Mode


def _run(type_: str, inputs: Any, outputs: Any, **arguments: Any) -> None:
    workspace.RunOperatorOnce(core.CreateOperator(type_, inputs, outputs, **arguments))


def _content(kind: str, path: Path) -> list[tuple[bytes, bytes]]:
    cursor = workspace.C.create_db(kind, str(path), Mode.read).new_cursor()
    found = []
    while cursor.valid():
        found.append((cursor.key(), cursor.value()))
        cursor.next()
    return found


def _written(kind: str, path: Path, records: dict[Any, Any], mode: Any = Mode.write) -> None:
    database = workspace.C.create_db(kind, str(path), mode)
    transaction = workspace.C.create_transaction(database)
    for key, value in records.items():
        transaction.put(key, value)
    transaction.commit()
    database.close()


@pytest.mark.parametrize("kind", KINDS)
def test_records(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "data"
    _written(kind, path, {b"a": b"1", "b": "2"}, Mode.new)
    _written(kind, path, {b"c": b"\xff\x00"})
    assert _content(kind, path) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"\xff\x00")]
    database = workspace.C.create_db(kind, str(path), Mode.read)
    with pytest.raises(RuntimeError, match="reading only"):
        database.new_transaction()
    cursor = database.new_cursor()
    cursor.next()
    cursor.seek_to_first()
    assert cursor.key() == b"a"


@pytest.mark.parametrize("kind", KINDS)
def test_a_transaction_that_is_dropped_is_written(kind: str, tmp_path: Path) -> None:
    database = workspace.C.create_db(kind, str(tmp_path / "data"), Mode.write)
    transaction = database.new_transaction()
    transaction.put("key", "value")
    del transaction
    assert _content(kind, tmp_path / "data") == [(b"key", b"value")]


def test_records_by_key(tmp_path: Path) -> None:
    _written("lmdb", tmp_path / "data", {"b": "1", "d": "2"})
    cursor = workspace.C.create_db("lmdb", str(tmp_path / "data"), Mode.read).new_cursor()
    assert cursor.supports_seek()
    cursor.seek("c")
    assert cursor.key() == b"d"
    cursor.seek("e")
    assert not cursor.valid()
    _written("minidb", tmp_path / "other", {"b": "1"})
    cursor = workspace.C.create_db("minidb", str(tmp_path / "other"), Mode.read).new_cursor()
    assert not cursor.supports_seek()
    with pytest.raises(RuntimeError, match="in no order"):
        cursor.seek("b")


def test_a_new_database(tmp_path: Path) -> None:
    """A file is replaced, as the original does; a folder is not."""
    for kind in KINDS:
        _written(kind, tmp_path / kind, {"a": "1"})
    _written("minidb", tmp_path / "minidb", {"b": "2"}, Mode.new)
    assert _content("minidb", tmp_path / "minidb") == [(b"b", b"2")]
    with pytest.raises(RuntimeError, match="exists already"):
        workspace.C.create_db("lmdb", str(tmp_path / "lmdb"), Mode.new)


@pytest.mark.parametrize("kind", KINDS)
def test_there_is_no_database(kind: str, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="there is no database"):
        workspace.C.create_db(kind, str(tmp_path / "none"), Mode.read)
    assert kind in workspace.C.registered_dbs()


def test_other_kinds_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"databases of type 'LevelDB'.*minidb and lmdb"):
        workspace.C.create_db("LevelDB", "data", Mode.read)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(RuntimeError, match=r"pip install 'netgrad\[lmdb\]'"):
        workspace.C.create_db("lmdb", str(tmp_path / "data"), Mode.write)


def test_writing_while_reading_is_refused(tmp_path: Path) -> None:
    _written("lmdb", tmp_path / "data", {"a": "1"})
    cursor = workspace.C.create_db("lmdb", str(tmp_path / "data"), Mode.read).new_cursor()
    with pytest.raises(RuntimeError, match="can't be written while it is read"):
        workspace.C.create_db("lmdb", str(tmp_path / "data"), Mode.write)
    del cursor
    _written("lmdb", tmp_path / "data", {"b": "2"})
    assert len(_content("lmdb", tmp_path / "data")) == 2


def _examples(kind: str, path: Path, count: int) -> None:
    records = {}
    for at in range(count):
        tensors = [np.full((2, 2), at, np.float32), np.array(at, np.int32)]
        protos = TensorProtos(protos=[utils.NumpyArrayToCaffe2Tensor(one) for one in tensors])
        records[f"{at:05}"] = protos.SerializeToString()
    _written(kind, path, records)


@pytest.mark.parametrize("kind", KINDS)
def test_batches(kind: str, tmp_path: Path) -> None:
    """Readers go round, each over its shard, and several read one database."""
    _examples(kind, tmp_path / "data", 5)
    db = {"db": str(tmp_path / "data"), "db_type": kind}
    _run("CreateDB", [], "all", **db)
    _run("CreateDB", [], "odd", **db, num_shards=2, shard_id=1)
    for reader, expected in [("all", [0, 1, 2, 3]), ("all", [4, 0, 1, 2]), ("odd", [1, 3, 1, 3])]:
        _run("TensorProtosDBInput", reader, ["x", "label"], batch_size=4)
        np.testing.assert_array_equal(workspace.FetchBlob("label"), expected)
        np.testing.assert_array_equal(workspace.FetchBlob("x")[:, 0, 1], expected)
    with pytest.raises(RuntimeError, match="there is no shard 2 of 2"):
        _run("CreateDB", [], "none", **db, num_shards=2, shard_id=2)
    with pytest.raises(RuntimeError, match="no records for shard 5 of 6"):
        _run("CreateDB", [], "none", **db, num_shards=6, shard_id=5)


def test_databases_are_not_sought_in_the_root_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is saved and loaded is, as in the original; and a checkpoint holds the iteration, too."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "root").mkdir()
    workspace.ResetWorkspace("root")
    _examples("minidb", Path("records"), 3)
    _run("CreateDB", [], "reader", db="records", db_type="minidb")
    _run("TensorProtosDBInput", "reader", ["x", "label"], batch_size=2)
    assert workspace.FetchBlob("label").tolist() == [0, 1]
    workspace.FeedBlob("iter", np.array([4]))
    _run("Checkpoint", ["iter", "x"], [], db="at_%d", db_type="minidb", every=2)
    workspace.ResetWorkspace("root")
    _run("Load", [], [], db="at_4", db_type="minidb", load_all=1)
    assert sorted(workspace.Blobs()) == ["iter", "x"]


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded(kind: str, tmp_path: Path) -> None:
    workspace.ResetWorkspace(str(tmp_path))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    workspace.FeedBlob("x", x)
    workspace.FeedBlob("text", b"some")
    for name in ("first", "second"):
        _run("Save", ["x", "text"], [], db=name, db_type=kind, chunk_size=4)
    workspace.ResetWorkspace(str(tmp_path))
    _run("Load", [], ["x", "text"], db="first", db_type=kind)
    np.testing.assert_array_equal(workspace.FetchBlob("x"), x)
    assert workspace.FetchBlob("text") == b"some"
    _run("CreateDB", [], "reader", db=str(tmp_path / "second"), db_type=kind)
    for name in ("once", "again"):
        _run("Load", ["reader"], [name], source_blob_names=["x"])
        np.testing.assert_array_equal(workspace.FetchBlob(name), x)


def test_films_are_refused(tmp_path: Path) -> None:
    _examples("minidb", tmp_path / "data", 1)
    _run("CreateDB", [], "reader", db=str(tmp_path / "data"), db_type="minidb")
    with pytest.raises(RuntimeError, match=r"VideoInput\(reader\).*decode them before"):
        _run("VideoInput", "reader", ["film", "label"])


@pytest.mark.parametrize(("chunk", "count"), [(0, 1), (4, 250), (-1, 1)])
def test_chunks(chunk: int, count: int, tmp_path: Path) -> None:
    workspace.FeedBlob("x", np.arange(1000))
    _run("Save", "x", [], db=str(tmp_path / "data"), db_type="minidb", absolute_path=1, chunk_size=chunk)
    assert len(_content("minidb", tmp_path / "data")) == count
    _run("Load", [], "y", db=str(tmp_path / "data"), absolute_path=1, source_blob_names=["x"])
    np.testing.assert_array_equal(workspace.FetchBlob("y"), np.arange(1000))


def test_tensors_are_cut_by_default(tmp_path: Path) -> None:
    workspace.FeedBlob("x", np.zeros(1_000_010, np.int8))
    for path, arguments, count in [("some", {}, 2), ("one", {"chunk_size": 0}, 1)]:
        _run("Save", "x", [], db=str(tmp_path / path), db_type="minidb", absolute_path=1, **arguments)
        assert len(_content("minidb", tmp_path / path)) == count


def test_options_of_saved_blobs(tmp_path: Path) -> None:
    options = SerializationOptions(
        options=[
            BlobSerializationOptions(
                blob_name_regex="h.*", chunk_size=10, float_format=BlobSerializationOptions.FLOAT_BFLOAT16
            )
        ]
    )
    x = np.random.default_rng(3).normal(size=25).astype(np.float32)
    workspace.FeedBlob("half", x)
    workspace.FeedBlob("full", x)
    path = str(tmp_path / "data")
    _run("Save", ["half", "full"], [], db=path, db_type="minidb", absolute_path=1, options=options)
    assert len(_content("minidb", tmp_path / "data")) == 4
    _run("Load", [], ["half", "full"], db=path, absolute_path=1)
    np.testing.assert_array_equal(workspace.FetchBlob("full"), x)
    np.testing.assert_allclose(workspace.FetchBlob("half"), x, rtol=2**-8)
    assert not np.array_equal(workspace.FetchBlob("half"), x)


def test_sizes_are_estimated() -> None:
    """The figures are those that the original gives."""
    workspace.ResetWorkspace()
    for name, value in {
        "a": np.zeros(9, np.float32),
        "b": np.zeros(3, np.bool_),
        "d": np.zeros(3),
        "e": np.zeros(0, np.float32),
        "h2": np.zeros((7, 2), np.float16),
        "i": np.zeros(3, np.int32),
        "i16": np.zeros(3, np.int16),
        "u8": np.zeros(3, np.uint8),
        "str": np.array(["a", "bbbbb"], object),
        "text": "x" * 100,
    }.items():
        workspace.FeedBlob(name, value)
    _run("CreateCounter", [], "counter")
    options = SerializationOptions(
        options=[
            BlobSerializationOptions(
                blob_name_regex="a|h2", chunk_size=4, float_format=BlobSerializationOptions.FLOAT_BFLOAT16
            )
        ]
    )
    _run("EstimateAllBlobSizes", [], ["n", "z"], options=options)
    names = [name.decode() for name in workspace.FetchBlob("n")]
    assert dict(zip(names, workspace.FetchBlob("z").tolist(), strict=True)) == {
        "a": 171,
        "b": 54,
        "d": 75,
        "e": 0,
        "h2": 250,
        "i": 63,
        "i16": 62,
        "u8": 58,
        "str": 153,
        "text": 124,
        "counter": 0,
        "n": 51 + 13 * 50,
        "z": 51 + 13 * 8,
    }


def test_names_that_are_saved_and_loaded(tmp_path: Path) -> None:
    workspace.ResetWorkspace(str(tmp_path))
    for at, name in enumerate("ab"):
        workspace.FeedBlob(name, np.array([at]))
    for inputs, arguments, message in [
        (["a", "a"], {}, "saved more than once: a"),
        (["a", "b"], {"blob_name_overrides": ["x", "y"], "strip_prefix": "a"}, "give one"),
        (["a", "b"], {"blob_name_overrides": ["x"]}, "1 names for 2 blobs"),
        (["a", "b"], {"blob_name_overrides": ["x", "x"]}, "saved more than once: x"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            _run("Save", inputs, [], db="wrong", db_type="minidb", **arguments)
    assert not (tmp_path / "wrong").exists()
    _run("Save", ["a", "b"], [], db="one", db_type="minidb", blob_name_overrides=["x", "y"])
    _run("Save", ["a"], [], db="two", db_type="minidb")
    for outputs, arguments, message in [
        (["x", "x"], {"db": "one"}, "loaded more than once: x"),
        (["x", "z"], {"db": "one", "load_all": 1}, "no blobs z"),
        (["z"], {"db": "one"}, "no blobs z"),
        (["u", "v"], {"db": "one", "source_blob_names": ["x"]}, "1 names for 2 outputs"),
        ([], {"dbs": ["one", "one"], "load_all": 1}, "in the databases more than once: x, y"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            _run("Load", [], outputs, db_type="minidb", **arguments)
    _run("Load", [], ["u", "v"], dbs=["one", "two"], db_type="minidb", source_blob_names=["y", "a"])
    assert (workspace.FetchBlob("u"), workspace.FetchBlob("v")) == (1, 0)
    _run("Load", [], ["x"], db="one", db_type="minidb", load_all=1)
    assert (workspace.FetchBlob("x"), workspace.FetchBlob("y")) == (0, 1)
    _run("Load", [], ["x", "z"], db="one", db_type="minidb", allow_incomplete=1)


def test_a_model_saved_again(tmp_path: Path) -> None:
    workspace.ResetWorkspace(str(tmp_path))
    for value in (1, 2):
        workspace.FeedBlob("x", np.array([value], np.float32))
        _run("Save", ["x"], [], db="model", db_type="minidb")
    _run("Load", [], ["y"], db="model", db_type="minidb", source_blob_names=["x"])
    np.testing.assert_array_equal(workspace.FetchBlob("y"), [2])


def test_names_without_a_prefix_and_behind_another(tmp_path: Path) -> None:
    """As the original does: all up to the prefix is taken away, and what is listed are the final names."""
    workspace.ResetWorkspace(str(tmp_path))
    for at, name in enumerate(["gpu_0/x", "gpu_1/x", "x", "all/gpu_0/y"]):
        workspace.FeedBlob(name, np.array([at]))
    _run("Save", ["gpu_0/x", "gpu_1/x", "all/gpu_0/y"], [], db="devices", db_type="minidb")
    _run("Save", ["x", "gpu_0/x"], [], db="twice", db_type="minidb")
    workspace.ResetWorkspace(str(tmp_path))

    def load(db: str, outputs: list[str], **arguments: Any) -> dict[str, int]:
        workspace.ResetWorkspace(str(tmp_path))
        _run("Load", [], outputs, db=db, db_type="minidb", **arguments)
        return {name: int(workspace.FetchBlob(name)[0]) for name in workspace.Blobs()}

    both: dict[str, Any] = {"add_prefix": "m/", "strip_prefix": "gpu_0/"}
    assert load("devices", ["m/x"], load_all=1, **both) == {"m/x": 0, "m/gpu_1/x": 1, "m/y": 3}
    assert load("devices", ["m/y"], **both) == {"m/y": 3}
    assert load("devices", ["o"], add_prefix="m/", source_blob_names=["m/gpu_1/x"]) == {"o": 1}
    assert load("twice", ["x"], strip_prefix="gpu_0/") == {"x": 2}
    for db, outputs, arguments, message in [
        ("twice", [], {"load_all": 1, "strip_prefix": "gpu_0/"}, "loaded more than once: x"),
        ("devices", ["x"], {"add_prefix": "m/"}, "no blobs x .behind 'm/', which is added"),
        ("devices", ["o"], {"strip_prefix": "gpu_0/", "source_blob_names": ["x"]}, "give one"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            load(db, outputs, **arguments)
