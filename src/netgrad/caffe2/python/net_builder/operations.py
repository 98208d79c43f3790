"""``ops``: adds operators, loops and conditions to the active net builder."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.net_builder.blocks import Loop, RunIf, StopGuard
from netgrad.caffe2.python.net_builder.builder import NetBuilder
from netgrad.caffe2.python.net_builder.control_nets import Condition, ElseNet, IfNet, WhileNet
from netgrad.caffe2.python.net_builder.setup_blocks import ReporterBuilder, SetupBuilder
from netgrad.caffe2.python.task import Cluster, Task, TaskGroup


class Operations:
    """Adds to the active net builder; ``ops.OpType(...)`` adds an operator to its current net."""

    def net(self, net: Any = None, name: str | None = None) -> Any:
        """The current net of the builder.

        Args:
            net: A net or step that is added to the builder instead, and returned.
            name: Name of a new net, which becomes the current one.
        """
        assert name is None or net is None, "Cannot provide both `net` and `name`."
        builder: NetBuilder = NetBuilder.current()
        if net is not None:
            builder.add(net)
            return net
        return builder.current_net(name)

    def __getattr__(self, op_type: str) -> Any:
        if op_type.startswith("__"):
            raise AttributeError(op_type)
        if NetBuilder.current(required=False) is None:  # an AttributeError, so that hasattr works
            raise AttributeError(f"ops.{op_type} needs an active NetBuilder")
        return getattr(self.net(), op_type)

    # ---- stopping ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """Leave out what follows in the builder."""
        self.stop_if(self.net().Const(True))

    def stop_if(self, blob: Any) -> None:
        """Leave out what follows in the builder if a truth value holds."""
        NetBuilder.current().stop_if(blob)

    def stop_guard(self, has_stopped_blob: Any = None, name: str | None = None) -> Any:
        """A block that runs once; its ``has_stopped()`` is a blob that says whether it was stopped inside."""
        return NetBuilder.current().add(StopGuard(has_stopped_blob, name))

    # ---- loops and conditions ----------------------------------------------------------------------

    def loop(self, iters: Any = None, name: str | None = None) -> Any:
        """A block that runs ``iters`` times, a number or a blob; without it until it is stopped inside."""
        return NetBuilder.current().add(Loop(iters, name))

    def If(self, cond: Any, name: str | None = None) -> Any:
        """A block that runs if a truth value holds; ``Elif(cond)`` and ``Else()`` of it come next."""
        return NetBuilder.current().add(RunIf(cond, name))

    def IfNet(self, cond: Any, name: str | None = None) -> Any:
        """`If` as an operator, which can be differentiated."""
        return NetBuilder.current().add(IfNet(cond, name))

    def Else(self, name: str | None = None) -> Any:
        """The second block of an `IfNet`, right behind it."""
        return ElseNet(name)

    def WhileNet(self, name: str | None = None) -> Any:
        """A block that runs as long as its `Condition` holds, as an operator."""
        return NetBuilder.current().add(WhileNet(name))

    def Condition(self, name: str | None = None) -> Any:
        """The first block in a `WhileNet`; what its last operator writes is asked before each turn."""
        return Condition(name)

    # ---- tasks -------------------------------------------------------------------------------------

    def task_group(self) -> TaskGroup:
        """A group of tasks on this node, which runs as the next part of the builder."""
        group: TaskGroup = NetBuilder.current().add(LocalTaskGroup())
        return group

    def task_init(self) -> SetupBuilder:
        """A block that runs once before the task, however many instances it has."""
        return self._setup(Task.TASK_SETUP, SetupBuilder.INIT)

    def task_exit(self) -> SetupBuilder:
        """A block that runs once after the task."""
        return self._setup(Task.TASK_SETUP, SetupBuilder.EXIT)

    def task_instance_init(self) -> SetupBuilder:
        """A block that runs once before each instance of the task."""
        return self._setup(Task.TASK_INSTANCE_SETUP, SetupBuilder.INIT)

    def task_instance_exit(self) -> SetupBuilder:
        """A block that runs once after each instance of the task."""
        return self._setup(Task.TASK_INSTANCE_SETUP, SetupBuilder.EXIT)

    def local_init(self) -> SetupBuilder:
        """A block that runs once on the node before all tasks of the group."""
        return self._setup(TaskGroup.LOCAL_SETUP, SetupBuilder.INIT)

    def local_exit(self, name: str | None = None) -> SetupBuilder:
        """A block that runs once on the node after all tasks of the group."""
        return self._setup(TaskGroup.LOCAL_SETUP, SetupBuilder.EXIT, name)

    def task_reporter(self, interval_ms: int = 1000, name: str | None = None) -> ReporterBuilder:
        """A block that runs at an interval while the task runs, and at least once."""
        return ReporterBuilder(interval_ms, self.net(), name)

    def local_reporter(self, interval_ms: int = 1000, name: str | None = None) -> ReporterBuilder:
        """A block that runs on the node at an interval while tasks of the group run, and at least once."""
        return ReporterBuilder(interval_ms, name=name)

    def _setup(self, key: str, type: str, name: str | None = None) -> SetupBuilder:
        setup = SetupBuilder(type, name)
        self.net().add_attribute(key, setup)
        return setup


class LocalTaskGroup(TaskGroup):
    """A group that is a part of a net builder.

    Attributes:
        name: Name of the step that it becomes; none.
        step_stop_blob: The blob that stops it; none.
    """

    name = ""
    step_stop_blob = None

    def get(self) -> list[core.ExecutionStep]:
        """The step that runs its tasks at once."""
        with Cluster():
            return [self.to_task().get_step()]


ops = Operations()
