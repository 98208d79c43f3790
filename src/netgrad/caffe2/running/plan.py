"""Running plans: steps of nets or of further steps, repeated by number or until a blob says stop."""

from __future__ import annotations

from collections.abc import Mapping
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
    threads, which take turns (see `netgrad.caffe2.running.turns`); one with an interval runs again and again
    until its siblings have ended, and once after them.

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
    iteration = 0
    while _goes_on(step, iteration):
        check_stopped()
        if step.concurrent_substeps or step.num_concurrent_instances > 1 or _has_interval(step):
            _run_at_once(step, workspace, definitions, nets)
            if has_stop and _says_stop(step, workspace):
                return
        else:
            for child in step.substep:
                _run_step(child, workspace, definitions, {} if child.create_workspace else nets)
                if has_stop and _says_stop(step, workspace):
                    return
        for name in step.network:
            nets[name].run()
            if has_stop and _says_stop(step, workspace):
                return
        iteration += 1
        if step.report_net and iteration % max(step.report_interval, 1) == 0:
            nets[step.report_net].run()


def _has_interval(step: ExecutionStep) -> bool:
    return any(child.run_every_ms for child in step.substep)


def _run_at_once(
    step: ExecutionStep,
    workspace: Workspace,
    definitions: Mapping[str, NetDef],
    nets: Mapping[str, CreatedNet],
) -> None:
    """Run the substeps in threads that take turns; those with an interval until the others have ended.

    The first error stops all of them and is raised.
    """
    failed, ended = Event(), Event()
    errors: list[BaseException] = []
    stops = (*current_stops(), failed)

    def run(child: ExecutionStep) -> None:
        try:
            with stopped_by(*stops):
                once = child.create_workspace
                while child.run_every_ms and not ended.wait(child.run_every_ms / 1000):
                    _run_step(child, workspace, definitions, {} if once else nets)
                _run_step(child, workspace, definitions, {} if once else nets)
        except StoppedError:
            return
        except BaseException as error:  # raised again by the thread that waits
            errors.append(error)
            failed.set()

    children = list(step.substep) * max(step.num_concurrent_instances, 1)
    if not step.concurrent_substeps and step.num_concurrent_instances <= 1:
        regular = [child for child in children if not child.run_every_ms]

        def run_in_order() -> None:
            for child in regular:
                run(child)
                if failed.is_set():
                    return

        threads = [Thread(target=run_in_order)]
    else:
        threads = [Thread(target=run, args=(child,)) for child in children if not child.run_every_ms]
    timed = [Thread(target=run, args=(child,)) for child in children if child.run_every_ms]
    for thread in [*threads, *timed]:
        thread.start()
    with waiting([*threads, *timed]):
        for thread in threads:
            thread.join()
        ended.set()
        for thread in timed:
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
