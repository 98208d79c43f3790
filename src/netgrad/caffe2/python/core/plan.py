"""Execution steps and plans: which nets run, in which order and how often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from netgrad.caffe2.caffe2_pb2 import ExecutionStep as ExecutionStepMessage
from netgrad.caffe2.caffe2_pb2 import NetDef, PlanDef
from netgrad.caffe2.python.core.blob_reference import BlobReference, ScopedName
from netgrad.caffe2.python.core.net import Net
from netgrad.caffe2.python.core.net_names import unique_net_name


class ExecutionStep:
    """Runs nets, or other steps, in order.

    A step holds either nets or steps. Once it is part of a plan or of another step it may not be changed.
    """

    def __init__(self, name: str | None, nets: Any = None, num_iter: int | None = None) -> None:
        """Start a step.

        Args:
            name: Its name; without one ``step``, ``step_1``, ...
            nets: A net or a list of them.
            num_iter: How often it runs.
        """
        self._step = ExecutionStepMessage(name=name or unique_net_name("step"))
        self._nets: list[Net] = []
        self._substeps: list[ExecutionStep] = []
        self._locked = False
        if nets is not None:
            for net in [nets] if isinstance(nets, Net) else nets:
                self.AddNet(net)
        if num_iter is not None:
            self._step.num_iter = num_iter

    @staticmethod
    def create_from_proto(
        step_proto: ExecutionStepMessage, net_obj_dict: dict[str, Net], net_proto_dict: Mapping[str, NetDef]
    ) -> ExecutionStep:
        """A step from its message.

        Args:
            step_proto: The message.
            net_obj_dict: Nets by name; those that are made are added.
            net_proto_dict: Messages of nets by name.

        Raises:
            AssertionError: It has neither nets nor steps, or both; or a net isn't there.
        """
        assert isinstance(step_proto, ExecutionStepMessage), f"a message of a step, not {step_proto!r}"
        assert bool(step_proto.network) != bool(step_proto.substep), "a step holds nets or steps"
        for name in step_proto.network:
            if name not in net_obj_dict:
                assert name in net_proto_dict, f"step {step_proto.name} runs net {name}, which is not there"
                net_obj_dict[name] = Net(net_proto_dict[name])
        parts: list[Any] = [net_obj_dict[name] for name in step_proto.network] or [
            ExecutionStep.create_from_proto(substep, net_obj_dict, net_proto_dict)
            for substep in step_proto.substep
        ]
        step = ExecutionStep(step_proto.name)
        for part in parts:
            if isinstance(part, Net):
                step.AddNet(part)
            else:
                step.AddSubstep(part)
        for field, value in step_proto.ListFields():
            if field.name not in ("name", "network", "substep"):
                setattr(step._step, field.name, value)
        return step

    def Name(self) -> str:
        """The step's name."""
        return self._step.name

    def __str__(self) -> str:
        return self._step.name

    def Proto(self) -> ExecutionStepMessage:
        """The step's message."""
        return self._step

    def HasNets(self) -> bool:
        """Whether it holds nets."""
        return bool(self._nets)

    def HasSubsteps(self) -> bool:
        """Whether it holds steps."""
        return bool(self._substeps)

    def Nets(self) -> list[Net]:
        """Its nets."""
        return self._nets

    def Substeps(self) -> list[ExecutionStep]:
        """Its steps."""
        return self._substeps

    def AddNet(self, net: Net) -> None:
        """Add a net."""
        self._check_open()
        assert not self.HasSubsteps(), "a step holds nets or steps, not both"
        assert isinstance(net, Net), f"a net, not {net!r}"
        self._nets.append(net)
        self._step.network.append(net.Name())

    def AddSubstep(self, substep: ExecutionStep) -> ExecutionStep:
        """Add a step; one without anything to run is dropped. Returns this step."""
        self._check_open()
        assert not self.HasNets(), "a step holds nets or steps, not both"
        if not substep.HasNets() and not substep.HasSubsteps():
            return self
        substep._locked = True
        self._substeps.append(substep)
        self._step.substep.add().CopyFrom(substep.Proto())
        return self

    def SetIter(self, num_iter: int) -> None:
        """How often it runs."""
        self._check_open()
        self._step.num_iter = num_iter

    def SetOnlyOnce(self, only_once: bool) -> None:
        """Whether it runs once although it has a stop blob."""
        self._check_open()
        self._step.only_once = only_once

    def SetShouldStopBlob(self, should_stop_blob: BlobReference) -> None:
        """The blob that says when to stop."""
        self._check_open()
        assert isinstance(should_stop_blob, BlobReference), f"a reference, not {should_stop_blob!r}"
        self._step.should_stop_blob = str(should_stop_blob)

    def RunEveryMillis(self, interval: int) -> None:
        """Run beside its siblings at this interval, in milliseconds."""
        self._check_open()
        self._step.run_every_ms = interval

    def SetReportNet(self, report_net: Net, report_interval: int) -> None:
        """A net that reports (deprecated)."""
        self._check_open()
        self._step.report_net = report_net.Name()
        self._step.report_interval = report_interval

    def SetConcurrentSubsteps(self, concurrent_substeps: bool) -> None:
        """Whether its steps run each in a thread of its own."""
        self._check_open()
        self._step.concurrent_substeps = concurrent_substeps

    def SetNumConcurrentInstances(self, num_concurrent_instances: int) -> None:
        """How many copies run at once."""
        self._check_open()
        self._step.num_concurrent_instances = num_concurrent_instances

    def SetCreateWorkspace(self, create_workspace: bool) -> None:
        """Whether it runs in a workspace of its own."""
        self._check_open()
        self._step.create_workspace = create_workspace

    def get_net(self, name: str) -> Net | None:
        """The first net of that name in it or its steps."""
        return next((net for net in self._all_nets() if net.Name() == name), None)

    def get_all_attributes(self, name: str) -> list[Any]:
        """What its nets have noted under a name."""
        return [note for net in self._all_nets() for note in net.get_attributes(name)]

    def _all_nets(self) -> Iterable[Net]:
        pending: list[ExecutionStep] = [self]
        while pending:
            step = pending.pop(0)
            yield from step._nets
            pending[:0] = step._substeps

    def _check_open(self) -> None:
        assert not self._locked, f"step {self.Name()} is part of a plan or step and may not be changed"


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
        self.AddNets(step._all_nets())

    def get_all_attributes(self, name: str) -> list[Any]:
        """What its nets have noted under a name."""
        return [note for net in self.Nets() for note in net.get_attributes(name)]


def execution_step(
    default_name: str,
    steps_or_nets: Any,
    num_iter: int | None = None,
    report_net: Net | None = None,
    report_interval: int | None = None,
    concurrent_substeps: bool | None = None,
    should_stop_blob: BlobReference | None = None,
    only_once: bool | None = None,
    num_concurrent_instances: int | None = None,
    create_workspace: bool = False,
    run_every_ms: int | None = None,
) -> ExecutionStep:
    """A step from a net, a step, or a list of either.

    Without a number of iterations and a stop blob it runs once; both together are refused.

    Raises:
        AssertionError: Both are given.
        ValueError: ``steps_or_nets`` is something else.
    """
    assert should_stop_blob is None or num_iter is None, "a step has a stop blob or a number of iterations"
    if should_stop_blob is None and num_iter is None:
        num_iter = 1
    step = ExecutionStep(default_name)
    if should_stop_blob is not None:
        step.SetShouldStopBlob(should_stop_blob)
    if only_once is not None:
        step.SetOnlyOnce(only_once)
    if num_iter is not None:
        step.SetIter(num_iter)
    if concurrent_substeps is not None:
        step.SetConcurrentSubsteps(concurrent_substeps)
    if report_net is not None:
        assert report_interval is not None, "a net that reports needs an interval"
        step.SetReportNet(report_net, report_interval)
    if num_concurrent_instances is not None:
        step.SetNumConcurrentInstances(num_concurrent_instances)
    if create_workspace:
        step.SetCreateWorkspace(True)
    if run_every_ms:
        step.RunEveryMillis(run_every_ms)
    for part in steps_or_nets if isinstance(steps_or_nets, list | tuple) else [steps_or_nets]:
        if isinstance(part, Net):
            step.AddNet(part)
        elif isinstance(part, ExecutionStep):
            step.AddSubstep(part)
        elif part is not None:
            raise ValueError(f"a step holds nets or steps, not {part!r} ({type(part).__name__})")
    return step


def scoped_execution_step(name: str | None, *args: Any, **kwargs: Any) -> ExecutionStep:
    """`execution_step` with a name in the name scope."""
    return execution_step(ScopedName(name or unique_net_name("step")), *args, **kwargs)


def output_to_list(op_output: Any) -> list[Any]:
    """What an operator call returned, as a list.

    Raises:
        AssertionError: It is nothing that one returns.
    """
    assert op_output is None or isinstance(op_output, list | tuple | BlobReference), f"{op_output!r}"
    if op_output is None:
        return []
    return [op_output] if isinstance(op_output, BlobReference) else list(op_output)
