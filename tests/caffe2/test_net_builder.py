"""Net builders: loops, conditions, stops and operators that hold nets, run as plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, workspace
from netgrad.caffe2.python.net_builder import NetBuilder, ops
from netgrad.caffe2.python.session import LocalSession
from netgrad.caffe2.python.task import Task, TaskGroup, final_output


def _run(builder: NetBuilder) -> Any:
    plan = core.Plan("plan")
    plan.AddStep(core.to_execution_step(builder))
    inside = workspace.C.Workspace()
    inside.run(plan)
    return inside


def _value(inside: Any, blob: Any) -> Any:
    return inside.blobs[str(blob)].fetch()


def test_loop_that_is_stopped() -> None:
    with NetBuilder() as builder:
        down, up = ops.Const(5), ops.Const(0)
        with ops.loop():
            ops.stop_if(ops.EQ([down, ops.Const(0)]))
            ops.Add([down, ops.Const(-1)], [down])
            ops.Add([up, ops.Const(1)], [up])
    assert _value(_run(builder), up) == 5


def test_loop_needs_a_stop() -> None:
    with pytest.raises(AssertionError, match="requires a stop condition"):  # noqa: SIM117
        with NetBuilder(), ops.loop():
            ops.Const(1)


@pytest.mark.parametrize(("start", "stopped"), [(10, False), (3, True)])
def test_stop_guard(start: int, stopped: bool) -> None:
    with NetBuilder() as builder:
        x = ops.Const(start)
        with ops.stop_guard() as guard:
            ops.stop_if(ops.LT([x, ops.Const(5)]))
            ops.Add([x, ops.Const(100)], [x])
        ops.Add([x, ops.Const(1000)], [x])
        has_stopped = guard.has_stopped()
    inside = _run(builder)
    assert _value(inside, has_stopped) == stopped
    assert _value(inside, x) == start + 1000 + (0 if stopped else 100)


def test_empty_stop_guard_was_not_stopped() -> None:
    with NetBuilder() as builder:
        with ops.stop_guard() as guard:
            pass
        has_stopped = guard.has_stopped()
    assert not _value(_run(builder), has_stopped)


@pytest.mark.parametrize(("x", "expected"), [(75, 2), (25, 3), (50, 1)])
def test_if_with_a_stop_inside(x: int, expected: int) -> None:
    with NetBuilder() as builder:
        given = ops.Const(x)
        y = ops.Const(1)
        with ops.If(ops.GT([given, ops.Const(50)])):
            ops.Const(2, blob_out=y)
        with ops.If(ops.LT([given, ops.Const(50)])):
            ops.Const(3, blob_out=y)
            ops.stop()
            ops.Const(4, blob_out=y)
    assert _value(_run(builder), y) == expected


def test_nested_loops_and_chains_of_conditions() -> None:
    with Task() as task:
        total, large, small, tiny = (ops.Const(0) for _ in range(4))
        with ops.loop(10) as loop:
            outer = ops.Mul([loop.iter(), ops.Const(10)])
            with ops.loop(loop.iter()) as inner:
                value = ops.Add([outer, inner.iter()])
                with ops.If(ops.GE([value, ops.Const(80)])) as branch:
                    ops.Add([large, value], [large])
                with branch.Elif(ops.GE([value, ops.Const(50)])) as branch:
                    ops.Add([small, value], [small])
                with branch.Else():
                    ops.Add([tiny, value], [tiny])
                ops.Add([total, value], total)
        outputs = [final_output(blob) for blob in (total, large, small, tiny)]
    with LocalSession() as session:
        session.run(task)
    values = [10 * i + j for i in range(10) for j in range(i)]
    expected = [
        sum(values),
        sum(value for value in values if value >= 80),
        sum(value for value in values if 50 <= value < 80),
        sum(value for value in values if value < 50),
    ]
    assert [output.fetch() for output in outputs] == expected


def test_else_has_no_elif() -> None:
    with NetBuilder():
        with ops.If(ops.Const(True)) as branch:
            ops.Const(1)
        with branch.Else() as other:
            ops.Const(2)
        with pytest.raises(AssertionError, match="not allowed for an Else"):
            other.Elif(ops.Const(True))


def test_a_net_runs_as_often_as_it_is_added() -> None:
    with Task() as task:
        total = ops.Const(0)
        net = core.Net("my_net")
        net.Add([total, net.Const(1)], [total])
        ops.net(net)
        ops.net(net)
        result = final_output(total)
    with LocalSession() as session:
        session.run(task)
    assert result.fetch() == 2


def test_setup_blocks_run_before_and_after() -> None:
    with Task() as task:
        with ops.task_init():
            one = ops.Const(1)
        two = ops.Add([one, one])
        with ops.task_init():
            three = ops.Const(3)
        sum_ = ops.Add([two, three])
        with ops.task_exit():
            after = ops.Add([sum_, one])  # runs behind the lines that follow
        before = ops.Add([sum_, one])
        ops.Add([sum_, one], [sum_])
        again = ops.Add([sum_, one])
        outputs = [final_output(blob) for blob in (before, after, again)]
    with LocalSession() as session:
        session.run(task)
    assert [output.fetch() for output in outputs] == [6, 7, 7]


def test_instances_have_workspaces_of_their_own() -> None:
    instances, turns = 5, 7
    with TaskGroup() as group, Task(num_instances=instances):
        with ops.task_init():
            shared = ops.CreateCounter([], ["shared"])
            squares_of_first = ops.CreateCounter([], ["squares_of_first"])
            squares_of_second = ops.CreateCounter([], ["squares_of_second"])
        with ops.task_instance_init():
            first = ops.CreateCounter([], ["first"])
        second = ops.CreateCounter([], ["second"])
        with ops.loop(turns):
            ops.CountUp(shared)
            ops.CountUp(first)
            ops.CountUp(second)
        with ops.task_instance_exit():
            count = ops.RetrieveCount(first)
            with ops.loop(ops.Mul([count, count])):
                ops.CountUp(squares_of_first)
        count = ops.RetrieveCount(second)
        with ops.loop(ops.Mul([count, count])):
            ops.CountUp(squares_of_second)
        with ops.task_exit():
            totals = [
                final_output(ops.RetrieveCount(counter))
                for counter in (shared, squares_of_first, squares_of_second)
            ]
    with LocalSession() as session:
        session.run(group)
    assert [total.fetch() for total in totals] == [instances * turns] + [instances * turns**2] * 2


def test_each_instance_has_a_python_operator_of_its_own() -> None:
    instances, calls = [], []

    def build() -> Any:
        instances.append(None)
        return lambda inputs, outputs: calls.append(None)

    with Task(num_instances=6) as task, ops.loop(4):
        ops.Python((build, [], {}))([], [])
    with LocalSession() as session:
        session.run(task)
    assert (len(instances), len(calls)) == (6, 24)


def test_reporters_run_at_least_once() -> None:
    shown: list[str] = []

    def note(text: str) -> Any:
        return lambda inputs, outputs: shown.append(text)

    with TaskGroup() as group:
        with Task():
            with ops.task_reporter(interval_ms=60_000):
                ops.Python((note, ["task"], {}))([], [])
            ops.Const(1)
        with ops_of_group():
            ops.Python((note, ["group"], {}))([], [])
    with LocalSession() as session:
        session.run(group)
    assert sorted(shown) == ["group", "task"]


def ops_of_group() -> Any:
    """A reporter of the current group."""
    return ops.local_reporter(interval_ms=60_000)


def test_if_net() -> None:
    with NetBuilder() as builder:
        x0, x1, x2, y0, y1, y2 = (ops.Const(value) for value in (0, 1, 2, 0, 1, 2))
        yes = ops.Const(0)
        with ops.IfNet(ops.Const(True)):
            ops.Const(1, blob_out=yes)
        with ops.Else():
            ops.Const(2, blob_out=yes)
        no = ops.Const(0)
        with ops.IfNet(ops.Const(False)):
            ops.Const(1, blob_out=no)
        with ops.Else():
            ops.Const(2, blob_out=no)
        with ops.IfNet(ops.LT([x0, x1])):
            local = ops.Const(900)
            ops.Add([ops.Const(100), local], [y0])
            with ops.IfNet(ops.GT([x1, x2])):
                pass
            with ops.Else():
                ops.Add([y1, local], [local])
                ops.Add([ops.Const(100), y1], [y1])
            with ops.IfNet(ops.EQ([local, ops.Const(901)])):
                ops.Const(7, blob_out=y2)
                ops.Add([y1, y2], [y2])
        with ops.Else():
            pass
    inside = _run(builder)
    assert [_value(inside, blob) for blob in (yes, no, y0, y1, y2)] == [1, 2, 1000, 101, 108]
    assert str(local) not in inside.blobs


def test_while_net() -> None:
    with NetBuilder() as builder:
        x, y = ops.Const(0), ops.Const(0)
        with ops.WhileNet():
            with ops.Condition():
                ops.Add([x, ops.Const(1)], [x])
                ops.LT([x, ops.Const(7)])
            ops.Add([x, y], [y])
    inside = _run(builder)
    assert (_value(inside, x), _value(inside, y)) == (7, 21)


def test_what_control_nets_refuse() -> None:
    with NetBuilder():
        with pytest.raises(AssertionError, match="right behind an IfNet"):
            ops.Else()
        with pytest.raises(AssertionError, match="outside of WhileNet"):
            ops.Condition()
        with pytest.raises(AssertionError, match="Condition builder must be specified"), ops.WhileNet():
            ops.Const(1)
    with NetBuilder(), pytest.raises(AssertionError, match="no Loop"), ops.IfNet(ops.Const(True)):
        ops.loop(3)


def test_gradient_through_an_if_net() -> None:
    """The slope of x*x*w if the condition holds, else of x*w."""
    for holds, slope in ((True, 9.0), (False, 3.0)):
        workspace.ResetWorkspace()
        with NetBuilder(_use_control_ops=True, initial_scope=["x", "w", "y", "holds"]) as builder:
            with ops.IfNet(core.BlobReference("holds")):
                ops.Mul([ops.Mul(["x", "x"]), "w"], "y")
            with ops.Else():
                ops.Mul(["x", "w"], "y")
        (net,) = builder.get()
        for name, value in {"x": [3.0], "w": [2.0], "y": [0.0]}.items():
            workspace.FeedBlob(name, np.array(value, np.float32))
        workspace.FeedBlob("holds", np.array(holds))
        gradients = net.AddGradientOperators(["y"])
        workspace.RunNetOnce(net)
        assert workspace.FetchBlob("y") == 2.0 * slope
        assert workspace.FetchBlob(gradients["w"]) == slope


def test_names_are_those_of_the_builder() -> None:
    with NetBuilder("outer"):
        first = core.Net("inside")
        with NetBuilder("inner"):
            second = core.Net("inside")
    assert first.Name() == "outer/inside"
    assert second.Name() == "outer/inner/inside"


def test_ops_without_a_builder() -> None:
    assert not hasattr(ops, "Add")
    with pytest.raises(AttributeError, match="needs an active NetBuilder"):
        ops.Add(["a", "b"])


def test_a_group_of_tasks_is_a_part() -> None:
    with NetBuilder() as builder:
        counter = ops.CreateCounter([], ["counter"])
        with ops.task_group():
            for _ in range(3):
                with Task(workspace_type="global"):
                    ops.CountUp(counter)
        count = ops.RetrieveCount(counter)
    assert _value(_run(builder), count) == 3
