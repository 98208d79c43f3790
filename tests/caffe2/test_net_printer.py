"""Nets, steps, plans, tasks and jobs as text, and their faults."""

from __future__ import annotations

import numpy as np
import pytest

from netgrad.caffe2.python import control, core, net_printer, workspace
from netgrad.caffe2.python.checkpoint import Job
from netgrad.caffe2.python.net_builder import ops
from netgrad.caffe2.python.task import Task, TaskGroup, WorkspaceType, final_output


def _net(name: str, read: str, written: str) -> core.Net:
    net = core.Net(name)
    net.Relu(read, written)
    return net


def test_a_net() -> None:
    net = core.Net("shown")
    net.ConstantFill([], "x", shape=[2, 3], value=1.5)
    with core.DeviceScope(core.DeviceOption(0, node_name="n")):
        net.Split("x", ["part_of_x_1", "part_of_x_2"], axis=0, order="NCHW")
    lines = net_printer.to_string(net).split("\n")
    assert lines == [
        f"# net: {net.Name()}",
        "x = ConstantFill(shape=[2, 3], value=1.5)",
        "part_of_x_1, part_of_x_2 = Split(x, axis=0, order='NCHW', device_option=device_type=0, "
        "device_id=0, node_name=n)",
    ]
    assert "part_of_x_[1, 2] = Split" in net_printer.to_string(net.Proto(), factor_prefixes=True)


def test_nets_inside_operators() -> None:
    op = core.CreateOperator("If", ["c"], [], then_net=_net("then", "x", "y").Proto())
    first, second, third, last = net_printer.to_string(op).split("\n")
    assert (first, second, last) == ("If(c)", "with arg: then_net:", "  y = Relu(x)")
    assert third.startswith("  # net: then")


def test_steps_and_plans() -> None:
    plan = core.Plan("p")
    plan.AddStep(control.For("loop", [_net("a", "x", "y")], 3))
    plan.AddStep(control.DoParallel("both", _net("b", "x", "u"), _net("c", "x", "v")))
    text = net_printer.to_string(plan)
    assert "with loop(3):" in text
    assert "with parallel():" in text
    assert "    y = Relu(x)" in text
    condition = core.Net("condition")
    condition.AddExternalOutput(condition.LT(["x", "y"], "less"))
    assert "yield stop_if" in net_printer.to_string(control.While("w", condition, _net("d", "x", "y")))
    with pytest.raises(TypeError, match="not int"):
        net_printer.to_string(3)


def test_a_net_that_tells_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    workspace.FeedBlob("x", np.array([-1.0, 2.0], np.float32))
    workspace.RunNetOnce(net_printer.debug_net(_net("quiet", "x", "y")))
    assert capsys.readouterr().out.strip() == "y = Relu(x)"
    np.testing.assert_array_equal(workspace.FetchBlob("y"), [0, 2])


def test_faults() -> None:
    fill = core.Net("fill")
    fill.ConstantFill([], "x", shape=[1])
    net_printer.analyze(control.Do("right", fill, _net("a", "x", "y")))
    with pytest.raises(AssertionError, match="Blob undefined: x"):
        net_printer.analyze(control.Do("wrong", _net("b", "x", "y"), fill))
    both = control.DoParallel("both", _net("c", "x", "y"), _net("d", "x", "y"))
    with pytest.raises(AssertionError, match="multiple parallel steps: y"):
        net_printer.analyze(control.Do("all", fill, both))


def _job() -> Job:
    with Job() as job:
        with job.init_group, Task():
            total = ops.Const(0)
            with ops.loop(10) as turn:
                with ops.If(ops.GE([turn.iter(), ops.Const(5)])) as branch:
                    ops.Add([total, turn.iter()], [total])
                with branch.Else():
                    ops.Add([total, ops.Const(1)], [total])
        with Task():
            with ops.task_init():
                one = ops.Const(1)
            two = ops.Add([one, one])
            with ops.task_exit():
                three = ops.Add([two, one])
            job.add_stop_condition(final_output(three))
            with Task(num_instances=2):
                with ops.task_instance_init():
                    own = ops.Const(2)
                ops.Add([own, own], [own])
                ops.LogInfo("text")
    return job


def test_jobs() -> None:
    job = _job()
    net_printer.analyze(job)
    lines = net_printer.to_string(job).split("\n")
    assert [line for line in lines if not line.startswith(" ")] == [
        f"with Job.current().{part}:"
        for part in ("init_group", "epoch_group", "stop_conditions", "download_group", "exit_group")
    ]
    text = "\n".join(lines)
    assert "  with Task(node=local, name=local/grouped_by_node, outputs=Output[" in text
    for part in ("with loop():", "yield stop_if(", "with parallel(num_instances=2):", "with parallel():"):
        assert part in text
    assert f"  Output[{job.stop_conditions[0].names[0]}]" in lines


def test_groups_and_tasks() -> None:
    with TaskGroup() as group, Task(name="mine", outputs="y") as task:
        ops.Relu("x", "y")
    title, *rest = net_printer.to_string(task).split("\n")
    assert title == "with Task(node=local, name=local/mine, outputs=Output[y]):"
    assert rest[-1] == "  y = Relu(x)"
    assert net_printer.to_string(group).startswith("with TaskGroup():\n  with Task(node=local")
    with pytest.raises(AssertionError, match="Blob undefined: x"):
        net_printer.analyze(task)


def test_blobs_that_a_job_does_not_write() -> None:
    job = _job()
    with job, Task():
        ops.Add(["distributed_ctx_init_a", "distributed_ctx_init_b"])  # others write those
    net_printer.analyze(job)
    job = _job()
    with job, Task():
        ops.Add(["a", "b"])
    with pytest.raises(AssertionError, match=r"^Blob undefined: a$"):
        net_printer.analyze(job)


def test_tasks_of_a_group_write_different_blobs() -> None:
    with TaskGroup(WorkspaceType.GLOBAL) as group:
        for _ in range(2):
            with Task():
                ops.Copy(ops.Const(0), "out")
    with pytest.raises(AssertionError, match="multiple parallel steps: out"):
        net_printer.analyze(group)
    with TaskGroup() as private:
        for _ in range(2):
            with Task():
                ops.Copy(ops.Const(0), "out")
    net_printer.analyze(private)


def test_what_the_first_group_of_a_job_writes_is_there_in_the_next() -> None:
    with Job() as job:
        with job.init_group, Task():
            shared = ops.Const(0)
        with Task():
            ops.Copy(shared, "copy")
    net_printer.analyze(job)
    with Job() as other:
        with other.init_group, Task(node="elsewhere"):
            shared = ops.Const(0)
        with Task():
            ops.Copy(shared, "copy")
    with pytest.raises(AssertionError, match="Blob undefined"):
        net_printer.analyze(other)
