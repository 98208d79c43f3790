"""Execution steps: which nets run, in which order and how often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from netgrad.caffe2.caffe2_pb2 import ExecutionStep as ExecutionStepMessage
from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.python.core.blob_reference import BlobReference, ScopedName
from netgrad.caffe2.python.core.net import Net
from netgrad.caffe2.python.core.net_names import unique_step_name


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
        self._step = ExecutionStepMessage(name=name or unique_step_name("step"))
        self._nets: list[Net] = []
        self._substeps: list[ExecutionStep] = []
        self._report_net: Net | None = None
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

        def net_of(name: str) -> Net:
            if name not in net_obj_dict:
                assert name in net_proto_dict, f"step {step_proto.name} runs net {name}, which is not there"
                net_obj_dict[name] = Net(net_proto_dict[name])
            return net_obj_dict[name]

        parts: list[Any] = [net_of(name) for name in step_proto.network] or [
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
            if field.name not in ("name", "network", "substep", "report_net"):
                setattr(step._step, field.name, value)
        if step_proto.report_net:
            step.SetReportNet(net_of(step_proto.report_net), step_proto.report_interval)
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

    def AddNet(self, net: Net) -> ExecutionStep:
        """Add a net; returns this step."""
        self._check_open()
        assert not self.HasSubsteps(), "a step holds nets or steps, not both"
        assert isinstance(net, Net), f"a net, not {net!r}"
        self._nets.append(net)
        self._step.network.append(net.Name())
        return self

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
        self._report_net = report_net
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
        return next((net for net in self.all_nets() if net.Name() == name), None)

    def get_all_attributes(self, name: str) -> list[Any]:
        """What its nets have noted under a name."""
        return [note for net in self.all_nets() for note in net.get_attributes(name)]

    def all_nets(self) -> Iterable[Net]:
        """The nets of it and of its steps in the order of their use, a net that reports behind the others."""
        for substep in self._substeps:
            yield from substep.all_nets()
        yield from self._nets
        if self._report_net is not None:
            yield self._report_net

    def _check_open(self) -> None:
        assert not self._locked, f"step {self.Name()} is part of a plan or step and may not be changed"


def execution_step(
    default_name: str | None,
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
    """A step from a net, a step, or a list of either; nets beside steps become steps of their own.

    Without a number of iterations and a stop blob it runs once; both together are refused. What
    `to_execution_step` takes can be in the list too.

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
    parts = steps_or_nets if isinstance(steps_or_nets, list | tuple) else [steps_or_nets]
    if all(isinstance(part, Net) for part in parts):
        for part in parts:
            step.AddNet(part)
    else:
        for part in parts:
            if part is not None:
                step.AddSubstep(to_execution_step(part))
    return step


class Built(Protocol):
    """What a program has been collected in, such as a net builder.

    Attributes:
        name: Name of the step that it becomes.
        step_stop_blob: The blob that stops it, if there is one.
    """

    name: str
    step_stop_blob: BlobReference | None

    def get(self) -> list[Any]:
        """Its nets and steps, or others like itself; nothing is added any more."""


def to_execution_step(step_or_nets: Any, default_name: str | None = None) -> ExecutionStep:
    """A step as it is; or one that runs a net, a list of nets and steps, or what a net builder has.

    Raises:
        ValueError: ``step_or_nets`` is something else.
    """
    if isinstance(step_or_nets, ExecutionStep):
        return step_or_nets
    if isinstance(step_or_nets, Net | list | tuple):
        return execution_step(default_name, step_or_nets)
    if hasattr(step_or_nets, "get") and hasattr(step_or_nets, "step_stop_blob"):
        built: Built = step_or_nets
        return execution_step(default_name or built.name, built.get(), should_stop_blob=built.step_stop_blob)
    raise ValueError(f"a step holds nets or steps, not {step_or_nets!r} ({type(step_or_nets).__name__})")


def scoped_execution_step(name: str | None, *args: Any, **kwargs: Any) -> ExecutionStep:
    """`execution_step` with a name in the name scope."""
    return execution_step(ScopedName(name or unique_step_name("step")), *args, **kwargs)
