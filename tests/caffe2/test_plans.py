"""Plans: iterations, stop blobs, substeps, and workspaces of steps."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, workspace


def _counting(name: str, counter: str) -> core.Net:
    net = core.Net(name)
    net.Iter(counter, counter)
    return net


def _feed(*counters: str) -> None:
    for counter in counters:
        workspace.FeedBlob(counter, np.zeros(1, np.int64))


def test_iterations_multiply() -> None:
    _feed("a", "b")
    inner = core.execution_step("inner", _counting("a_net", "a"), num_iter=3)
    other = core.execution_step("other", _counting("b_net", "b"))
    assert workspace.RunPlan(core.Plan(core.execution_step("outer", [inner, other], num_iter=4)))
    assert (workspace.FetchBlob("a"), workspace.FetchBlob("b")) == (12, 4)


def test_a_step_is_a_plan_and_so_are_its_bytes() -> None:
    _feed("a")
    step = core.ExecutionStep("step", _counting("net", "a"), num_iter=2)
    workspace.RunPlan(step)
    workspace.RunPlan(core.Plan(core.execution_step("again", step)).Proto().SerializeToString())
    assert workspace.FetchBlob("a") == 4


def test_a_stop_blob_ends_a_step_at_once() -> None:
    _feed("a", "b")
    init = core.Net("init")
    init.ConstantFill([], "limit", shape=[1], value=5, dtype=core.DataType.INT64)
    init.ConstantFill([], "stop", shape=[1], value=False, dtype=core.DataType.BOOL)
    body = _counting("body", "a")
    stop = body.GE(["a", "limit"], "stop")
    plan = core.Plan("plan")
    plan.AddStep(core.execution_step("init", init))
    plan.AddStep(core.execution_step("loop", [body, _counting("after", "b")], should_stop_blob=stop))
    workspace.RunPlan(plan)
    assert (workspace.FetchBlob("a"), workspace.FetchBlob("b")) == (5, 4)


def test_only_once() -> None:
    _feed("a")
    workspace.FeedBlob("stop", np.array([False]))
    net = _counting("net", "a")
    stop = core.BlobReference("stop")
    workspace.RunPlan(core.execution_step("once", net, should_stop_blob=stop, only_once=True))
    assert workspace.FetchBlob("a") == 1


def test_concurrent_substeps_all_run() -> None:
    _feed("a", "b")
    steps = [core.execution_step(f"{name}_step", _counting(f"{name}_net", name)) for name in "ab"]
    workspace.RunPlan(core.execution_step("both", steps, concurrent_substeps=True))
    assert (workspace.FetchBlob("a"), workspace.FetchBlob("b")) == (1, 1)


def test_a_step_with_its_own_workspace() -> None:
    _feed("a")
    net = _counting("net", "a")
    net.Copy("a", "inside")
    workspace.RunPlan(core.execution_step("own", net, create_workspace=True, num_iter=2))
    assert workspace.FetchBlob("a") == 2
    assert not workspace.HasBlob("inside")


def test_in_the_background() -> None:
    _feed("a")
    background = workspace.RunPlanInBackground(core.execution_step("step", _counting("net", "a")))
    while not background.is_done():
        pass
    assert background.is_succeeded()
    assert workspace.FetchBlob("a") == 1


@pytest.mark.parametrize("at_once", [False, True])
def test_cancelled_in_the_background(at_once: bool) -> None:
    _feed("a")
    workspace.FeedBlob("stop", np.array(False))
    endless = core.execution_step(
        "endless", _counting("net", "a"), should_stop_blob=core.BlobReference("stop")
    )
    other = core.execution_step("other", _counting("other", "b"))
    _feed("b")
    background = workspace.RunPlanInBackground(
        core.execution_step("both", [endless, other], concurrent_substeps=True) if at_once else endless
    )
    while not workspace.FetchBlob("a"):
        pass
    assert not background.is_done()
    background.cancel()
    while not background.is_done():
        pass
    assert not background.is_succeeded()


def test_what_is_wrong_with_a_plan() -> None:
    _feed("a")
    step = core.execution_step("s", _counting("net", "a"), should_stop_blob=core.BlobReference("nowhere"))
    with pytest.raises(RuntimeError, match="blob nowhere does not exist"):
        workspace.RunPlan(step)
    with pytest.raises(RuntimeError, match="holds int64 of shape"):
        workspace.RunPlan(
            core.execution_step("s", _counting("net", "a"), should_stop_blob=core.BlobReference("a"))
        )
    plan = core.Plan(core.execution_step("s", _counting("net", "a"))).Proto()
    del plan.network[:]
    with pytest.raises(RuntimeError, match="which the plan doesn't have"):
        workspace.RunPlan(plan)


def test_nets_beside_steps() -> None:
    _feed("a", "b")
    first, second = _counting("first", "a"), core.execution_step("second", _counting("net", "b"), num_iter=2)
    step = core.execution_step("both", [first, second], num_iter=3)
    workspace.RunPlan(step)
    assert (workspace.FetchBlob("a"), workspace.FetchBlob("b")) == (3, 6)
    assert [len(part.Nets()) for part in step.Substeps()] == [1, 1]


def test_a_net_that_reports() -> None:
    """It runs once behind a step that is over before its interval; a plan and its message keep it."""
    _feed("a", "b")
    report = _counting("report", "b")
    step = core.execution_step("s", _counting("net", "a"), num_iter=5, report_net=report, report_interval=60)
    plan = core.Plan(step)
    assert [net.Name() for net in plan.Nets()][-1] == report.Name()
    for one in (plan, core.Plan.create_from_proto(plan.Proto())):
        _feed("a", "b")
        workspace.RunPlan(one)
        assert (workspace.FetchBlob("a"), workspace.FetchBlob("b")) == (5, 1)


def test_reports_span_all_turns() -> None:
    """One step reports on the three turns of the other, not on each of them."""
    _feed("a", "b")
    report = core.execution_step("report", _counting("reporting", "b"))
    report.RunEveryMillis(60_000)
    step = core.execution_step("s", [report, core.execution_step("t", _counting("net", "a"))], num_iter=3)
    workspace.RunPlan(step)
    assert (workspace.FetchBlob("a"), workspace.FetchBlob("b")) == (3, 1)


def test_a_report_that_fails_stops_the_step() -> None:
    workspace.FeedBlob("no", np.array(False))
    _feed("a")
    failing = core.Net("failing")
    failing.Assert("no", [], error_msg="the report is wrong")
    report = core.execution_step("report", failing)
    report.RunEveryMillis(1)
    endless = core.execution_step("endless", _counting("net", "a"), should_stop_blob=core.BlobReference("no"))
    with pytest.raises(RuntimeError, match="the report is wrong"):
        workspace.RunPlan(core.execution_step("both", [report, endless]))


def test_what_becomes_a_step() -> None:
    net = _counting("net", "a")
    step = core.to_execution_step(net, "name")
    assert (step.Name(), step.Nets()) == ("name", [net])
    assert core.to_execution_step(step) is step
    assert len(core.to_execution_step([step, net]).Substeps()) == 2
    with pytest.raises(ValueError, match="a step holds nets or steps, not 3"):
        core.to_execution_step(3)
    with pytest.raises(ValueError, match="a step holds nets or steps"):
        core.execution_step("s", ["net"])


# ---- queues ------------------------------------------------------------------------------------------


def _reader_and_trainer(rows: int, capacity: int) -> core.ExecutionStep:
    """One step counts and enqueues, the other sums up what it dequeues until the queue is closed."""
    init = core.Net("init")
    queue = init.CreateBlobsQueue([], "queue", capacity=capacity, num_blobs=1)
    _feed("n")
    workspace.FeedBlob("total", np.zeros(1, np.int64))
    workspace.FeedBlob("limit", np.array([rows], np.int64))
    workspace.FeedBlob("read_all", np.array([False]))
    workspace.RunNetOnce(init)

    reader = core.Net("reader")
    reader.Iter("n", "n")
    reader.Copy("n", "row")
    reader.EnqueueBlobs([queue, "row"], ["row"])
    read_all = reader.GE(["n", "limit"], "read_all")
    closing = core.Net("closing")
    closing.CloseBlobsQueue([queue], [])
    reading = core.execution_step(
        "reading",
        [core.execution_step("rows", reader, should_stop_blob=read_all), core.execution_step("c", closing)],
    )
    workspace.FeedBlob("empty", np.array(False))
    taking, adding = core.Net("taking"), core.Net("adding")
    _, empty = taking.SafeDequeueBlobs([queue], ["taken", "empty"])
    workspace.FeedBlob("taken", np.zeros(1, np.int64))
    adding.Add(["total", "taken"], "total")
    training = core.execution_step("training", [taking, adding], should_stop_blob=empty)
    return core.execution_step("both", [reading, training], concurrent_substeps=True)


@pytest.mark.parametrize("capacity", [1, 3, 100])
def test_steps_at_once_pass_blobs_by_a_queue(capacity: int) -> None:
    workspace.RunPlan(_reader_and_trainer(20, capacity))
    assert workspace.FetchBlob("n") == 20
    assert workspace.FetchBlob("total") == 20 * 21 / 2


def test_an_error_stops_the_steps_beside() -> None:
    step = _reader_and_trainer(20, 2)
    workspace.FeedBlob("limit", np.array([b"text"], object))
    with pytest.raises(RuntimeError, match=r"GE\(n, limit\)"):
        workspace.RunPlan(step)


def test_nobody_waits_forever() -> None:
    workspace.RunOperatorOnce(core.CreateOperator("CreateBlobsQueue", [], "queue", capacity=1))
    with pytest.raises(RuntimeError, match="would wait forever"):
        workspace.RunOperatorOnce(core.CreateOperator("DequeueBlobs", "queue", "x"))
    with pytest.raises(RuntimeError, match="the time is up"):
        workspace.RunOperatorOnce(core.CreateOperator("DequeueBlobs", "queue", "x", timeout_secs=0.01))
    workspace.FeedBlob("x", np.ones(1, np.float32))
    put = core.CreateOperator("EnqueueBlobs", ["queue", "x"], ["x"])
    workspace.RunOperatorOnce(put)
    with pytest.raises(RuntimeError, match="would wait forever"):
        workspace.RunOperatorOnce(put)
    workspace.RunOperatorOnce(core.CreateOperator("CloseBlobsQueue", "queue", []))
    with pytest.raises(RuntimeError, match="the queue is closed"):
        workspace.RunOperatorOnce(put)
    workspace.RunOperatorOnce(core.CreateOperator("SafeEnqueueBlobs", ["queue", "x"], ["x", "closed"]))
    assert workspace.FetchBlob("closed")


def test_several_records_are_joined() -> None:
    workspace.RunOperatorOnce(core.CreateOperator("CreateBlobsQueue", [], "queue", capacity=5))
    for value in range(3):
        workspace.FeedBlob("x", np.full((value, 2), value, np.float32))
        workspace.RunOperatorOnce(core.CreateOperator("EnqueueBlobs", ["queue", "x"], ["x"]))
    workspace.RunOperatorOnce(core.CreateOperator("CloseBlobsQueue", "queue", []))
    take = core.CreateOperator("SafeDequeueBlobs", "queue", ["y", "empty"], num_records=5)
    workspace.RunOperatorOnce(take)
    np.testing.assert_array_equal(workspace.FetchBlob("y"), [[1, 1], [2, 2], [2, 2]])
    assert not workspace.FetchBlob("empty")
    workspace.RunOperatorOnce(take)
    assert workspace.FetchBlob("empty")


def test_a_step_with_an_interval_runs_beside_and_after() -> None:
    """The other step ends when it has seen three runs of the timed one, which then runs once more."""
    _feed("a", "b")
    workspace.FeedBlob("seen", np.array([False]))
    workspace.FeedBlob("three", np.array([3], np.int64))

    def pause(inputs: Any, outputs: Any) -> None:
        pauses.append(time.sleep(0.005))
        assert len(pauses) < 2000, "the timed step never runs"

    pauses: list[None] = []
    slow = core.Net("slow")
    slow.Python(pause)([], [])
    seen = slow.GE(["b", "three"], "seen")
    timed = core.execution_step("timed", _counting("b_net", "b"))
    timed.RunEveryMillis(5)
    workspace.RunPlan(
        core.execution_step("both", [timed, core.execution_step("s", slow, should_stop_blob=seen)])
    )
    assert workspace.FetchBlob("b") >= 4


def test_instances_run_as_often_as_there_are() -> None:
    _feed("a")
    inner = core.execution_step("inner", _counting("net", "a"), num_iter=5)
    workspace.RunPlan(core.execution_step("outer", [inner], num_concurrent_instances=4))
    assert workspace.FetchBlob("a") == 20


def test_a_step_that_just_ends_is_not_taken_for_stuck() -> None:
    """Two steps fill a queue and end, it is closed behind them, and a third one has emptied it before."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads change in the middle of everything
    try:
        workspace.FeedBlob("x", np.zeros(1))
        for _ in range(150):
            init, take, close = core.Net("init"), core.Net("take"), core.Net("close")
            queue = init.CreateBlobsQueue([], "queue", capacity=4, num_blobs=1)
            puts = [core.Net("put") for _ in range(2)]
            for put in puts:
                put.SafeEnqueueBlobs([queue, "x"], ["x", "full"])
            _, status = take.SafeDequeueBlobs([queue], ["y", "status"])
            close.CloseBlobsQueue([queue], [])
            steps = [core.execution_step("put", put, num_iter=3) for put in puts]
            fill = core.execution_step("fill", steps, concurrent_substeps=True)
            both = [
                core.execution_step("filled", [fill, core.execution_step("close", close)]),
                core.execution_step("take", take, should_stop_blob=status),
            ]
            plan = core.Plan("plan")
            plan.AddStep(core.execution_step("init", init))
            plan.AddStep(core.execution_step("both", both, concurrent_substeps=True))
            workspace.RunPlan(plan)
            assert workspace.FetchBlob("status")
    finally:
        sys.setswitchinterval(interval)
