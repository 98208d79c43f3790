"""Nets, steps, plans, tasks and jobs as text that reads like the program that made them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from netgrad.caffe2.arguments import value_of
from netgrad.caffe2.caffe2_pb2 import Argument, DeviceOption, NetDef, OperatorDef, PlanDef
from netgrad.caffe2.python import core
from netgrad.caffe2.python.checkpoint import Job
from netgrad.caffe2.python.task import Task, TaskGroup, TaskOutput


def to_string(obj: Any, **kwargs: Any) -> str:
    """A net, a step, a plan or one of their messages as text; or a task, a group of tasks or a job.

    Args:
        obj: What is shown.
        **kwargs: ``factor_prefixes``: whether a prefix that all operands share is written once.

    Raises:
        TypeError: ``obj`` is something else.
    """
    printer = _Printer(kwargs.pop("factor_prefixes", False))
    if kwargs:
        raise TypeError(f"to_string doesn't know {', '.join(kwargs)}")
    printer.show(obj)
    return "\n".join(printer.lines)


def call(
    op: str, inputs: Sequence[Any] = (), outputs: Sequence[Any] | None = None, factor_prefixes: bool = False
) -> str:
    """``outputs = op(inputs)``. An input may be a pair of a name and a value."""
    read = _operands([one if isinstance(one, str) else f"{one[0]}={one[1]}" for one in inputs], False)
    if inputs and factor_prefixes:
        names = [one for one in inputs if isinstance(one, str)]
        rest = [f"{one[0]}={one[1]}" for one in inputs if not isinstance(one, str)]
        read = ", ".join([*([_operands(names, True)] if names else []), *rest])
    text = f"{op}({read})"
    return text if not outputs else f"{_operands(list(outputs), factor_prefixes)} = {text}"


def _operands(names: Sequence[str], factor: bool) -> str:
    prefix = _common_prefix(names) if factor and len(names) > 1 else ""
    if len(prefix) < 4:  # shorter ones make it harder to read
        return ", ".join(names)
    return f"{prefix}[{', '.join(name[len(prefix) :] for name in names)}]"


def _common_prefix(names: Sequence[str]) -> str:
    first, last = min(names), max(names)
    count = next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:count]


def _shown(argument: Argument) -> str:
    value = value_of(argument)
    if isinstance(value, bytes):
        return repr(value.decode(errors="backslashreplace"))
    if isinstance(value, tuple):
        texts = [one.decode(errors="backslashreplace") if isinstance(one, bytes) else one for one in value]
        return f"[{', '.join(map(repr, texts))}]"
    return repr(value)


def _device(option: DeviceOption) -> str:
    fields = {field.name: value for field, value in option.ListFields()}
    return ", ".join(f"{name}={value}" for name, value in fields.items())


class _Printer:
    def __init__(self, factor_prefixes: bool) -> None:
        self.lines: list[str] = []
        self._factor = factor_prefixes
        self._indent = 0

    def show(self, obj: Any) -> None:
        if isinstance(obj, core.Net):
            self._net(obj.Proto())
        elif isinstance(obj, NetDef):
            self._net(obj)
        elif isinstance(obj, OperatorDef):
            self._operator(obj)
        elif isinstance(obj, core.ExecutionStep):
            self._step(obj)
        elif isinstance(obj, PlanDef):
            self.show(core.Plan.create_from_proto(obj))
        elif isinstance(obj, core.Plan):
            with self._inside(f"plan {obj}"):
                for step in obj.Steps():
                    with self._inside(call("step", [step.Name()])):
                        self._step(step)
        elif isinstance(obj, Task):
            self._task(obj)
        elif isinstance(obj, TaskGroup):
            self._group(obj, call("TaskGroup"))
        elif isinstance(obj, Job):
            self._job(obj)
        else:
            raise TypeError(
                f"nets, operators, steps, plans, tasks and jobs can be shown, not {type(obj).__name__}"
            )

    def _add(self, line: str) -> None:
        self.lines.append("  " * self._indent + line)

    @contextlib.contextmanager
    def _inside(self, title: str | None) -> Iterator[None]:
        if title is None:
            yield
            return
        self._add(f"with {title}:")
        self._indent += 1
        yield
        self._indent -= 1

    def _net(self, net: NetDef) -> None:
        self._add(f"# net: {net.name}")
        for op in net.op:
            self._operator(op)

    def _operator(self, op: OperatorDef) -> None:
        nets = [argument for argument in op.arg if argument.HasField("n")]
        details: list[Any] = [(arg.name, _shown(arg)) for arg in op.arg if not arg.HasField("n")]
        if op.HasField("device_option") and _device(op.device_option):
            details.append(("device_option", _device(op.device_option)))
        self._add(call(op.type, [*op.input, *details], op.output, self._factor))
        for argument in nets:
            with self._inside(f"arg: {argument.name}"):
                self._net(argument.n)

    def _step(self, step: core.ExecutionStep) -> None:
        proto = step.Proto()
        children: list[Any] = [*step.Substeps(), *step.Nets()]
        title, in_threads = _title(step)
        with self._inside(title):
            report = step.get_net(proto.report_net) if proto.report_net else None
            if report is not None:
                with self._inside(call("report_net", [str(proto.report_interval)])):
                    self.show(report)
            for child in children:
                with self._inside(_child_title(child, in_threads)):
                    self.show(child)
                if proto.should_stop_blob:
                    self._add(call("yield stop_if", [proto.should_stop_blob]))

    def _task(self, task: Task) -> None:
        outputs = ", ".join(_output(output) for output in task.outputs())
        details = [("node", task.node), ("name", task.name), ("outputs", outputs)]
        with self._inside(call("Task", details)):
            self._step(task.get_step())

    def _group(self, group: TaskGroup, title: str) -> None:
        with self._inside(title):
            for task in group.tasks_by_node().tasks():
                self._task(task)

    def _job(self, job: Job) -> None:
        job_now = "Job.current()"
        self._group(job.init_group, f"{job_now}.init_group")
        self._group(job.epoch_group, f"{job_now}.epoch_group")
        with self._inside(f"{job_now}.stop_conditions"):
            for output in job.stop_conditions:
                self._add(_output(output))
        self._group(job.download_group, f"{job_now}.download_group")
        self._group(job.exit_group, f"{job_now}.exit_group")


def _output(output: TaskOutput) -> str:
    return f"Output[{', '.join(str(name) for name in output.names)}]"


def _title(step: core.ExecutionStep) -> tuple[str | None, bool]:
    """What is written above the parts of a step, and whether they run at once."""
    proto = step.Proto()
    at_once = bool(proto.concurrent_substeps) and len(step.Substeps()) > 1
    if proto.should_stop_blob:
        return (None if proto.only_once else call("loop")), at_once
    if proto.HasField("num_iter") and proto.num_iter != 1:
        return call("loop", [str(proto.num_iter)]), at_once
    if proto.num_concurrent_instances > 1:
        return call("parallel", [("num_instances", proto.num_concurrent_instances)]), at_once
    return (call("parallel") if at_once else call("run_once") if proto.report_net else None), at_once


def _child_title(child: Any, in_threads: bool) -> str | None:
    if not isinstance(child, core.ExecutionStep):
        return None
    if child.Proto().run_every_ms:
        return call("reporter", [str(child), ("interval_ms", child.Proto().run_every_ms)])
    if in_threads:
        return call("workspace" if child.Proto().create_workspace else "step", [str(child)])
    return None
