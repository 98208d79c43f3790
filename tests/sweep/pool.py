"""Examining many models at a time, each within a time limit and without harm to the others by a crash."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from tests.sweep.examine import examine
from tests.sweep.models import in_form, node_tests
from tests.sweep.verdict import Finding, Verdict

Task = tuple[str, str]
"""Name of a node test, and a form."""


def _work(connection: Connection) -> None:
    """What a worker does: takes a task, gives back a finding, until it is told to stop."""
    if hasattr(os, "sched_setaffinity"):  # on one core, ONNX Runtime starts no threads that wait for work
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[os.getpid() % len(cores)]})
    while (task := connection.recv()) is not None:
        name, form = task
        connection.send(examine(in_form(node_tests()[name], form), form))


class _Worker:
    """A process, and the task it works on."""

    def __init__(self) -> None:
        # forked, so that the models need not be made again
        context = multiprocessing.get_context("fork")
        self.connection, theirs = context.Pipe()
        self.process: Any = context.Process(target=_work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.task: Task | None = None
        self.since = 0.0

    def start(self, task: Task) -> None:
        self.task, self.since = task, time.monotonic()
        self.connection.send(task)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def sweep(
    tasks: Sequence[Task], *, workers: int, limit: float, progress: Callable[[Finding], None] | None = None
) -> list[Finding]:
    """Examine ``tasks``.

    Args:
        tasks: What to examine.
        workers: Processes.
        limit: Seconds for one task; one that takes longer is a crash.
        progress: Is told each finding.
    """
    node_tests()
    found = []
    for finding in _findings(list(reversed(tasks)), workers, limit):
        found.append(finding)
        if progress is not None:
            progress(finding)
    order = {task: position for position, task in enumerate(tasks)}
    return sorted(found, key=lambda finding: order[finding.name, finding.form])


def _findings(pending: list[Task], count: int, limit: float) -> Iterator[Finding]:
    workers = [_Worker() for _ in range(count)]
    try:
        while pending or any(worker.task for worker in workers):
            for worker in workers:
                if worker.task is None and pending:
                    worker.start(pending.pop())
            busy = [worker for worker in workers if worker.task is not None]
            wait([worker.connection for worker in busy], timeout=1.0)
            for worker in busy:
                finding = _answer(worker, limit)
                if finding is None:
                    continue
                worker.task = None
                if not worker.process.is_alive():
                    workers[workers.index(worker)] = _Worker()
                yield finding
    finally:
        for worker in workers:
            worker.end()


def _answer(worker: _Worker, limit: float) -> Finding | None:
    """The finding of a worker that is done, has died, or has had its time; else None."""
    assert worker.task is not None, "only busy workers are asked"
    name, form = worker.task
    reason = ""
    try:
        if worker.connection.poll():
            finding: Finding = worker.connection.recv()
            return finding
    except EOFError:
        worker.process.join()
        reason = f"the process died (exit code {worker.process.exitcode})"
    if not reason and time.monotonic() - worker.since > limit:
        reason = f"took more than {limit:.0f} seconds"
    if not reason:
        return None
    worker.end()
    return Finding(name, form, node_tests()[name].operator, Verdict.CRASH, reason)
