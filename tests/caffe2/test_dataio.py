"""Readers, writers, data sets, queues, and the tasks that carry records from one to the other."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, dataset, queue_util, schema, workspace
from netgrad.caffe2.python.cached_reader import CachedReader
from netgrad.caffe2.python.dataio import (
    CompositeReader,
    CompositeReaderBuilder,
    CounterReader,
    CountUntil,
    PipedReaderBuilder,
    Reader,
    ReaderBuilder,
    ReaderWithDelay,
    ReaderWithLimit,
    ReaderWithTimeLimit,
    Writer,
)
from netgrad.caffe2.python.dataset import Dataset
from netgrad.caffe2.python.db_file_reader import DBFileReader
from netgrad.caffe2.python.net_builder import ops
from netgrad.caffe2.python.pipeline import NetProcessor, Output, pipe, pipe_and_output, processor_name
from netgrad.caffe2.python.record_queue import RecordQueue
from netgrad.caffe2.python.session import LocalSession
from netgrad.caffe2.python.task import TaskGroup, WorkspaceType, final_output
from netgrad.caffe2.python.text_file_reader import TextFileReader


@pytest.fixture
def ws() -> Any:
    return workspace.C.Workspace()


def _source(ws: Any, size: int = 30, offset: int = 0, name: str = "src") -> Dataset:
    """A data set of integers from the offset on."""
    init = core.Net(f"{name}_init")
    with core.NameScope(name):
        values = schema.Struct(("label", np.arange(offset, offset + size)))
        blobs = schema.NewRecord(init, values)
        schema.FeedRecord(blobs, values, ws)
    return Dataset(blobs, name)


def _target(ws: Any, like: Any, name: str = "dst") -> Dataset:
    init = core.Net(f"{name}_init")
    with core.NameScope(name):
        made = Dataset(like.clone_schema(), name)
        made.init_empty(init)
    ws.run(init)
    return made


def _labels(ws: Any, made: Dataset) -> list[int]:
    return sorted(ws.fetch_blob(str(made.content().label())).tolist())


# ---- data sets ---------------------------------------------------------------------------------------

ROWS = schema.Struct(
    ("key", np.int64), ("more", schema.List(np.float32)), ("vector", schema.Scalar((np.float32, 2)))
)
CONTENT: list[Any] = [[1, 2, 3], [2, 0, 1], [1.5, 2.5, 3.5], [[0, 1], [2, 3], [4, 5]]]


def _filled() -> Dataset:
    """A data set with the content above, written by its writer."""
    made, net = Dataset(ROWS, "filled"), core.Net("fill")
    made.init_empty(net)
    given = schema.from_blob_list(ROWS, CONTENT)
    record = schema.NewRecord(net, given)
    schema.FeedRecord(record, given)
    made.writer(net).write_record(net, record)
    workspace.RunNetOnce(net)
    return made


def _lists(record: Any) -> list[Any]:
    return [array.tolist() for array in schema.FetchRecord(record).field_blobs()]


def test_a_data_set_is_written_and_read() -> None:
    made = _filled()
    assert made.field_names() == ["key", "more:lengths", "more:values", "vector"]
    assert _lists(made.content()) == CONTENT
    init, read = core.Net("init"), core.Net("read")
    reader = made.reader(init, batch_size=2)
    should_stop, batch = reader.read_record(read)
    assert batch.field_names() == made.field_names()
    workspace.RunNetOnce(init)
    workspace.CreateNet(read)
    reset = core.Net("reset")
    reader.reset(reset)
    for _ in range(2):
        workspace.RunNet(read)
        assert _lists(batch) == [[1, 2], [2, 0], [1.5, 2.5], [[0, 1], [2, 3]]]
        assert not workspace.FetchBlob(should_stop)
        workspace.RunNet(read)
        assert _lists(batch) == [[3], [1], [3.5], [[4, 5]]]
        workspace.RunNet(read)
        assert _lists(batch) == [[]] * 4
        assert workspace.FetchBlob(should_stop)
        workspace.RunNetOnce(reset)


def test_a_data_set_in_another_order() -> None:
    made = _filled()
    init, read = core.Net("init"), core.Net("read")
    reader = made.random_reader(init, dataset.Const(init, [2, 0, 1], name="order"))
    reader.computeoffset(init)
    should_stop, batch = reader.read_record(read)
    workspace.RunNetOnce(init)
    keys = []
    for _ in range(3):
        workspace.RunNetOnce(read)
        keys += schema.FetchRecord(batch).key().tolist()
    assert keys == [3, 1, 2]
    workspace.RunNetOnce(read)
    assert workspace.FetchBlob(should_stop)

    init, read = core.Net("init"), core.Net("read")
    reader = made.random_reader(init, loop_over=True)
    with pytest.raises(AssertionError, match="sort_and_shuffle not called"):
        reader.read(read)
    reader.sort_and_shuffle(init, "more:lengths", 1, 2)
    with pytest.raises(AssertionError, match="none of the fields"):
        reader.sort_and_shuffle(init, "nothing")
    reader.computeoffset(init)
    should_stop, batch = reader.read_record(read)
    workspace.RunNetOnce(init)
    keys = []
    for _ in range(6):
        workspace.RunNetOnce(read)
        keys += schema.FetchRecord(batch).key().tolist()
        assert not workspace.FetchBlob(should_stop)
    assert keys == [3, 2, 1] * 2  # the shortest two lists mixed, the longest last


def test_a_data_set_is_trimmed_and_copied_by_a_plan() -> None:
    made, other = _filled(), Dataset(ROWS, "other")
    reset, process = core.Net("reset"), core.Net("process")
    made.trim(reset, multiple_of=2)
    other.init_empty(reset)
    reader, writer = made.reader(reset), other.writer(reset)
    step, batch = reader.execution_step()
    process.Scale(batch.more.items(), batch.more.items(), scale=2.0)
    writer.write_record(process, batch)
    plan = core.Plan("plan")
    plan.AddStep(core.execution_step("reset", reset))
    plan.AddStep(step.AddNet(process))
    workspace.RunPlan(plan)
    # the batch behind the end has no rows, and the step stops before it is written
    assert _lists(other.content()) == [[1, 2], [2, 0], [3, 5], [[0, 1], [2, 3]]]


def test_a_data_set_that_is_not_there() -> None:
    made = Dataset(["a", "b"])
    with pytest.raises(AssertionError, match="Dataset not initialized"):
        made.reader()
    with pytest.raises(AssertionError, match="a Struct or a list of names"):
        Dataset("a")  # type: ignore[arg-type]
    filled = _filled()
    with pytest.raises(AssertionError, match="setup not called"):
        filled.reader().read(core.Net("read"))
    with pytest.raises(AssertionError, match="setup not called"):
        filled.writer().write(core.Net("write"), [])
    with pytest.raises(AssertionError, match="Expected 4 fields, got 1"):
        filled.writer(core.Net("init")).write(core.Net("write"), ["a"])


def test_a_data_set_of_a_table() -> None:
    class Column(list[Any]):
        def to_numpy(self) -> Any:
            return np.array(self)

    class Table:
        """What is used of a table of pandas."""

        columns = ("a", "b")

        class iloc:  # noqa: N801  its name there
            def __class_getitem__(cls, at: Any) -> Column:
                return Column([[1, 2], [1.5, 2.5]][at[1]])

    made = Dataset(["a", "b"])
    made.init_from_dataframe(core.Net("net"), Table())
    assert _lists(made.content()) == [[1, 2], [1.5, 2.5]]


# ---- readers -----------------------------------------------------------------------------------------


def test_what_a_class_has_to_have() -> None:
    reader, net = Reader(), core.Net("net")
    for call in (lambda: reader.read(net), lambda: reader.reset(net), lambda: Writer().write(net, [])):
        with pytest.raises(NotImplementedError, match=r"has no|can't be reset"):
            call()
    with pytest.raises(AssertionError, match="Schema not provided"):
        reader.schema()
    with pytest.raises(AssertionError, match="a schema is a Field"):
        Reader(["a"])  # type: ignore[arg-type]


def test_counting(ws: Any) -> None:
    found: list[int] = []
    with TaskGroup() as group:
        pipe(CountUntil(5), processor=_collects(found, "iter"))
    LocalSession(ws).run(group)
    assert found == [0, 1, 2, 3, 4]
    assert CounterReader().schema().field_names() == ["iter"]


def _collects(found: list[Any], field: str) -> Any:
    """A processor that notes the values of a field, and gives no record."""

    def process(record: Any) -> None:
        ops.net().Python(lambda inputs, outputs: found.extend(inputs[0].data.reshape(-1).tolist()))(
            [record[field]()], []
        )

    return process


@pytest.mark.parametrize(
    ("limit", "count", "finished"), [(None, 30, True), (0, 0, False), (10, 10, False), (40, 30, True)]
)
@pytest.mark.parametrize("threads", [1, 4])
def test_a_limit(ws: Any, limit: int | None, count: int, finished: bool, threads: int) -> None:
    source = _source(ws)
    target = _target(ws, source.content())
    with TaskGroup(workspace_type=WorkspaceType.GLOBAL) as group:
        reader = ReaderWithLimit(source.reader(), num_iter=limit)
        pipe(reader, target.writer(), num_runtime_threads=threads)
    LocalSession(ws).run(group)
    assert _labels(ws, target) == list(range(count))
    assert ws.fetch_blob(str(reader.data_finished())) == finished


def test_a_limit_of_time(ws: Any) -> None:
    """The waits of the threads go side by side."""
    source = _source(ws)
    target = _target(ws, source.content())
    start = time.monotonic()
    with TaskGroup(workspace_type=WorkspaceType.GLOBAL) as group:
        reader = ReaderWithTimeLimit(ReaderWithDelay(source.reader(), 0.2), duration=0.5)
        pipe(reader, target.writer(), num_runtime_threads=3)
    LocalSession(ws).run(group)
    assert time.monotonic() - start >= 0.5
    found = _labels(ws, target)
    assert len(found) <= 9  # three threads, three waits that begin within the time
    assert found == list(range(len(found)))
    assert not ws.fetch_blob(str(reader.data_finished()))

    target = _target(ws, source.content(), "all")
    with TaskGroup(workspace_type=WorkspaceType.GLOBAL) as group:
        unlimited = ReaderWithTimeLimit(source.reader(), duration=0)
        pipe(unlimited, target.writer())
    LocalSession(ws).run(group)
    assert _labels(ws, target) == list(range(30))
    assert ws.fetch_blob(str(unlimited.data_finished()))


def test_several_readers_as_one(ws: Any) -> None:
    """They stop with the shortest one."""
    sizes, names = [20, 12, 25], ["a", "b", "c"]
    sources = [_source(ws, size, 100 * at, names[at]) for at, size in enumerate(sizes)]
    fields = [(name, one.content().clone_schema()) for name, one in zip(names, sources, strict=True)]
    target = _target(ws, schema.Struct(*fields))
    with TaskGroup() as group:
        pipe(
            CompositeReader(names, [one.reader() for one in sources]), target.writer(), num_runtime_threads=3
        )
    LocalSession(ws).run(group)
    for at, name in enumerate(names):
        found = sorted(ws.fetch_blob(str(target.content()[name].label())).tolist())
        assert len(found) == 12
        assert set(found) <= set(range(100 * at, 100 * at + sizes[at]))


class _Builder(ReaderBuilder):
    def __init__(self, name: str, offset: int) -> None:
        self._name, self._offset = name, offset
        self.limiters: list[Any] = []

    def schema(self) -> Any:
        return schema.Struct(("label", schema.Scalar()))

    def setup(self, ws: Any, **kwargs: Any) -> Any:
        self.limiters.append(kwargs.get("limiter"))
        self._source = _source(ws, 10, self._offset, self._name)
        return {self._name: f"{self._name}_finished"}

    def new_reader(self, **kwargs: Any) -> Any:
        return self._source


def test_builders_of_readers(ws: Any) -> None:
    names = ["a", "b"]
    builders = [_Builder(name, 10 * at) for at, name in enumerate(names)]
    builder = CompositeReaderBuilder(names, builders)
    assert builder.setup(ws=ws, limiter="some") == {"a": "a_finished", "b": "b_finished"}
    assert [one.limiters for one in builders] == [[None], ["some"]]
    piped = PipedReaderBuilder(builder, lambda reader: pipe(reader, capacity=3))
    assert piped.schema() == builder.schema()
    target = _target(ws, builder.schema())
    with TaskGroup() as group:
        pipe(piped.new_reader(), target.writer())
    LocalSession(ws).run(group)
    for at, name in enumerate(names):
        found = ws.fetch_blob(str(target.content()[name].label())).tolist()
        assert found == list(range(10 * at, 10 * at + 10))
    with pytest.raises(AssertionError, match="Overlapping keys"):
        CompositeReaderBuilder(["a", "b"], [builders[0], builders[0]]).setup(ws=ws)


# ---- pipes -------------------------------------------------------------------------------------------


def test_records_are_processed_and_joined(ws: Any) -> None:
    """Through two queues, the first of which gives three records at once."""
    source = _source(ws, 17)
    target = _target(ws, source.content())
    init = core.Net("init")
    runs, one = init.Const(0), init.Const(1)
    ws.run(init)

    def doubled(record: Any) -> Any:
        with core.NameScope("doubled"):
            out = schema.NewRecord(ops, record)
        ops.Add([record.label(), record.label()], [out.label()])
        return out

    def counted(record: Any) -> Any:
        ops.Add([runs, one], [runs])
        return record

    with TaskGroup() as group:
        first = pipe(
            source.reader(), output=queue_util.Queue(capacity=11, num_dequeue_records=3), processor=doubled
        )
        assert isinstance(first, queue_util.Queue)
        assert first.num_writers() == 1
        second = pipe(first, processor=counted)
        pipe(second, target.writer())
    LocalSession(ws).run(group)
    assert _labels(ws, target) == list(range(0, 34, 2))
    assert ws.fetch_blob(str(runs)) == 6
    assert (first.num_readers(), second.num_readers()) == (1, 1)


@pytest.mark.parametrize(("copies", "instances"), [(3, 1), (1, 3)])
def test_threads(ws: Any, copies: int, instances: int) -> None:
    source = _source(ws)
    target = _target(ws, source.content())
    threads = {"num_threads": copies, "num_runtime_threads": instances}
    with TaskGroup() as group:
        queue = pipe(source.reader(batch_size=4), capacity=2, **threads)
        pipe(queue, target, **threads)
    LocalSession(ws).run(group)
    assert _labels(ws, target) == list(range(30))
    assert queue.num_writers() == copies


def test_setup_and_outputs_of_a_task(ws: Any) -> None:
    source, totals = _source(ws), [None] * 2

    def process(record: Any) -> Any:
        with ops.task_init():
            all_rows, threads = ops.CreateCounter([], ["rows"]), ops.CreateCounter([], ["threads"])
        ops.CountUp(all_rows)
        with ops.task_instance_exit():
            ops.CountUp(threads)
        with ops.task_exit():
            totals[:] = [final_output(ops.RetrieveCount(one)) for one in (all_rows, threads)]
        return record

    with TaskGroup() as group:
        pipe(source.reader(), num_runtime_threads=4, processor=process)
    LocalSession(ws).run(group)
    assert [total.fetch() for total in totals] == [30, 4]  # type: ignore[attr-defined]


def test_what_a_pipe_gives_back(ws: Any) -> None:
    source = _source(ws, 5)
    init = core.Net("init")
    total, other = init.Const(np.array([0])), init.Const(np.array([7]))
    ws.run(init)

    def add(record: Any) -> None:
        ops.Add([total, record.label()], [total])

    with TaskGroup() as group:
        queue, output = pipe_and_output(source.reader(), processor=add, final_outputs=total)
        _, outputs = pipe_and_output(source.reader(), processor=add, final_outputs=[other])
    assert queue is None
    LocalSession(ws).run(group)
    assert output.fetch() == 20
    assert [one.fetch() for one in outputs] == [7]


def test_a_net_as_processor(ws: Any) -> None:
    """Copied for each thread; with a net that runs once, and a blob that stops."""
    source = _source(ws)
    net, init = core.Net("triple"), core.Net("once")
    three, end = init.Const(3), init.Const(21)
    record = net.set_input_record(schema.Struct(("label", np.int64)))
    product = net.Mul([record.label(), three], "product")
    net.set_output_record(schema.Struct(("label", product)))
    stop = net.GT([product, end], "stop")
    processor = NetProcessor(net, net.Squeeze(stop, "stop_scalar", dims=[0]), [init])
    assert processor.schema().field_names() == ["label"]
    target = _target(ws, source.content())
    with TaskGroup() as group:
        pipe(source.reader(), target.writer(), processor=processor)
    LocalSession(ws).run(group)
    assert _labels(ws, target) == list(range(0, 24, 3))
    (names,) = processor.blob_maps()
    assert names["product"].endswith("/product")
    with pytest.raises(AssertionError, match="has been set up already"):
        processor(source.content())


def test_a_processor_that_gives_nets_and_a_stop_blob(ws: Any) -> None:
    source = _source(ws)
    target = _target(ws, source.content())

    def first_ten(record: Any) -> Output:
        net = core.Net("first")
        ten = net.GivenTensorInt64Fill([], 1, shape=[], values=[10])
        stop = net.Squeeze(net.GE([record.label(), ten], 1), 1, dims=[0])
        return Output(net, record, stop)

    def below_five(record: Any) -> Any:
        five = ops.GivenTensorInt64Fill([], 1, shape=[], values=[5])
        ops.stop_if(ops.Squeeze(ops.GE([record.label(), five], 1), 1, dims=[0]))
        return record

    for processor, count in [(first_ten, 10), (below_five, 5)]:
        target = _target(ws, source.content(), f"below_{count}")
        with TaskGroup() as group:
            pipe(source.reader(), target.writer(), processor=processor)
        LocalSession(ws).run(group)
        assert _labels(ws, target) == list(range(count))


def test_a_pipe_without_threads_is_a_reader(ws: Any) -> None:
    found: list[int] = []
    source = _source(ws, 4)
    with TaskGroup() as group:
        reader = pipe(source.reader(), num_threads=0, processor=lambda record: record)
        assert isinstance(reader, Reader)
        pipe(reader, processor=_collects(found, "label"))
    LocalSession(ws).run(group)
    assert found == [0, 1, 2, 3]


def test_wrong_pipes(ws: Any) -> None:
    source = _source(ws)
    with TaskGroup():
        with pytest.raises(ValueError, match="a reader, or something with one, is needed, not str"):
            pipe("reader")
        with pytest.raises(ValueError, match="a writer, or something with one, is needed"):
            pipe(source, "writer")
        with pytest.raises(AssertionError, match="a capacity is that of a queue"):
            pipe(source, source.writer(), capacity=3)
        with pytest.raises(AssertionError, match="Only one of num_threads"):
            pipe(source, num_threads=2, num_runtime_threads=2)


def test_names_of_processors() -> None:
    assert processor_name(test_wrong_pipes) == "test_wrong_pipes"
    assert processor_name(lambda record: record) == __name__
    assert processor_name(CounterReader()) == "CounterReader"


# ---- queues ------------------------------------------------------------------------------------------


def test_queues_of_blobs() -> None:
    init, put, take = core.Net("init"), core.Net("put"), core.Net("take")
    queue = init.CreateBlobsQueue([], 1, capacity=2, num_blobs=2)
    workspace.FeedBlob("x", np.arange(3))
    x = put.AddExternalInput("x")
    queue_util.enqueue(put, queue, [x, x])
    fields, status = queue_util.dequeue(take, queue, 2, field_names=["a", "b"])
    for net in (init, put, take):
        workspace.RunNetOnce(net)
    assert [workspace.FetchBlob(field).tolist() for field in fields] == [[0, 1, 2]] * 2
    assert not workspace.FetchBlob(status)
    workspace.RunPlan(core.Plan(queue_util.close_queue(core.execution_step("put", put), queue)))
    workspace.RunNetOnce(take)
    assert not workspace.FetchBlob(status)
    workspace.RunNetOnce(take)
    assert workspace.FetchBlob(status)
    with pytest.raises(AssertionError, match="does not have a schema"):
        queue_util.Queue(3).setup(init)


def test_a_queue_of_records() -> None:
    """Filled by two steps beside one that reads."""
    source, target, init = Dataset(ROWS, "source"), Dataset(ROWS, "target"), core.Net("init")
    source.init_empty(init)
    target.init_empty(init)
    workspace.RunNetOnce(init)
    schema.FeedRecord(source.content(), schema.from_blob_list(ROWS, CONTENT))
    reader_init, writer_net = core.Net("reader_init"), core.Net("writer")
    queue = RecordQueue(ROWS, capacity=2, num_threads=2)

    def scaled(net: Any, record: Any) -> Any:
        net.Scale(record.vector(), record.vector(), scale=10.0)
        return record

    reader, fill, close, found = queue.build(source.reader(reader_init), scaled)
    assert found is ROWS
    writer = target.writer(reader_init)
    read, batch = reader.execution_step("taken")
    writer.write_record(writer_net, batch)
    read.AddNet(writer_net)
    plan = core.Plan("plan")
    plan.AddStep(core.execution_step("init", reader_init))
    filled = core.execution_step("filled", [fill, close])
    plan.AddStep(core.execution_step("both", [filled, read], concurrent_substeps=True))
    workspace.RunPlan(plan)
    keys, _, _, vectors = _lists(target.content())
    pairs = zip(keys, vectors, strict=True)
    assert sorted(pairs) == [(1, [0, 10]), (2, [20, 30]), (3, [40, 50])]


# ---- files -------------------------------------------------------------------------------------------


def test_a_file_of_text(tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    path.write_text("a\t1\nb\t2\nc\t3\n")
    fields = schema.Struct(("name", str), ("value", np.float32))
    init, read = core.Net("init"), core.Net("read")
    reader = TextFileReader(init, str(path), fields, num_passes=2, batch_size=4)
    should_stop, batch = reader.read_record(read)
    workspace.RunNetOnce(init)
    found = []
    for _ in range(3):
        workspace.RunNetOnce(read)
        found.append(_lists(batch))
        assert workspace.FetchBlob(should_stop) == (not found[-1][0])
    assert found == [[["a", "b", "c", "a"], [1, 2, 3, 1]], [["b", "c"], [2, 3]], [[], []]]
    with pytest.raises(AssertionError, match="scalar fields only, and x is none"):
        TextFileReader(init, str(path), schema.Struct(("x", schema.List(str))))


@pytest.mark.parametrize("kind", ["minidb", "lmdb"])
def test_a_reader_with_a_cache(ws: Any, tmp_path: Path, kind: str) -> None:
    """What is in the file is read, whatever the first reader has by now."""
    path, session = str(tmp_path / "cache.db"), LocalSession(ws)

    def read(reader: Any, name: str) -> list[int]:
        target = _target(ws, reader.schema(), name)
        with TaskGroup() as group:
            pipe(reader, target.writer(), num_runtime_threads=4)
        session.run(group)
        return _labels(ws, target)

    first = CachedReader(_source(ws, 30).reader(), path, kind, batch_size=7)
    session.run(first.build_cache_step())
    assert read(first, "first") == list(range(30))
    second = CachedReader(_source(ws, 60).reader(), path, kind)
    session.run(second.build_cache_step())
    assert read(second, "second") == list(range(30))
    assert read(DBFileReader(path, kind), "third") == list(range(30))
    other = DBFileReader(path, kind, field_names=["label"], name="other")
    assert (other.name, second.name) == ("other", "cache_cached_reader")
    with pytest.raises(AssertionError, match="db_type LevelDB is not available"):
        DBFileReader(path, "LevelDB")
    with pytest.raises(RuntimeError, match="there is no database"):
        DBFileReader(str(tmp_path / "none"), kind)
