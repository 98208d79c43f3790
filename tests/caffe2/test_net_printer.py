"""Nets, steps and plans as text."""

from __future__ import annotations

import numpy as np
import pytest

from netgrad.caffe2.python import control, core, net_printer, workspace


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
