"""Plans: steps, and the nets that they run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from netgrad.caffe2.caffe2_pb2 import NetDef, PlanDef
from netgrad.caffe2.python.core.net import Net
from netgrad.caffe2.python.core.steps import ExecutionStep


class Plan:
    """Steps to run one after the other, and the nets that they run."""

    def __init__(self, name_or_step: str | ExecutionStep) -> None:
        """Start a plan of this name, or one with a step."""
        name = name_or_step if isinstance(name_or_step, str) else f"{name_or_step.Name()}_plan"
        self._plan = PlanDef(name=name)
        self._steps: list[ExecutionStep] = []
        self._nets: dict[str, Net] = {}
        if isinstance(name_or_step, ExecutionStep):
            self._plan.name = name_or_step.Name()
            self.AddStep(name_or_step)

    @staticmethod
    def create_from_proto(plan_proto: PlanDef) -> Plan:
        """A plan from its message. Its nets get names that are unique in the process.

        Raises:
            AssertionError: Two of its nets have one name, or a step runs a net that isn't there.
        """
        assert isinstance(plan_proto, PlanDef), f"a message of a plan, not {plan_proto!r}"
        plan = Plan(plan_proto.name)
        plan._plan.CopyFrom(plan_proto)
        del plan._plan.network[:], plan._plan.execution_step[:]
        messages: dict[str, NetDef] = {}
        for net in plan_proto.network:
            assert net.name not in messages, f"plan {plan_proto.name} has two nets of the name {net.name}"
            messages[net.name] = net
        made: dict[str, Net] = {}
        for step in plan_proto.execution_step:
            plan.AddStep(ExecutionStep.create_from_proto(step, made, messages))
        return plan

    def __str__(self) -> str:
        return self._plan.name

    def Proto(self) -> PlanDef:
        """The plan's message."""
        return self._plan

    def Nets(self) -> list[Net]:
        """Its nets, in the order in which they are first used."""
        return list(self._nets.values())

    def Steps(self) -> list[ExecutionStep]:
        """Its steps."""
        return self._steps

    def AddNets(self, nets: Iterable[Net]) -> None:
        """Add nets.

        Raises:
            AssertionError: The plan has another net of the name.
        """
        for net in nets:
            known = self._nets.get(net.Name())
            assert known is None or known is net, f"the plan has another net of the name {net.Name()}"
            if known is None:
                self._nets[net.Name()] = net
                self._plan.network.add().CopyFrom(net.Proto())

    def AddStep(self, step: ExecutionStep) -> None:
        """Add a step; one without anything to run is dropped."""
        if not step.HasNets() and not step.HasSubsteps():
            return
        step._locked = True
        self._plan.execution_step.add().CopyFrom(step.Proto())
        self._steps.append(step)
        self.AddNets(step.all_nets())

    def get_all_attributes(self, name: str) -> list[Any]:
        """What its nets have noted under a name."""
        return [note for net in self.Nets() for note in net.get_attributes(name)]
