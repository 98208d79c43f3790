"""Tasks, groups of them, and the sessions that run them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, workspace
from netgrad.caffe2.python.net_builder import ops
from netgrad.caffe2.python.session import CompiledRunnable, LocalSession, Session
from netgrad.caffe2.python.task import (
    Cluster,
    Node,
    SetupNets,
    Task,
    TaskGroup,
    TaskOutput,
    TaskOutputList,
    WorkspaceType,
    final_output,
)


def test_texts() -> None:
    texts = {
        "Cluster(nodes=[], node_kwargs={})": Cluster(),
        "Node(name=local, kwargs={})": Node(),
        "TaskGroup(tasks=[], workspace_type=None, remote_nets=[])": TaskGroup(),
        "TaskOutput(names=[], values=None)": TaskOutput([]),
        "TaskOutputList(outputs=[])": TaskOutputList(),
        "Task(name=local/task, node=local, outputs=[])": Task(),
        "SetupNets(init_nets=None, exit_nets=None)": SetupNets(),
    }
    assert [repr(one) for one in texts.values()] == list(texts)


def test_showing_a_group_does_not_close_it() -> None:
    group = TaskGroup()
    repr(group)
    group.add(Task())
    group.tasks()
    with pytest.raises(AssertionError, match="already used TaskGroup"):
        group.add(Task())


def test_clusters_know_their_nodes() -> None:
    with Cluster() as cluster:
        with Node("a", memory=3):
            Task()
        Task(node="b")
        with Node("a", memory=4, cores=2):
            Task()
    assert cluster.nodes() == ["a", "b"]
    assert cluster.node_kwargs() == {"a": {"memory": 3, "cores": 2}, "b": {}}


def test_names_in_a_group() -> None:
    with TaskGroup() as group, Node("trainer"):
        for _ in range(3):
            Task(step=core.Net("net"))
        Task(name="other")
    names = [task.name for task in group.tasks()]
    assert names == ["trainer/task", "trainer/task:1", "trainer/task:2", "trainer/other"]
    assert group.used_nodes() == ["trainer"]
    assert group.num_registered_tasks() == 4


def test_tasks_inside_come_first() -> None:
    with TaskGroup() as group, Task(name="outer"):
        with Task(name="inner"):
            ops.Const(1)
        ops.Const(2)
    assert [task.name for task in group.tasks()] == ["local/inner", "local/outer"]


def test_workspaces_must_agree() -> None:
    group = TaskGroup(WorkspaceType.GLOBAL)
    with pytest.raises(AssertionError, match="needs a private workspace"):
        group.add(Task(workspace_type=WorkspaceType.PRIVATE))
    mixed = TaskGroup()
    mixed.add(Task(workspace_type=WorkspaceType.GLOBAL))
    assert mixed.workspace_type() == WorkspaceType.GLOBAL
    assert TaskGroup().workspace_type() is None


def test_a_used_task_is_closed() -> None:
    task = Task(step=core.Net("net"))
    TaskGroup().add(task)
    with pytest.raises(AssertionError, match="Cannot modify task"):
        task.add_output("x")
    filled = Task(step=core.Net("net"))
    with pytest.raises(AssertionError, match="already has an execution step"):
        filled.__enter__()


def test_setup_nets_run_before_and_after() -> None:
    """The net that starts the counter and the one that reads it run once, the counting one twice."""
    for key in (Task.TASK_SETUP, TaskGroup.LOCAL_SETUP):
        start, end = core.Net("start"), core.Net("end")
        value = start.Const(10, "value")
        result = end.Mul([value, end.Const(2)], "result")
        counting = core.Net("counting")
        counting.Add([value, counting.Const(1)], [value])
        setup = SetupNets([start], [end])
        counting.add_attribute(key, setup)
        with TaskGroup(WorkspaceType.GLOBAL) as group, Node("trainer"):
            Task(step=[counting, counting], outputs=[result])
        with LocalSession() as session:
            session.run(group)
        assert group.tasks()[0].outputs()[0].fetch() == 24


def test_objects_that_add_to_the_setup() -> None:
    class Adds:
        def setup(self, init_net: Any) -> None:
            init_net.GivenTensorFill([], "x", shape=[1], values=[3.0])

        def exit(self, exit_net: Any) -> core.Net:
            exit_net.Scale("x", "y", scale=2.0)
            last = core.Net("last")
            last.Scale("y", "z", scale=2.0)
            return last

    class Wrong:
        def setup(self, init_net: Any) -> int:
            return 3

    net = core.Net("net")
    net.add_attribute(Task.TASK_SETUP, Adds())
    net.Scale("x", "x", scale=5.0)
    task = Task(step=net, outputs="z")
    with LocalSession() as session:
        session.run(task)
    assert task.outputs()[0].fetch() == 60
    other = core.Net("other")
    other.add_attribute(Task.TASK_SETUP, Wrong())
    with pytest.raises(TypeError, match=r"Wrong\.setup returns nets or steps, not int"):
        Task(step=other).get_step()


def test_private_tasks_leave_only_their_outputs() -> None:
    with TaskGroup() as group:
        with Task():
            kept, lost = ops.Const(1), ops.Const(2)
            output = final_output(kept)
        with Task():
            second = ops.Const(3)
            other = final_output([second, second])
    with LocalSession() as session:
        session.run(group)
    assert (output.fetch(), other.fetch()) == (1, [3, 3])
    assert output.get() == kept
    assert workspace.HasBlob(str(kept))
    assert not workspace.HasBlob(str(lost))


def test_outputs_before_the_run() -> None:
    output = TaskOutput("x")
    with pytest.raises(AssertionError, match="not set yet"):
        output.get()
    with pytest.raises(AssertionError, match="Cannot fetch"):
        output.fetch()
    with pytest.raises(AssertionError, match="Wrong number"):
        TaskOutputList([output]).set_values([1, 2])


def test_final_output_without_a_task() -> None:
    workspace.FeedBlob("x", np.float32(7))
    with TaskGroup() as group:
        output = final_output("x")
    with LocalSession() as session:
        session.run(group)
    assert output.fetch() == 7


def test_nodes_of_a_group_run_in_one_session() -> None:
    with TaskGroup(WorkspaceType.GLOBAL) as group:
        for node in ("a", "b"):
            with Node(node), Task():
                ops.ConstantFill([], f"from_{node}", shape=[1], value=2.0)
    with LocalSession() as session:
        session.run(group)
    assert [workspace.FetchBlob(f"from_{node}")[0] for node in ("a", "b")] == [2, 2]
    with pytest.raises(AssertionError, match="multiple times"):
        group.tasks_by_node()


def test_tasks_by_node() -> None:
    with TaskGroup() as group:
        for node in ("a", "b", "a"):
            with Node(node), Task():
                ops.Const(1)
    grouped = group.tasks_by_node()
    assert [(task.node, len(task.outputs())) for task in grouped.tasks()] == [("a", 2), ("b", 1)]
    assert group.tasks_by_node() is grouped


def test_reports_need_a_task_on_their_node() -> None:
    group = TaskGroup()
    group.add(Task(node="a"))
    group.report_net(core.Net("report"), node="b")
    with pytest.raises(AssertionError, match="reports on node b, where no task runs"):
        group.tasks_by_node()


def test_old_reports_run() -> None:
    with TaskGroup(WorkspaceType.GLOBAL) as group:
        with Task():
            ops.Const(1)
        report = group.report_net(report_interval=60)
        report.ConstantFill([], "reported", shape=[1], value=5.0)
        assert group.report_net() is report
    with LocalSession() as session:
        session.run(group)
    assert workspace.FetchBlob("reported") == 5


def _filled(name: str, blob: str, value: float) -> core.Net:
    net = core.Net(name)
    net.ConstantFill([], blob, shape=[1], value=value)
    return net


def test_what_sessions_run() -> None:
    plan = core.Plan("plan")
    plan.AddStep(core.execution_step("first", _filled("n", "p", 1.0)))
    plan.AddStep(core.execution_step("second", _filled("n", "q", 2.0)))
    scaling = core.Net("scaling")
    scaling.Scale("x", "x", scale=2.0)
    step = core.execution_step("step", [scaling], num_iter=3)
    with LocalSession() as session:
        session.run(_filled("n", "x", 1.0))
        session.run(step)
        session.run(step)
        session.run(plan)
        session.run([_filled("n", "r", 3.0), _filled("n", "s", 4.0)])
    assert [float(workspace.FetchBlob(blob)[0]) for blob in "xpqrs"] == [64, 1, 2, 3, 4]
    with pytest.raises(AssertionError, match="Session is closed"):
        session.run(step)
    with pytest.raises(AssertionError, match="already closed"), session:
        pass


def test_a_session_needs_something_to_run() -> None:
    with pytest.raises(AssertionError, match="there is nothing to run"):
        LocalSession().run(None)


def test_sessions_have_a_workspace() -> None:
    own = workspace.C.Workspace()
    LocalSession(own).run(_filled("n", "x", 1.0))
    assert own.has_blob("x")
    assert not workspace.HasBlob("x")


def test_compiled_runnables() -> None:
    class Other(LocalSession):
        """Another class of sessions."""

    net = _filled("n", "x", 1.0)
    compiled = LocalSession.compile(net)
    assert isinstance(compiled, CompiledRunnable)
    assert LocalSession.compile(net) is compiled
    assert LocalSession.compile(compiled) is compiled
    with pytest.raises(AssertionError, match="Need: Other, got: LocalSession"):
        Other.compile(compiled)
    LocalSession().run(compiled)
    assert workspace.HasBlob("x")
    with pytest.raises(AssertionError, match="has no steps"):
        LocalSession.compile(core.Plan("empty"))
    group = TaskGroup(WorkspaceType.GLOBAL)
    with pytest.raises(AssertionError, match="runs in a global workspace, not private"):
        LocalSession.compile(group, WorkspaceType.PRIVATE)


def test_a_session_that_says_nothing() -> None:
    with pytest.raises(NotImplementedError, match="Session doesn't say how it runs"):
        Session().run(_filled("n", "x", 1.0))
    with pytest.raises(NotImplementedError, match="how it fetches"):
        Session().fetch_output("x")


def test_a_plan_from_the_message_of_a_task() -> None:
    with Node("trainer"), Task(name="my_task", num_instances=2) as task:
        with ops.task_init():
            shared = ops.Const(0)
        with ops.task_instance_init():
            own = ops.Const(0)
        with ops.loop(100):
            ops.Copy(shared, own)
        with ops.task_instance_exit():
            ops.Add([shared, own], [shared])
        with ops.task_exit():
            ops.Mul([shared, shared], [shared])
    plan = core.Plan(task.get_step())
    again = core.Plan.create_from_proto(plan.Proto())
    assert len(plan.Proto().network) == len(again.Proto().network) == 9
    assert [step.Name() for step in plan.Steps()] == [step.Name() for step in again.Steps()]
    for before, after in zip(plan.Nets(), again.Nets(), strict=True):
        assert after.Name().startswith(before.Name())
