"""Builders of what runs before and after tasks and groups, and while they run."""

from __future__ import annotations

from netgrad.caffe2.python import core
from netgrad.caffe2.python.net_builder.builder import NetBuilder
from netgrad.caffe2.python.task import Task, TaskGroup


class SetupBuilder(NetBuilder):
    """Runs at the start or at the end of a task or group, whose nets have it as an attribute."""

    INIT = "init"
    EXIT = "exit"

    def __init__(self, type: str, name: str | None = None) -> None:
        super().__init__(name)
        self.type = type

    def setup(self, net: core.Net) -> core.ExecutionStep | None:
        """What runs at the start."""
        return core.to_execution_step(self) if self.type == self.INIT else None

    def exit(self, net: core.Net) -> core.ExecutionStep | None:
        """What runs at the end."""
        return core.to_execution_step(self) if self.type == self.EXIT else None


class ReporterBuilder(NetBuilder):
    """Runs at an interval while a task runs, or, without a net of one, while the current group does."""

    def __init__(self, interval_ms: int, net: core.Net | None = None, name: str | None = None) -> None:
        super().__init__(name)
        self._net = net
        self.interval_ms = interval_ms

    def _finish(self) -> None:
        super()._finish()
        step = core.to_execution_step(self)
        step.RunEveryMillis(self.interval_ms)
        if self._net is not None:
            self._net.add_attribute(Task.REPORT_STEP, step)
        else:
            TaskGroup.current().report_step(step, interval_ms=self.interval_ms)
