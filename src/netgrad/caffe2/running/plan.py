"""Running plans: steps of nets or of further steps, repeated by number or until a blob says stop."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from threading import Event, Thread
from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import ExecutionStep, NetDef, PlanDef
from netgrad.caffe2.running.blob import as_array, is_tensor
from netgrad.caffe2.running.errors import RunError
from netgrad.caffe2.running.net import CreatedNet
from netgrad.caffe2.running.turns import StoppedError, check_stopped, current_stops, stopped_by, waiting
from netgrad.caffe2.running.workspace import Workspace


def run_plan(plan: PlanDef, workspace: Workspace) -> bool:
    """Run the steps of a plan in order.

    The nets of a step are created when it starts, in the order of their use. Substeps that run at once have
    threads, which take turns (see `netgrad.caffe2.running.turns`). One with an interval runs again and again
    until the step around it has ended, and once after that; so does a net that reports.

    Returns:
        True, or there is an error.

    Raises:
        RunError: A step names a net that the plan doesn't have, two nets have one name, a step has both a
            number of iterations and a stop blob, or something in it can't run.
    """
    definitions: dict[str, NetDef] = {}
    for net in plan.network:
        if net.name in definitions:
            raise RunError(f"plan {plan.name} has two networks of the same name {net.name}")
        definitions[net.name] = net
    for step in plan.execution_step:
        _run_step(step, workspace, definitions, {})
    return True


class _Nets:
    """The nets of a step, in the workspace in which it runs."""

    def __init__(self, step: ExecutionStep, workspace: Workspace, definitions: Mapping[str, NetDef]) -> None:
        self.by_name: dict[str, CreatedNet] = {}
        self._definitions = definitions
        self._collect(step, workspace)

    def _collect(self, step: ExecutionStep, workspace: Workspace) -> None:
        for name in [*step.network, *([step.report_net] if step.report_net else [])]:
            if name in self.by_name:
                continue
            if name not in self._definitions:
                known = ", ".join(self._definitions) or "none"
                raise RunError(
                    f"step {step.name} runs net {name}, which the plan doesn't have (nets: {known})"
                )
            self.by_name[name] = workspace.create_net(self._definitions[name], overwrite=True)
        for substep in step.substep:
            if not substep.create_workspace:
                self._collect(substep, workspace)


def _run_step(
    step: ExecutionStep,
    workspace: Workspace,
    definitions: Mapping[str, NetDef],
    nets: Mapping[str, CreatedNet],
) -> None:
    """Run one step; ``nets`` are those that exist already, none of them for a step of its own workspace."""
    if step.create_workspace:
        workspace, nets = Workspace(workspace, workspace.root_folder), {}
    if not nets:
        nets = _Nets(step, workspace, definitions).by_name
    has_stop = bool(step.should_stop_blob)
    if has_stop and step.HasField("num_iter"):
        raise RunError(f"step {step.name}: Must not specify num_iter if should_stop_blob is set")
    if step.HasField("only_once") and not has_stop:
        raise RunError(f"step {step.name}: only_once is for steps with a stop blob")
    if has_stop and not workspace.has_blob(step.should_stop_blob):
        raise RunError(f"step {step.name}: blob {step.should_stop_blob} does not exist")
    with _reporting(step, workspace, definitions, nets):
        _iterate(step, workspace, definitions, nets)


def _iterate(
    step: ExecutionStep,
    workspace: Workspace,
    definitions: Mapping[str, NetDef],
    nets: Mapping[str, CreatedNet],
) -> None:
    """Run what is in a step, as often as it says."""
    iteration, has_stop = 0, bool(step.should_stop_blob)
    while _goes_on(step, iteration):
        check_stopped()
        if step.concurrent_substeps or step.num_concurrent_instances > 1:
            _run_at_once(step, workspace, definitions, nets)
            if has_stop and _says_stop(step, workspace):
                return
        else:
            for child in _regular(step):
                _run_step(child, workspace, definitions, {} if child.create_workspace else nets)
                if has_stop and _says_stop(step, workspace):
                    return
        for name in step.network:
            nets[name].run()
            if has_stop and _says_stop(step, workspace):
                return
        iteration += 1


def _regular(step: ExecutionStep) -> list[ExecutionStep]:
    """The substeps that don't run at an interval."""
    return [child for child in step.substep if not child.run_every_ms]


@contextlib.contextmanager
def _reporting(
    step: ExecutionStep,
    workspace: Workspace,
    definitions: Mapping[str, NetDef],
    nets: Mapping[str, CreatedNet],
) -> Iterator[None]:
    """Run substeps with an interval and the net that reports while the block runs, and once after it.

    They have threads. The first error of theirs stops the block and is raised.
    """
    reports: list[tuple[float, Callable[[], object]]] = []
    for child in step.substep:
        if child.run_every_ms:
            own = {} if child.create_workspace else nets
            reports.append(
                (child.run_every_ms / 1000, partial(_run_step, child, workspace, definitions, own))
            )
    if step.report_net:  # its interval is in seconds
        reports.append((max(step.report_interval, 1), nets[step.report_net].run))
    if not reports:
        yield
        return
    failed, ended = Event(), Event()
    errors: list[BaseException] = []
    stops = (*current_stops(), failed)

    def repeat(seconds: float, report: Callable[[], object]) -> None:
        with _noted(errors, failed), stopped_by(*stops):
            while not ended.wait(seconds):
                report()
            report()

    threads = [Thread(target=repeat, args=pair) for pair in reports]
    for thread in threads:
        thread.start()
    try:
        with stopped_by(failed):
            yield
    except StoppedError:
        if not errors:
            raise
    finally:
        ended.set()
        with waiting(threads):
            for thread in threads:
                thread.join()
    if errors:
        raise errors[0]
    check_stopped()


@contextlib.contextmanager
def _noted(errors: list[BaseException], failed: Event) -> Iterator[None]:
    """An error in a thread's block is noted, for the thread that waits to raise it, and stops the others."""
    try:
        yield
    except StoppedError:
        return
    except BaseException as error:
        errors.append(error)
        failed.set()


def _run_at_once(
    step: ExecutionStep,
    workspace: Workspace,
    definitions: Mapping[str, NetDef],
    nets: Mapping[str, CreatedNet],
) -> None:
    """Run the substeps in threads that take turns.

    The first error stops all of them and is raised.
    """
    failed = Event()
    errors: list[BaseException] = []
    stops = (*current_stops(), failed)

    def run(child: ExecutionStep) -> None:
        with _noted(errors, failed), stopped_by(*stops):
            _run_step(child, workspace, definitions, {} if child.create_workspace else nets)

    children = _regular(step) * max(step.num_concurrent_instances, 1)
    threads = [Thread(target=run, args=(child,)) for child in children]
    for thread in threads:
        thread.start()
    with waiting(threads):
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    check_stopped()


def _goes_on(step: ExecutionStep, iteration: int) -> bool:
    if step.should_stop_blob:
        return not step.only_once or iteration == 0
    return iteration < (step.num_iter if step.HasField("num_iter") else 1)


def _says_stop(step: ExecutionStep, workspace: Workspace) -> bool:
    value: Any = workspace.needed(step.should_stop_blob).value
    if not is_tensor(value):
        raise RunError(f"step {step.name}: the stop blob {step.should_stop_blob} holds no truth value")
    array = as_array(value)
    if array.dtype != np.bool_ or array.size != 1:
        raise RunError(
            f"step {step.name}: the stop blob {step.should_stop_blob} holds {array.dtype} of shape "
            f"{array.shape}, not one truth value"
        )
    return bool(array.reshape(-1)[0])
