"""Faults of programs that can be seen before they run."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.python import core
from netgrad.caffe2.python.checkpoint import Job
from netgrad.caffe2.python.task import Task, TaskGroup, WorkspaceType

_PREFIXES_TO_IGNORE = ("distributed_ctx_init",)
_LIMIT = 2**26


def analyze(obj: Any) -> None:
    """Look for blobs that nobody writes, or that parallel steps write alike.

    What is looked at is a net, a step, a plan, a task, a group of tasks or a job. Tasks of one node see each
    other's blobs, unless they have private workspaces.

    Raises:
        AssertionError: There is one; or the message of a task would be larger than 64 MB.
        TypeError: ``obj`` is something else.
    """
    if isinstance(obj, Job):
        nodes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        _analyze_group(obj.init_group, nodes)
        _analyze_group(obj.epoch_group, nodes)
    elif isinstance(obj, TaskGroup):
        _analyze_group(obj, defaultdict(Counter))
    else:
        _analyze(obj, Counter())


def _analyze_group(group: TaskGroup, nodes: defaultdict[str, Counter[str]]) -> None:
    for task in group.tasks_by_node().tasks():
        _analyze(task, nodes[task.node])


def _analyze(obj: Any, blobs: Counter[str]) -> None:
    if isinstance(obj, OperatorDef):
        for blob in obj.input:
            _need(blob, blobs)
        blobs.update(obj.output)
    elif isinstance(obj, NetDef):
        for op in obj.op:
            _analyze(op, blobs)
    elif isinstance(obj, core.Net):
        _analyze(obj.Proto(), blobs)
    elif isinstance(obj, core.Plan):
        for step in obj.Steps():
            _analyze(step, blobs)
    elif isinstance(obj, core.ExecutionStep):
        _analyze_step(obj, blobs)
    elif isinstance(obj, Task):
        step = obj.get_step()
        plan = core.Plan(obj.node)
        plan.AddStep(step)
        size = plan.Proto().ByteSize()
        assert size < _LIMIT, f"the plan of task {obj.name} has {size} bytes; {_LIMIT} are too many"
        shared = obj.workspace_type() == WorkspaceType.GLOBAL
        _analyze_step(step, blobs if shared else Counter(blobs))
    else:
        raise TypeError(
            f"nets, operators, steps, plans, tasks and jobs can be analyzed, not {type(obj).__name__}"
        )


def _need(blob: str, blobs: Counter[str]) -> None:
    assert blob in blobs or blob.startswith(_PREFIXES_TO_IGNORE), f"Blob undefined: {blob}"


def _analyze_step(step: core.ExecutionStep, around: Counter[str]) -> None:
    proto = step.Proto()
    blobs = Counter(around) if proto.create_workspace else around
    report = step.get_net(proto.report_net) if proto.report_net else None
    if report is not None:
        _analyze(report, Counter(blobs))
    of_siblings: set[str] = set()
    for child in (*step.Substeps(), *step.Nets()):
        inside = Counter(blobs) if proto.concurrent_substeps else blobs
        _analyze(child, inside)
        if proto.should_stop_blob:
            _need(proto.should_stop_blob, inside)
        if proto.concurrent_substeps:
            new = set(inside) - set(blobs)
            both = ", ".join(sorted(new & of_siblings))
            assert not both, f"Error: Blobs created by multiple parallel steps: {both}"
            of_siblings |= new
    blobs.update(of_siblings)
