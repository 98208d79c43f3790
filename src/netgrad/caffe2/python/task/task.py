"""A task: a step that runs once on a node, perhaps in several instances, and the blobs that it gives back."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.context import Managed
from netgrad.caffe2.python.task.cluster import Node
from netgrad.caffe2.python.task.group import TaskGroup
from netgrad.caffe2.python.task.outputs import TaskOutput, TaskOutputList
from netgrad.caffe2.python.task.setup import add_setup_steps, get_setup_nets


class Task(Managed):
    """A step on a node, in the current group; given as an argument, or built by ``ops`` inside its block.

    Attributes:
        name: Its name, ``node/name``, with a number where the group has one of that name.
        node: The name of its node.
        group: Its group, or None.
    """

    TASK_SETUP = "task_setup"
    """Key of what runs once, before and after all instances of the task."""

    TASK_INSTANCE_SETUP = "task_instance_setup"
    """Key of what runs once for each instance."""

    REPORT_STEP = "report_step"
    """Key of steps that run at an interval while the task runs."""

    def __init__(
        self,
        step: Any = None,
        outputs: Any = None,
        workspace_type: str | None = None,
        group: TaskGroup | None = None,
        node: Any = None,
        name: str | None = None,
        num_instances: int | None = None,
    ) -> None:
        """Start a task and add it to its group.

        Args:
            step: What it runs, see `core.to_execution_step`.
            outputs: What it gives back, see `TaskOutput`; one or a list.
            workspace_type: See `WorkspaceType`.
            group: Its group; without it the current one, if there is one.
            node: Its node; without it the current one.
            name: Its name; without it that of the step, or ``task``.
            num_instances: How often it runs at once, each time in a workspace of its own.
        """
        if not name:
            name = step.Name() if isinstance(step, core.ExecutionStep) else "task"
        self.node = str(Node.current(None if node is None else Node(node)))
        self.group: TaskGroup | None = TaskGroup.current(group, required=False)
        self.name = self._free_name(f"{self.node}/{name}")
        if self.group is not None:
            self.group._tasks_to_add.append(self)
        self._already_used = False
        self._step: core.ExecutionStep | None = None
        self._step_with_setup: core.ExecutionStep | None = None
        self._outputs: list[TaskOutput] = []
        self._net_builder: Any = None
        self._workspace_type = workspace_type
        self._num_instances = num_instances
        if step is not None:
            self.set_step(step)
        if outputs is not None:
            self.add_outputs(outputs)

    def _free_name(self, wish: str) -> str:
        taken = set() if self.group is None else {task.name for task in self.group._tasks_to_add}
        name, count = wish, 0
        while name in taken:
            count += 1
            name = f"{wish}:{count}"
        return name

    def __enter__(self) -> Task:
        self._assert_not_used()
        assert self._step is None, "This Task already has an execution step."
        super().__enter__()
        if self.group is not None:  # tasks inside come before it
            self.group._tasks_to_add.remove(self)
        from netgrad.caffe2.python.net_builder import NetBuilder

        self._net_builder = NetBuilder(_fullname=self.name)
        self._net_builder.__enter__()
        return self

    def __exit__(self, kind: Any = None, value: Any = None, traceback: Any = None) -> None:
        super().__exit__(kind, value, traceback)
        builder, self._net_builder = self._net_builder, None
        builder.__exit__(kind, value, traceback)
        if kind is None:
            self.set_step(builder)
        if self.group is not None:
            self.group._tasks_to_add.append(self)

    def workspace_type(self) -> str | None:
        """The kind of workspace that it runs in."""
        return self._workspace_type

    def add_output(self, output: Any) -> TaskOutput:
        """Add something that it gives back, see `TaskOutput`."""
        self._assert_not_used()
        added = output if isinstance(output, TaskOutput) else TaskOutput(output)
        self._outputs.append(added)
        return added

    def add_outputs(self, outputs: Any) -> Any:
        """`add_output` of one, or of each of a list."""
        if isinstance(outputs, list | tuple):
            return [self.add_output(output) for output in outputs]
        return self.add_output(outputs)

    def set_step(self, step: Any) -> None:
        """Set what it runs, see `core.to_execution_step`."""
        self._assert_not_used()
        self._step = core.to_execution_step(step)

    def get_step(self) -> core.ExecutionStep:
        """What it runs, with what is to be done before and after; a task without outputs gets one."""
        if self._step_with_setup is None:
            self._step_with_setup = self._with_setup()
        return self._step_with_setup

    def _with_setup(self) -> core.ExecutionStep:
        if self._step is None:
            return core.execution_step(self.name, [])
        reports = []
        for report in self._step.get_all_attributes(Task.REPORT_STEP):
            if not getattr(report, "_report_step_used", False):
                report._report_step_used = True
                if not report.Proto().run_every_ms:
                    report.RunEveryMillis(1000)
                reports.append(report)
        parts = [self._step, *reports]
        task_before, task_after = get_setup_nets(Task.TASK_SETUP, parts, self)
        before, after = get_setup_nets(Task.TASK_INSTANCE_SETUP, parts, self)
        if not self._outputs:
            net = core.Net(f"{self.name}:output")
            self.add_output(net.ConstantFill([], 1, dtype=core.DataType.INT32, value=0))
            task_after.append(net)
        step = self._step
        if reports:
            step = core.execution_step(f"{self.name}:body", [*reports, step])
        step = add_setup_steps(step, before, after, f"{self.name}:instance")
        if self._num_instances and self._num_instances > 1:
            step.SetCreateWorkspace(True)
            step = core.execution_step(
                f"{self.name}:parallel", [step], num_concurrent_instances=self._num_instances
            )
        return add_setup_steps(step, task_before, task_after, self.name)

    def output_list(self) -> TaskOutputList:
        """What it gives back, as one list."""
        return TaskOutputList(self._outputs)

    def outputs(self) -> list[TaskOutput]:
        """What it gives back."""
        return self._outputs

    def _assert_not_used(self) -> None:
        assert not self._already_used, "Cannot modify task since it is already been used."

    def _notify_used(self) -> None:
        self.get_step()
        self._already_used = True

    def __repr__(self) -> str:
        return f"Task(name={self.name}, node={self.node}, outputs={self._outputs})"


def final_output(blob_or_record: Any) -> TaskOutput:
    """Let the current task give back a blob or record, or without one a task that does nothing else."""
    task: Task = Task.current(required=False) or Task()
    return task.add_output(blob_or_record)
