"""Plans: iterations, stop blobs, substeps, and workspaces of steps."""

from __future__ import annotations

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
    steps[0].RunEveryMillis(10)
    workspace.RunPlan(core.execution_step("both", steps, concurrent_substeps=True))
    assert (workspace.FetchBlob("a"), workspace.FetchBlob("b")) == (1, 1)
    assert workspace.RunPlanInBackground(core.execution_step("none", [])).is_done() in (True, False)


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
