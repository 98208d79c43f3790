"""Jobs, and checkpoints between their epochs."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, schema, workspace
from netgrad.caffe2.python.checkpoint import (
    CheckpointManager,
    Job,
    JobRunner,
    MultiNodeCheckpointManager,
    UploadTaskGroupBuilder,
    db_name,
    epoch_limiter,
    get_ckpt_filename,
)
from netgrad.caffe2.python.dataio import ReaderWithLimit
from netgrad.caffe2.python.dataset import Dataset
from netgrad.caffe2.python.net_builder import ops
from netgrad.caffe2.python.pipeline import pipe
from netgrad.caffe2.python.session import LocalSession
from netgrad.caffe2.python.task import Cluster, Node, Task, TaskGroup, WorkspaceType

EPOCHS = 4
TOTALS = [100 + sum(range(1, epoch + 1)) for epoch in range(EPOCHS + 1)]
"""The total behind each epoch, which adds its number to it; at the start 100."""


def _adding(job: Job, node: str = "trainer_0") -> Any:
    """Tasks of a job that counts the epochs on a node and adds them up; the total."""
    with Node(node):
        with job.init_group, Task():
            total, epoch, one = ops.Const([100]), ops.Const([0]), ops.Const([1])
        with job.epoch_group, Task():
            ops.Add([epoch, one], [epoch])
            ops.Add([total, epoch], [total])
    return total


def _job(*nodes: str) -> tuple[Job, list[Any]]:
    nodes = nodes or ("trainer_0",)
    with Job() as job:
        totals = [_adding(job, node) for node in nodes]
        with Node(nodes[0]):
            epoch_limiter(job, EPOCHS)
    job.compile(LocalSession)
    return job, totals


def _session() -> LocalSession:
    return LocalSession(workspace.C.Workspace())


def _total(session: LocalSession, total: Any) -> int:
    task = Task(step=core.Net("empty"), outputs=[total])
    session.run(task)
    return int(task.outputs()[0].fetch()[0])


def test_a_job_without_checkpoints() -> None:
    with Cluster():
        job, (total,) = _job()
        session = _session()
        assert JobRunner(job).train(session) == EPOCHS
        assert _total(session, total) == TOTALS[-1]


Builder = Callable[[Path], Any]


@pytest.mark.parametrize(
    "manager",
    [
        lambda folder: CheckpointManager(str(folder), "temp_node", "minidb"),
        lambda folder: MultiNodeCheckpointManager(str(folder), "minidb"),
    ],
    ids=["one node", "several nodes"],
)
def test_jobs_go_on_from_each_epoch(manager: Builder, tmp_path: Path) -> None:
    with Cluster():
        job, (total,) = _job()
        session = _session()
        assert JobRunner(job, manager(tmp_path)).train(session) == EPOCHS
        assert _total(session, total) == TOTALS[-1]
        for epoch in range(EPOCHS):
            session = _session()
            assert JobRunner(job, manager(tmp_path), resume_from_epoch=epoch).train(session) == EPOCHS
            assert _total(session, total) == TOTALS[-1]
        session, checkpoint = _session(), manager(tmp_path)
        session.run(checkpoint.init(["trainer_0"], retrieve_from_epoch=0))
        for epoch in range(EPOCHS + 1):
            session.run(checkpoint.load(epoch))
            assert _total(session, total) == TOTALS[epoch]


def test_what_is_in_the_checkpoints(tmp_path: Path) -> None:
    with Cluster():
        job, (total,) = _job()
        JobRunner(job, CheckpointManager(str(tmp_path), "node", "minidb")).train(_session())
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"node.{n}" for n in range(EPOCHS + 1)]
    load = core.CreateOperator("Load", [], [], db=str(tmp_path / "node.2"), load_all=1, absolute_path=1)
    workspace.RunOperatorOnce(load)
    np.testing.assert_array_equal(workspace.FetchBlob(str(total)), [TOTALS[2]])
    names = [name.decode() for name in workspace.FetchBlob("blob_names")]
    assert sorted(names) == workspace.Blobs()


def test_some_blobs_of_several_nodes(tmp_path: Path) -> None:
    nodes = [f"trainer_{number}" for number in range(3)]
    with Cluster():
        job, totals = _job(*nodes)
        manager = MultiNodeCheckpointManager(str(tmp_path), "minidb")
        JobRunner(job, manager).train(_session())
        assert manager.get_ckpt_db_name("trainer_1", 5) == f"{tmp_path}/trainer_1.5"
        assert manager.get_ckpt_db_name("nobody", 5) is None
        own = workspace.C.Workspace()
        runner = JobRunner(job, MultiNodeCheckpointManager(str(tmp_path), "minidb"))
        names = [str(total) for total in totals[1:]]
        for epoch in range(1, EPOCHS + 1):
            assert runner.load_blobs_from_checkpoints(names, epoch, LocalSession(own))
            assert [own.fetch_blob(name)[0] for name in names] == [TOTALS[epoch]] * 2
        assert not own.has_blob(str(totals[0]))
        assert not runner.load_blobs_from_checkpoints(names, EPOCHS + 1, LocalSession(own))
        with pytest.raises(ValueError, match="Checkpoint manager is None"):
            JobRunner(job).load_blobs_from_checkpoints(names, 1, LocalSession(own))
        with pytest.raises(ValueError, match="Checkpoint manager is None"):
            JobRunner(job).save_checkpoints(1, LocalSession(own))


def test_checkpoints_are_taken_elsewhere(tmp_path: Path) -> None:
    class Copies(UploadTaskGroupBuilder):
        def build(self, epoch: int, checkpoint_manager: Any) -> TaskGroup:
            def copy(source: str, target: str) -> Any:
                return lambda inputs, outputs: shutil.copyfile(source, target)

            with TaskGroup(WorkspaceType.GLOBAL) as group:
                for node, manager in checkpoint_manager._node_managers:
                    source = db_name(epoch, manager._node_name, manager._db_prefix)
                    with Node(str(node)), Task():
                        ops.Python((copy, [source, str(tmp_path / f"{node}.copy")], {}))([], [])
            return group

    (tmp_path / "saved").mkdir()
    with Cluster():
        job, _ = _job("trainer_0", "trainer_1")
        manager = MultiNodeCheckpointManager(str(tmp_path / "saved"), "minidb")
        JobRunner(job, manager, upload_task_group_builder=Copies()).train(_session())
    for node in ("trainer_0", "trainer_1"):
        last = (tmp_path / "saved" / f"{node}.{EPOCHS}").read_bytes()
        assert (tmp_path / f"{node}.copy").read_bytes() == last
    with pytest.raises(NotImplementedError, match="doesn't say how checkpoints are uploaded"):
        UploadTaskGroupBuilder().build(1, manager)


def test_places_in_data_sets_are_kept(tmp_path: Path) -> None:
    """Epochs of three rows of a data set; what they add up to is the same from each checkpoint on."""
    rows = np.arange(10)
    expected = [100 + int(rows[: 3 * epoch].sum()) for epoch in range(1, 5)]
    with Cluster():
        with Job() as job, Node("trainer_0"):
            with job.init_group, Task():
                content = schema.ConstRecord(ops, schema.Struct(("val", rows)))
                reader = Dataset(content, name="rows").reader(ops)
                total = ops.Const([100])
            limited = ReaderWithLimit(reader, num_iter=3)
            pipe(limited, processor=lambda record: ops.Add([total, record.val()], [total]) and None)
            job.add_stop_condition(limited.data_finished())
        job.compile(LocalSession)
        own = workspace.C.Workspace()
        assert JobRunner(job, CheckpointManager(str(tmp_path), "n", "minidb")).train(LocalSession(own)) == 4
        assert len(own.blobs) == 17  # as in the original
        assert _total(LocalSession(own), total) == expected[-1]
        for epoch in range(1, 5):
            session, manager = _session(), CheckpointManager(str(tmp_path), "n", "minidb")
            assert JobRunner(job, manager, resume_from_epoch=epoch).train(session) == max(4, epoch + 1)
            assert _total(session, total) == expected[-1]
            session.run(manager.load(epoch))
            assert _total(session, total) == expected[epoch - 1]


class _Handler:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.params: dict[str, Any] = {}
        self.reports: list[tuple[str, dict[str, Any]]] = []
        self.accessible = True

    def write(self, epoch: int) -> None:
        self.written.append(epoch)

    def last_epoch(self, user_epoch: int | None) -> int | None:
        return self.written[-2] if self.written and user_epoch is None else user_epoch

    def set_params(self, **params: Any) -> None:
        self.params = params

    def cp_accessible(self, epoch: int | None) -> bool:
        return self.accessible

    def report(self, action_name: str, stats: dict[str, Any]) -> None:
        self.reports.append((action_name, stats))


@pytest.mark.parametrize("several", [False, True])
def test_metadata_handlers(several: bool, tmp_path: Path) -> None:
    handler = _Handler()
    if several:
        manager: Any = MultiNodeCheckpointManager(str(tmp_path), "minidb", handler)
    else:
        manager = CheckpointManager(str(tmp_path), "trainer_0", "minidb", handler)
    with Cluster():
        with Job() as job, Node("trainer_0"):
            _adding(job)
            epoch_limiter(job, EPOCHS)
        JobRunner(job, manager).train(_session())
        assert handler.written == list(range(EPOCHS + 1))
        assert handler.params["node_names"] == ["trainer_0"]
        assert handler.params["db_prefix"] == str(tmp_path)
        (action, stats) = handler.reports[-1]
        assert action == "checkpoint_save"
        (path, nanoseconds) = next(iter(stats.items()))
        assert path == str(tmp_path / f"trainer_0.{EPOCHS}")
        assert nanoseconds > 0
        runner = JobRunner(job, manager)
        runner.train(_session())
        assert runner.resume_from_epoch == EPOCHS - 1
        assert "checkpoint_load" in [action for action, _ in handler.reports]


def test_checkpoints_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(), caplog.at_level(logging.WARNING):
        job, (total,) = _job()
        session = _session()
        missing = str(tmp_path / "none")
        assert JobRunner(job, CheckpointManager(missing, "node", "minidb")).train(session) == EPOCHS
        assert _total(session, total) == TOTALS[-1]
        assert sum("Unable to write checkpoint" in text for text in caplog.messages) == EPOCHS + 1
        handler = _Handler()
        handler.accessible = False
        job, _ = _job()
        JobRunner(job, CheckpointManager(str(tmp_path), "node", "minidb", handler)).train(_session())
    assert not list(tmp_path.iterdir())
    assert "checkpoints can't be reached: that of epoch 0 is not written" in caplog.messages


def test_groups_run_in_their_order() -> None:
    ran: list[str] = []

    def note(text: str) -> Any:
        return lambda inputs, outputs: ran.append(text)

    with Cluster(), Job() as job:
        for name in ("init_group", "download_group", "exit_group"):
            with getattr(job, name), Task():
                ops.Python((note, [name], {}))([], [])
        with Task():  # that of an epoch
            ops.Python((note, ["epoch_group"], {}))([], [])
        epoch_limiter(2)
        assert Job.current() is job
        assert job.nodes_to_checkpoint() == ["local"]
    JobRunner(job)(_session())
    assert ran == ["init_group", "epoch_group", "epoch_group", "download_group", "exit_group"]


def test_a_blob_that_stops() -> None:
    with Cluster(), Job() as job:
        with job.init_group, Task():
            ops.ConstantFill([], "stop", shape=[1], value=True, dtype=core.DataType.BOOL)
        with Task():
            ops.Const(1)
        job.add_stop_condition(core.BlobReference("stop"))
        with pytest.raises(AssertionError, match="an output of a task or a reference"):
            job.add_stop_condition("stop")  # type: ignore[arg-type]
    assert JobRunner(job).train(_session()) == 1


def test_paths() -> None:
    assert get_ckpt_filename("node", 3) == "node.3"
    assert db_name(3, "node", "/folder") == "/folder/node.3"
    assert db_name(3, "node", "/folder", "/elsewhere/run_") == "/elsewhere/run_node.3"


def test_what_comes_too_early() -> None:
    with pytest.raises(AssertionError, match="no managers yet: init makes them"):
        MultiNodeCheckpointManager("folder", "minidb").save(1)
    with pytest.raises(AssertionError, match="names are known when the task of init has run"):
        CheckpointManager("folder", "node", "minidb").save(1)
    with pytest.raises(AssertionError, match="for a single node"):
        CheckpointManager("folder", "node", "minidb").init(["a", "b"])
    manager = MultiNodeCheckpointManager("folder", "minidb")
    manager.init(["a"])
    with pytest.raises(AssertionError, match="the nodes were"):
        manager.init(["b"])


@pytest.mark.parametrize("count", [0, -3, 2**40])
def test_counters_are_kept(count: int) -> None:
    net = core.Net("net")
    counter = net.CreateCounter([], "counter", init_count=count)
    net.CreateMutex([], "mutex")
    workspace.RunNetOnce(net)
    for name in ("counter", "mutex"):
        workspace.DeserializeBlob(f"{name}_again", workspace.SerializeBlob(name))
    reading = core.Net("reading")
    reading.RetrieveCount(core.BlobReference(f"{counter}_again"), "count")
    reading.CountUp(counter, "other")
    workspace.RunNetOnce(reading)
    assert workspace.FetchBlob("count") == count


def test_timers() -> None:
    net = core.Net("net")
    timer = net.TimerBegin([], "timer", counter_name="one")
    net.TimerGet(timer, "first")
    net.TimerEnd(timer, [])
    net.TimerGetAndEnd(timer, "second")
    workspace.RunNetOnce(net)
    first, second = workspace.FetchBlob("first"), workspace.FetchBlob("second")
    assert 0 <= first[0] < second[0]
    assert first.dtype == np.int64


def test_names_of_blobs() -> None:
    own = workspace.C.Workspace()
    own.create_blob("a")
    inside = workspace.C.Workspace(own)
    net = core.Net("net")
    net.GetAllBlobNames([], "own", include_shared=False)
    net.GetAllBlobNames([], "all")
    inside.run(net)
    assert inside.fetch_blob("own").tolist() == [b"all", b"own"]
    assert inside.fetch_blob("all").tolist() == [b"a", b"all", b"own"]
