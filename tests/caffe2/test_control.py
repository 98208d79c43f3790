"""Execution steps of module ``control``, run by plans that count."""

from __future__ import annotations

from typing import Any

import pytest

from netgrad.caffe2.python import control, core, workspace


class _Counting:
    """Nets that count, and conditions on the count."""

    def __init__(self) -> None:
        self.init = core.Net("init")
        self.init.ConstantFill([], "n", shape=[], value=0, dtype=core.DataType.INT64)
        self.init.ConstantFill([], "m", shape=[], value=0, dtype=core.DataType.INT64)
        self.init.ConstantFill([], "one", shape=[], value=1, dtype=core.DataType.INT64)
        self.init.ConstantFill([], "limit", shape=[], value=4, dtype=core.DataType.INT64)
        self.count, self.other = core.Net("count"), core.Net("other")
        self.count.Add(["n", "one"], "n")
        self.other.Add(["m", "one"], "m")
        self.less = self._condition("LT")
        self.not_less = self._condition("GE")

    def _condition(self, type_: str) -> core.Net:
        net = core.Net(f"is_{type_}")
        net.AddExternalOutput(getattr(net, type_)(["n", "limit"]))
        return net

    def run(self, step: core.ExecutionStep) -> tuple[int, int]:
        plan = core.Plan("plan")
        plan.AddStep(control.Do("init", self.init))
        plan.AddStep(step)
        assert workspace.RunPlan(plan)
        return workspace.FetchBlob("n").item(), workspace.FetchBlob("m").item()


@pytest.fixture
def nets() -> _Counting:
    return _Counting()


def test_in_order_and_in_parallel(nets: _Counting) -> None:
    assert nets.run(control.Do("do", nets.count, nets.other, nets.count)) == (2, 1)
    assert nets.run(control.DoParallel("all", nets.count, control.Do("b", nets.other))) == (1, 1)
    step = control.Do("one", nets.count)
    assert control.Do("same", step) is step
    with pytest.raises(ValueError, match="needs nets or steps"):
        control.Do("nothing")


def test_loops(nets: _Counting) -> None:
    assert nets.run(control.For("for", [nets.count, nets.other], 3)) == (3, 3)
    assert nets.run(control.While("while", nets.less, nets.count)) == (4, 0)
    assert nets.run(control.Until("until", nets.not_less, [control.Do("c", nets.count), nets.other])) == (
        4,
        4,
    )
    assert nets.run(control.DoWhile("do_while", nets.less, nets.count)) == (4, 0)
    assert nets.run(control.DoUntil("do_until", nets.not_less, nets.count)) == (4, 0)


def test_when_the_condition_is_asked(nets: _Counting) -> None:
    assert nets.run(control.While("w", nets.not_less, nets.count)) == (0, 0)
    assert nets.run(control.Until("u", nets.less, nets.count)) == (0, 0)
    assert nets.run(control.DoWhile("dw", nets.not_less, nets.count)) == (1, 0)
    assert nets.run(control.DoUntil("du", nets.less, nets.count)) == (1, 0)


def test_loops_in_loops_start_anew(nets: _Counting) -> None:
    reset = core.Net("reset")
    reset.ConstantFill([], "n", shape=[], value=2, dtype=core.DataType.INT64)
    inner = control.DoWhile("inner", nets.less, [nets.count, nets.other])
    assert nets.run(control.For("outer", [reset, inner], 3)) == (4, 6)


@pytest.mark.parametrize("by_blob", [False, True])
def test_branches(nets: _Counting, by_blob: bool) -> None:
    def condition(net: core.Net) -> Any:
        return str(control.GetConditionBlobFromNet(net)) if by_blob else net

    def run(step: core.ExecutionStep) -> tuple[int, int]:
        return nets.run(control.Do("all", nets.less, nets.not_less, step))

    holds, fails = condition(nets.less), condition(nets.not_less)
    assert run(control.If("a", holds, nets.count)) == (1, 0)
    assert run(control.If("b", fails, nets.count)) == (0, 0)
    assert run(control.If("c", holds, nets.count, nets.other)) == (1, 0)
    assert run(control.If("d", fails, nets.count, nets.other)) == (0, 1)
    assert run(control.IfNot("e", holds, nets.count)) == (0, 0)
    assert run(control.IfNot("f", fails, nets.count, nets.other)) == (1, 0)
    assert run(control.IfNot("g", holds, nets.count, nets.other)) == (0, 1)
    assert run(control.Switch("h", (holds, nets.count), (fails, nets.other))) == (1, 0)
    assert run(control.SwitchNot("i", [(holds, nets.count), (fails, nets.other)])) == (0, 1)


def test_a_branch_may_change_its_condition(nets: _Counting) -> None:
    blob = control.GetConditionBlobFromNet(nets.less)
    change = control.BoolNet((str(blob), False))
    step = control.If("if", blob, [nets.count, change], nets.other)
    assert nets.run(control.Do("all", nets.less, step)) == (1, 0)


def test_nets_of_conditions(nets: _Counting) -> None:
    values = control.BoolNet([("a", True), ("b", False)])
    negated, blob = control.NotNet("a")
    nets.run(control.Do("values", values, negated))
    assert [workspace.FetchBlob(name).item() for name in ("a", "b", blob)] == [True, False, False]
    both = [nets.less, nets.not_less]
    for relation, expected in (("And", False), ("Or", True)):
        combined = control.CombineConditions("combined", both, relation)
        assert combined is not None
        nets.run(control.Do("combine", *both, combined))
        assert workspace.FetchBlob(control.GetConditionBlobFromNet(combined)).item() is expected
        merged = control.MergeConditionNets("merged", both, relation)
        nets.run(control.Do("merge", merged))
        assert workspace.FetchBlob(control.GetConditionBlobFromNet(merged)).item() is expected
    assert control.CombineConditions("none", [], "And") is None
    with pytest.raises(AssertionError, match="no external output"):
        control.GetConditionBlobFromNet(core.Net("empty"))
