"""Operators on data sets in columns, tensors that grow, maps, rebatching queues and files of text."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.caffe2_pb2 import TensorProtos
from netgrad.caffe2.python import core, utils, workspace


def _run(type_: str, inputs: Any, outputs: Any, **arguments: Any) -> None:
    workspace.RunOperatorOnce(core.CreateOperator(type_, inputs, outputs, **arguments))


def _fetch(names: list[str]) -> list[list[Any]]:
    return [workspace.FetchBlob(name).tolist() for name in names]


# Three rows: lists of keys, and for each key a list of values.
FIELDS = [
    "id",
    "map:lengths",
    "map:values:keys",
    "map:values:values:lengths",
    "map:values:values:values",
    "text",
]
COLUMNS: list[Any] = [
    np.array([[1, 1], [2, 2], [3, 3]], np.float32),
    np.array([2, 0, 1], np.int32),
    np.array([11, 12, 31]),
    np.array([1, 2, 3], np.int32),
    np.array([111, 121, 122, 311, 312, 313]),
    np.array([b"a", b"b", b"c"], object),
]
ROWS: list[list[Any]] = [
    [[[1, 1]], [2], [11, 12], [1, 2], [111, 121, 122], [b"a"]],
    [[[2, 2]], [0], [], [], [], [b"b"]],
    [[[3, 3]], [1], [31], [3], [311, 312, 313], [b"c"]],
]
EMPTY: list[list[Any]] = [[]] * 6


@pytest.fixture
def columns() -> list[str]:
    for name, column in zip(FIELDS, COLUMNS, strict=True):
        workspace.FeedBlob(f"data/{name}", column)
    _run("CreateTreeCursor", [], "cursor", fields=FIELDS)
    return [f"data/{name}" for name in FIELDS]


def _joined(*rows: list[Any]) -> list[Any]:
    return [[one for part in parts for one in part] for parts in zip(*rows, strict=True)]


# ---- batches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "enforced", "expected"),
    [
        (1, 0, [*ROWS, EMPTY, EMPTY]),
        (2, 0, [_joined(ROWS[0], ROWS[1]), ROWS[2], EMPTY]),
        (2, 1, [_joined(ROWS[0], ROWS[1]), EMPTY, EMPTY]),
        (5, 0, [_joined(*ROWS), EMPTY]),
    ],
)
def test_batches(columns: list[str], size: int, enforced: int, expected: list[Any]) -> None:
    net = core.Net("read")
    net.ReadNextBatch(["cursor", *columns], FIELDS, batch_size=size, enforce_batch_size=enforced)
    workspace.CreateNet(net)
    for _ in range(2):
        for batch in expected:
            workspace.RunNet(net)
            assert _fetch(FIELDS) == batch
        _run("ResetCursor", "cursor", [])


def test_rows_in_any_order(columns: list[str]) -> None:
    _run("ComputeOffset", ["cursor", *columns], "offsets")
    assert workspace.FetchBlob("offsets").tolist() == [
        [0, 0, 0],
        [1, 2, 3],
        [2, 2, 3],
        [3, 3, 6],
    ]
    workspace.FeedBlob("order", np.array([2, 0, 1]))
    net = core.Net("read")
    net.ReadRandomBatch(["cursor", "order", "offsets", *columns], FIELDS, batch_size=2)
    workspace.CreateNet(net)
    for batch in [_joined(ROWS[2], ROWS[0]), ROWS[1], EMPTY]:
        workspace.RunNet(net)
        assert _fetch(FIELDS) == batch
    _run("ResetCursor", "cursor", [])
    arguments = {"batch_size": 2, "enforce_batch_size": 1, "loop_over": 1}
    for _ in range(3):
        _run("ReadRandomBatch", ["cursor", "order", "offsets", *columns], FIELDS, **arguments)
        assert _fetch(FIELDS) == _joined(ROWS[2], ROWS[0])
    workspace.FeedBlob("order", np.array([3]))
    _run("ResetCursor", "cursor", [])
    with pytest.raises(RuntimeError, match="outside of the 3 rows"):
        _run("ReadRandomBatch", ["cursor", "order", "offsets", *columns], FIELDS)
    with pytest.raises(RuntimeError, match="reset it by ResetCursor"):
        _run("ReadNextBatch", ["cursor", *columns], FIELDS)


def test_an_order_by_a_field(columns: list[str]) -> None:
    _run("SortAndShuffle", ["cursor", *columns], "order", sort_by_field_idx=1)
    assert sorted(workspace.FetchBlob("order")) == [0, 1, 2]
    _run("SortAndShuffle", ["cursor", *columns], "order", sort_by_field_idx=1, batch_size=2)
    assert workspace.FetchBlob("order").tolist() == [2, 1, 0]  # as the original has it
    with pytest.raises(RuntimeError, match="not one value per row"):
        _run("SortAndShuffle", ["cursor", *columns], "order", sort_by_field_idx=2)
    with pytest.raises(RuntimeError, match="no field 6"):
        _run("SortAndShuffle", ["cursor", *columns], "order", sort_by_field_idx=6)


def test_an_order_of_batches() -> None:
    """Sorted, mixed inside of chunks of two batches of three, then the batches mixed; the rest stays last."""
    values = np.random.default_rng(0).permutation(20).astype(np.int32)
    workspace.FeedBlob("value", values)
    _run("CreateTreeCursor", [], "cursor", fields=["value"])
    _run("SortAndShuffle", ["cursor", "value"], "order", sort_by_field_idx=0, batch_size=3, shuffle_size=2)
    found = values[workspace.FetchBlob("order")]
    assert sorted(found) == list(range(20))
    chunks = [set(batch // 6) for batch in found[:18].reshape(6, 3)]
    assert all(len(chunk) == 1 for chunk in chunks)
    assert sorted(chunk.pop() for chunk in chunks) == [0, 0, 1, 1, 2, 2]
    assert sorted(found[18:]) == [18, 19]
    assert found[:18].tolist() != list(range(18))


def test_trimmed(columns: list[str]) -> None:
    _run("TrimDataset", columns, columns, fields=FIELDS, multiple_of=2)
    assert _fetch(columns) == _joined(ROWS[0], ROWS[1])
    with pytest.raises(RuntimeError, match="'multiple_of' is missing"):
        _run("TrimDataset", columns, columns, fields=FIELDS)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("id", np.zeros((2, 2)), "'map:lengths' has 3 rows, and another field of its domain 2"),
        ("map:lengths", np.array([2, 0, 2]), "'map:lengths' say 4 rows, and there are 3"),
        ("map:lengths", np.array([2, 0, 0]), "'map:lengths' say 2 rows, and there are 3"),
        ("map:values:values:values", np.zeros(7), "'map:values:values:lengths' say 6 rows, and there are 7"),
        ("text", np.array(5), "'text' is a single value"),
    ],
)
def test_consistency(columns: list[str], field: str, value: Any, message: str) -> None:
    _run("CheckDatasetConsistency", columns, [], fields=FIELDS)
    workspace.FeedBlob(f"data/{field}", value)
    with pytest.raises(RuntimeError, match=message):
        _run("CheckDatasetConsistency", columns, [], fields=FIELDS)


def test_lengths_beyond_the_end_are_refused(columns: list[str]) -> None:
    workspace.FeedBlob("data/map:lengths", np.array([4, 0, 1], np.int32))
    with pytest.raises(RuntimeError, match="say 4 rows, and there are 3"):
        _run("ReadNextBatch", ["cursor", *columns], FIELDS)
    with pytest.raises(RuntimeError, match="5 columns are there for the 6 fields"):
        _run("ReadNextBatch", ["cursor", *columns[1:]], FIELDS)
    with pytest.raises(RuntimeError, match="not written by CreateTreeCursor"):
        _run("ReadNextBatch", columns, FIELDS)


@pytest.mark.parametrize(("single", "count"), [(0, 3), (1, 1)])
def test_packed(columns: list[str], single: int, count: int) -> None:
    _run("PackRecords", columns, "packed", fields=FIELDS, pack_to_single_shared_ptr=single)
    _run("Size", "packed", "count")
    assert workspace.FetchBlob("count") == count
    _run("UnPackRecords", "packed", FIELDS, fields=FIELDS)
    assert _fetch(FIELDS) == _joined(*ROWS)
    with pytest.raises(RuntimeError, match="have 6 fields, not 1"):
        _run("UnPackRecords", "packed", "one", fields=["one"])


def test_packed_of_no_records(columns: list[str]) -> None:
    _run("TrimDataset", columns, [f"none/{name}" for name in FIELDS], fields=FIELDS, multiple_of=4)
    _run("PackRecords", [f"none/{name}" for name in FIELDS], "packed", fields=FIELDS)
    with pytest.raises(RuntimeError, match="give a tensor of each field"):
        _run("UnPackRecords", "packed", FIELDS, fields=FIELDS)
    _run("UnPackRecords", ["packed", *columns], FIELDS, fields=FIELDS)
    assert _fetch(FIELDS) == EMPTY
    assert workspace.FetchBlob("id").shape == (0, 2)


def test_packed_records_go_through_a_queue(columns: list[str]) -> None:
    _run("PackRecords", columns, "packed", fields=FIELDS)
    _run("CreateBlobsQueue", [], "queue", capacity=4, num_blobs=1)
    for _ in range(2):
        _run("EnqueueBlobs", ["queue", "packed"], ["packed"])
    _run("SafeDequeueBlobs", "queue", ["found", "status"], num_records=2)
    _run("UnPackRecords", "found", FIELDS, fields=FIELDS)
    assert _fetch(FIELDS) == _joined(*ROWS, *ROWS)
    with pytest.raises(RuntimeError, match="no tensors of PackedRecord"):
        _run("Save", "found", [], db="packed", db_type="minidb")


# ---- tensors that grow -------------------------------------------------------------------------------


def test_appended() -> None:
    workspace.FeedBlob("all", np.zeros((0, 1), np.float32))
    workspace.FeedBlob("more", np.array([[1, 2], [3, 4]]))
    net = core.Net("append")
    net.Append(["all", "more"], "all")
    workspace.CreateNet(net)
    held = []
    for count in range(1, 6):
        workspace.RunNet(net)
        held.append(workspace.FetchBlob("all"))
        np.testing.assert_array_equal(held[-1], np.tile([[1, 2], [3, 4]], (count, 1)))
    workspace.FeedBlob("all", held[0])
    workspace.RunNet(net)
    np.testing.assert_array_equal(workspace.FetchBlob("all"), held[1])
    workspace.FeedBlob("more", np.array([[1.0, 2.0]]))
    with pytest.raises(RuntimeError, match=r"float64 of shape \[1, 2\] can't be appended to 'all', int64"):
        workspace.RunNet(net)


def test_appended_while_others_hold_it() -> None:
    """Room behind a tensor is written to, never what others have of it."""
    workspace.FeedBlob("all", np.zeros(1))
    workspace.FeedBlob("more", np.ones(1))
    net, other = core.Net("append"), core.Net("other")
    net.Append(["all", "more"], "all")
    other.Append(["held", "less"], "held")
    workspace.CreateNet(net)
    workspace.RunNet(net, 2)
    _run("CreateBlobsQueue", [], "queue", capacity=1, num_blobs=1)
    _run("EnqueueBlobs", ["queue", "all"], ["all"])
    _run("DequeueBlobs", "queue", "held")
    workspace.FeedBlob("less", -np.ones(1))
    workspace.RunNetOnce(other)
    workspace.RunNet(net)
    assert _fetch(["all", "held"]) == [[0, 1, 1, 1], [0, 1, 1, -1]]


def test_appended_at_once() -> None:
    _run("CreateMutex", [], "mutex")
    for name, value in [("a", [1]), ("b", [1.5]), ("more_a", [2, 3]), ("more_b", [2.5])]:
        workspace.FeedBlob(name, np.array(value))
    _run("AtomicAppend", ["mutex", "a", "b", "more_a", "more_b"], ["a", "b"])
    assert _fetch(["a", "b"]) == [[1, 2, 3], [1.5, 2.5]]
    with pytest.raises(RuntimeError, match="can't be appended"):
        _run("AtomicAppend", ["mutex", "a", "b", "more_a", "more_a"], ["a", "b"])
    assert _fetch(["a", "b"]) == [[1, 2, 3], [1.5, 2.5]]


def test_a_sample_of_tensors() -> None:
    """Each of the tensors that came by is kept with the same probability; of all inputs the same ones."""
    limit, total = 50, 1000
    for name in "ab":
        _run("CreateTensorVector", [], f"{name}_vector")
    net = core.Net("collect")
    net.CollectTensor(["a_vector", "b_vector", "a", "b"], ["a_vector", "b_vector"], num_to_collect=limit)
    net.Proto().op[0].device_option.random_seed = 7
    for name in "ab":
        workspace.FeedBlob(name, np.zeros((1, 1)))
    workspace.CreateNet(net)
    for at in range(total):
        workspace.FeedBlob("a", np.full((1, 1), at))
        workspace.FeedBlob("b", np.full((1, 2), -at))
        workspace.RunNet(net)
        if at == limit - 1:
            _run("ConcatTensorVector", "a_vector", "first")
    assert workspace.FetchBlob("first").reshape(-1).tolist() == list(range(limit))
    for name in "ab":
        _run("ConcatTensorVector", f"{name}_vector", f"{name}_all")
        _run("TensorVectorSize", f"{name}_vector", "size")
        assert workspace.FetchBlob("size").shape == ()
        assert workspace.FetchBlob("size") == limit
    sample = workspace.FetchBlob("a_all").reshape(-1)
    np.testing.assert_array_equal(workspace.FetchBlob("b_all"), np.stack([-sample, -sample], 1))
    assert len(set(sample)) == limit
    assert abs(sample.mean() - total / 2) < 4 * total / np.sqrt(12 * limit)


def test_a_sample_of_rows() -> None:
    """All rows until it is full, then each with the same probability."""
    limit, total = 40, 1200
    workspace.CreateBlob("sample")
    workspace.FeedBlob("seen", np.array([0]))
    _run("CreateMutex", [], "mutex")
    net = core.Net("net")
    net.ReservoirSampling(["sample", "seen", "rows", "mutex"], ["sample", "seen"], num_to_collect=limit)
    net.Proto().op[0].device_option.random_seed = 5
    workspace.FeedBlob("rows", np.zeros((0, 2)))
    workspace.CreateNet(net)
    for start in range(0, total, 30):
        workspace.FeedBlob("rows", np.stack([np.arange(start, start + 30)] * 2, 1))
        workspace.RunNet(net)
        found = workspace.FetchBlob("sample")
        assert workspace.FetchBlob("seen") == start + 30
        assert found.shape == (min(limit, start + 30), 2)
        if not start:
            np.testing.assert_array_equal(found[:, 0], np.arange(30))
    np.testing.assert_array_equal(found[:, 0], found[:, 1])
    assert len(set(found[:, 0])) == limit
    assert abs(found[:, 0].mean() - total / 2) < 4 * total / np.sqrt(12 * limit)
    workspace.FeedBlob("rows", np.zeros((1, 3)))
    with pytest.raises(RuntimeError, match=r"rows of shape \[3\] don't fit"):
        workspace.RunNet(net)


def test_a_sample_of_objects() -> None:
    """An object that is in the sample is left out; one that has left it may come again."""
    workspace.CreateBlob("sample")
    workspace.FeedBlob("seen", np.array([0]))
    workspace.FeedBlob("at", np.zeros(0, np.int64))
    _run("CreateMutex", [], "mutex")
    _run("CreateMap", [], "map", key_dtype=core.DataType.INT64)
    net = core.Net("net")
    outputs = ["sample", "seen", "map", "at"]
    net.ReservoirSampling(
        ["sample", "seen", "rows", "mutex", "objects", "map", "at"], outputs, num_to_collect=3
    )
    workspace.FeedBlob("rows", np.zeros(1))
    workspace.FeedBlob("objects", np.zeros(1, np.int64))
    workspace.CreateNet(net)
    for objects in ([7, 7, 8], [8, 9], [7, 8, 9]):
        workspace.FeedBlob("objects", np.array(objects))
        workspace.FeedBlob("rows", np.array(objects) / 2)
        workspace.RunNet(net)
    assert _fetch(["sample", "at"]) == [[3.5, 4.0, 4.5], [7, 8, 9]]
    assert workspace.FetchBlob("seen") == 3
    workspace.FeedBlob("objects", np.arange(100, 200))
    workspace.FeedBlob("rows", np.arange(100, 200) / 2)
    workspace.RunNet(net)
    (sample, at) = _fetch(["sample", "at"])
    assert at == [2 * row for row in sample]
    _run("MapToKeyValue", "map", ["keys", "places"])
    assert sorted(zip(*_fetch(["places", "keys"]), strict=True)) == list(enumerate(at))
    workspace.FeedBlob("objects", np.arange(2))
    with pytest.raises(RuntimeError, match="2 objects are given for 100 rows"):
        workspace.RunNet(net)


def test_a_window_of_the_last_rows() -> None:
    """As a ring of seven rows, of which every run writes three."""
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    workspace.CreateBlob("window")
    workspace.FeedBlob("next", np.int32(0))
    workspace.FeedBlob("seen", np.array([0]))
    workspace.FeedBlob("rows", rows)
    _run("CreateMutex", [], "mutex")
    net = core.Net("window")
    inputs = ["window", "next", "rows", "mutex", "seen"]
    net.LastNWindowCollector(inputs, ["window", "next", "seen"], num_to_collect=7)
    workspace.CreateNet(net)
    ring: list[int] = []
    for run in range(1, 6):
        workspace.RunNet(net)
        for row in range(3):
            place = (3 * (run - 1) + row) % 7
            ring[place : place + 1] = [row]
        np.testing.assert_array_equal(workspace.FetchBlob("window"), rows[ring])
        assert workspace.FetchBlob("next") == 3 * run % 7
        assert workspace.FetchBlob("seen") == 3 * run
    workspace.FeedBlob("rows", np.arange(20, dtype=np.float32).reshape(10, 2))
    workspace.RunNet(net)
    np.testing.assert_array_equal(workspace.FetchBlob("window"), np.arange(6, 20).reshape(7, 2))
    assert workspace.FetchBlob("next") == 0


def test_the_shape_of_a_window() -> None:
    net = core.Net("window")
    net.LastNWindowCollector(["window", "next", "rows"], ["window", "next"], num_to_collect=7)
    shapes, types = workspace.InferShapesAndTypes([net], {"rows": [3, 2, 4]}, blob_types={"rows": 13})
    assert shapes["window"] == [7, 2, 4]
    assert types["window"] == core.DataType.DOUBLE
    assert "window" not in workspace.InferShapesAndTypes([net], {"other": [3]})[0]


# ---- indexes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("Int", np.arange(30, 22, -1, dtype=np.int32)),
        ("Long", np.arange(30, 22, -1)),
        ("String", np.array([f"key {at}" for at in range(8)])),
    ],
)
def test_indexes_are_saved(tmp_path: Path, kind: str, keys: Any) -> None:
    """As the original's test has it: five keys are numbered, then the index is frozen."""

    def numbers(index: str, *places: int) -> list[int]:
        workspace.FeedBlob("keys", keys[list(places)].reshape(1, -1))
        _run("IndexGet", [index, "keys"], "numbers")
        found = workspace.FetchBlob("numbers")
        assert found.shape == (1, len(places))
        return [int(number) for number in found.reshape(-1)]

    _run(f"{kind}IndexCreate", [], "index", max_elements=6)
    workspace.FeedBlob("first", keys[:3])
    _run("IndexLoad", ["index", "first"], "index")
    assert numbers("index", 0, 3, 0, 4) == [1, 4, 1, 5]
    with pytest.raises(RuntimeError, match="the index holds 5 keys"):
        numbers("index", 5)
    _run("IndexFreeze", "index", "index")
    assert numbers("index", 5, 4, 0, 6) == [0, 5, 1, 0]
    _run("IndexSize", "index", "size")
    assert workspace.FetchBlob("size") == 6
    _run("IndexStore", "index", "stored")
    assert workspace.FetchBlob("stored").tolist() == [
        key.encode() if isinstance(key, str) else key for key in keys[:5].tolist()
    ]
    _run(f"{kind}IndexCreate", [], "other")
    _run("IndexLoad", ["other", "stored"], "other", skip_first_entry=1)
    assert numbers("other", 1, 4, 0) == [1, 4, 5]
    _run("Save", "index", [], db=str(tmp_path / "saved"), db_type="minidb", absolute_path=1)
    workspace.ResetWorkspace()
    _run("Load", [], "index", db=str(tmp_path / "saved"), db_type="minidb", absolute_path=1)
    assert numbers("index", 3, 0, 6) == [4, 1, 6]


# ---- statistics --------------------------------------------------------------------------------------


def _statistics(*registry: str) -> dict[bytes, int]:
    _run("StatRegistryExport", list(registry), ["names", "numbers", "times"])
    names, numbers = workspace.FetchBlob("names"), workspace.FetchBlob("numbers")
    times = workspace.FetchBlob("times")
    assert numbers.dtype == times.dtype == np.int64
    assert all(0 <= time.time() - one < 60 for one in times)
    return dict(zip(names.tolist(), numbers.tolist(), strict=True))


def test_statistics() -> None:
    """As the original's test has it: added up, given out, and added to a registry of one's own."""
    workspace.FeedBlob("keys", np.array(["test/a", "test/b"]))
    workspace.FeedBlob("values", np.array([34, 45]))
    _statistics()
    for _ in range(2):
        _run("StatRegistryUpdate", ["keys", "values"], [])
    found = _statistics()
    assert (found[b"test/a"], found[b"test/b"]) == (68, 90)
    _run("StatRegistryCreate", [], "registry")
    _run("StatRegistryUpdate", ["names", "numbers", "registry"], [])
    assert _statistics("registry") == found
    assert set(_statistics("registry").values()) == {0}
    assert _statistics()[b"test/a"] == 0
    with pytest.raises(RuntimeError, match="'keys' was not written by StatRegistryCreate"):
        _run("StatRegistryUpdate", ["names", "numbers", "keys"], [])
    with pytest.raises(RuntimeError, match="texts and as many whole numbers"):
        _run("StatRegistryUpdate", ["numbers", "numbers"], [])


def test_iterations_are_counted() -> None:
    _run("CreateMutex", [], "mutex")
    workspace.FeedBlob("steps", np.array([5]))
    net = core.Net("net")
    net.AtomicIter(["mutex", "steps"], ["steps"])
    workspace.CreateNet(net)
    _statistics()
    workspace.RunNet(net, 3)
    assert workspace.FetchBlob("steps") == 8
    assert _statistics()[b"atomic_iter/stats/steps/num_iter"] == 3


# ---- maps --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("value_dtype", [np.int32, np.int64])
def test_maps(tmp_path: Path, key_dtype: Any, value_dtype: Any) -> None:
    workspace.FeedBlob("keys", np.array([5, 3, 5, -1], key_dtype))
    workspace.FeedBlob("values", np.array([50, 30, 51, 10], value_dtype))
    _run("KeyValueToMap", ["keys", "values"], "map")
    _run("Save", "map", [], db=str(tmp_path / "maps"), db_type="minidb", absolute_path=1)
    workspace.ResetWorkspace()
    _run("Load", [], [], db=str(tmp_path / "maps"), db_type="minidb", absolute_path=1, load_all=1)
    _run("MapToKeyValue", "map", ["keys", "values"])
    keys, values = workspace.FetchBlob("keys"), workspace.FetchBlob("values")
    assert (keys.dtype, values.dtype) == (key_dtype, value_dtype)
    assert dict(zip(keys.tolist(), values.tolist(), strict=True)) == {5: 50, 3: 30, -1: 10}
    workspace.DeserializeBlob("copy", workspace.SerializeBlob("map"))
    _run("MapToKeyValue", "copy", ["again", "values"])
    assert _fetch(["again"]) == [keys.tolist()]


def test_maps_of_other_types_are_refused() -> None:
    _run("CreateMap", [], "map", key_dtype=core.DataType.INT64)
    _run("MapToKeyValue", "map", ["keys", "values"])
    assert [workspace.FetchBlob(name).dtype for name in ("keys", "values")] == [np.int64, np.int32]
    with pytest.raises(RuntimeError, match="int32 or int64"):
        _run("CreateMap", [], "map", key_dtype=core.DataType.FLOAT)
    workspace.FeedBlob("values", np.ones(2))
    workspace.FeedBlob("keys", np.ones(2, np.int32))
    with pytest.raises(RuntimeError, match="not int32 and float64"):
        _run("KeyValueToMap", ["keys", "values"], "map")


# ---- queues ------------------------------------------------------------------------------------------


def test_elements_are_batched_anew() -> None:
    workspace.FeedBlob("a", np.arange(10))
    workspace.FeedBlob("b", np.arange(20.0).reshape(10, 2))
    _run("CreateRebatchingQueue", [], "queue", capacity=12, num_blobs=2)
    _run("EnqueueRebatchingQueue", ["queue", "a", "b"], [], enqueue_batch=True)
    workspace.FeedBlob("a", np.array(10))
    workspace.FeedBlob("b", np.array([20.0, 21.0]))
    _run("EnqueueRebatchingQueue", ["queue", "a", "b"], [])
    _run("CloseRebatchingQueue", "queue", [])
    for expected in ([0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]):
        _run("DequeueRebatchingQueue", "queue", ["x", "y"], num_elements=4)
        assert _fetch(["x", "y"]) == [expected, [[2 * at, 2 * at + 1] for at in expected]]
    with pytest.raises(RuntimeError, match="closed and empty"):
        _run("DequeueRebatchingQueue", "queue", ["x", "y"], num_elements=4)
    with pytest.raises(RuntimeError, match="the queue is closed"):
        _run("EnqueueRebatchingQueue", ["queue", "a", "b"], [])
    with pytest.raises(RuntimeError, match="elements of 2 tensors, not 1"):
        _run("EnqueueRebatchingQueue", ["queue", "a"], [])


def test_elements_between_steps_that_run_at_once() -> None:
    """A producer of fives and a consumer of threes, through a queue for two."""
    init, put, take = core.Net("init"), core.Net("put"), core.Net("take")
    queue = init.CreateRebatchingQueue([], "queue", capacity=2, num_blobs=1)
    put.EnqueueRebatchingQueue([queue, "rows"], [], enqueue_batch=1)
    found: list[float] = []
    taken = take.DequeueRebatchingQueue([queue], 1, num_elements=3)
    take.Python(lambda inputs, outputs: found.extend(inputs[0].data.tolist()))([taken], [])
    workspace.FeedBlob("rows", np.arange(5))
    plan = core.Plan("plan")
    plan.AddStep(core.execution_step("init", init))
    steps = [core.execution_step("put", put, num_iter=3), core.execution_step("take", take, num_iter=5)]
    plan.AddStep(core.execution_step("both", steps, concurrent_substeps=True))
    workspace.RunPlan(plan)
    assert found == [0, 1, 2, 3, 4] * 3


def test_a_row_of_one_of_several_queues() -> None:
    for at in range(3):
        _run("CreateBlobsQueue", [], f"queue_{at}", capacity=100, num_blobs=2)
        workspace.FeedBlob("x", np.array([at]))
        for _ in range(100):
            _run("EnqueueBlobs", [f"queue_{at}", "x", "x"], ["x", "x"])
    net = core.Net("sample")
    net.WeightedSampleDequeueBlobs(
        ["queue_0", "queue_1", "queue_2"],
        ["y", "which", "status"],
        weights=[0.75, 0.0, 0.25],
        table_idx_blob=1,
    )
    workspace.CreateNet(net)
    counts = [0, 0, 0]
    for _ in range(100):
        workspace.RunNet(net)
        assert workspace.FetchBlob("y") == workspace.FetchBlob("which")
        assert not workspace.FetchBlob("status")
        counts[int(workspace.FetchBlob("which")[0])] += 1
    assert counts[1] == 0
    assert 50 < counts[0] < 95
    for at in range(3):
        _run("CloseBlobsQueue", f"queue_{at}", [])
    workspace.RunNet(net, 700)
    assert workspace.FetchBlob("status")


@pytest.mark.parametrize("as_tensor", [False, True])
def test_a_database_in_a_queue(as_tensor: bool) -> None:
    _run("CreateBlobsQueue", [], "queue", capacity=4)
    _run("CreateBlobsQueueDB", ["queue"], "reader", value_blob_index=0, timeout_secs=0.1)
    for at in range(4):
        tensors = [np.array(f"text {at}"), np.array(at, np.int32)]
        protos = TensorProtos(protos=[utils.NumpyArrayToCaffe2Tensor(tensors[1])])
        protos.protos.add(data_type=core.DataType.STRING, string_data=[b"text %d" % at])
        content = protos.SerializeToString()
        workspace.FeedBlob("record", np.array([content], object) if as_tensor else content)
        _run("SafeEnqueueBlobs", ["queue", "record"], ["record", "status"])
    for expected in ([0, 1], [2, 3]):
        _run("TensorProtosDBInput", "reader", ["label", "text"], batch_size=2)
        assert _fetch(["label", "text"]) == [expected, [b"text %d" % at for at in expected]]
    with pytest.raises(RuntimeError, match="the time is up"):
        _run("TensorProtosDBInput", "reader", ["label", "text"], batch_size=2)
    with pytest.raises(RuntimeError, match="can't be loaded from a queue"):
        _run("Load", "reader", [], load_all=1)


# ---- files of text -----------------------------------------------------------------------------------


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_files_of_text(tmp_path: Path, passes: int, size: int) -> None:
    path = tmp_path / "data.txt"
    path.write_text("a\t1.5\nb c\t-2\n\t3e2\n")
    types = [core.DataType.STRING, core.DataType.FLOAT]
    _run("CreateTextFileReader", [], "reader", filename=str(path), num_passes=passes, field_types=types)
    rows = [(b"a", 1.5), (b"b c", -2.0), (b"", 300.0)] * passes
    for start in range(0, len(rows) + size, size):
        _run("TextFileReaderRead", "reader", ["text", "number"], batch_size=size)
        assert list(zip(*_fetch(["text", "number"]), strict=True)) == rows[start : start + size]
    assert workspace.FetchBlob("number").dtype == np.float32


def test_wrong_files_of_text(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("a\t1\nb\n")
    text = core.DataType.STRING
    _run("CreateTextFileReader", [], "reader", filename=str(path), field_types=[text, text])
    with pytest.raises(RuntimeError, match=r"line 2 of .* has 1 fields, not 2"):
        _run("TextFileReaderRead", "reader", ["x", "y"], batch_size=2)
    _run("CreateTextFileReader", [], "reader", filename=str(path), field_types=[core.DataType.FLOAT, text])
    with pytest.raises(RuntimeError, match="could not convert"):
        _run("TextFileReaderRead", "reader", ["x", "y"])
    with pytest.raises(RuntimeError, match=r"texts \(STRING\) or numbers"):
        _run("CreateTextFileReader", [], "reader", filename=str(path), field_types=[core.DataType.INT32])
    with pytest.raises(RuntimeError, match="there is no file"):
        _run("CreateTextFileReader", [], "reader", filename="nowhere", field_types=[text])
