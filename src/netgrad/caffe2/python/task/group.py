"""Groups of tasks, which run at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.context import Managed
from netgrad.caffe2.python.task.cluster import Node, WorkspaceType
from netgrad.caffe2.python.task.setup import add_setup_steps, get_setup_nets

if TYPE_CHECKING:
    from netgrad.caffe2.python.task.task import Task


class TaskGroup(Managed):
    """Tasks that run at once, each on its node: those that are created inside the group's block."""

    LOCAL_SETUP = "local_setup"
    """Key of what runs once per node, before and after all of its tasks."""

    def __init__(self, workspace_type: str | None = None) -> None:
        """Start an empty group.

        Args:
            workspace_type: That of all its tasks; without it that of the first one which says.
        """
        self._tasks: list[Task] = []
        self._tasks_to_add: list[Task] = []
        self._already_used = False
        self._workspace_type = workspace_type
        self._report_nets: dict[str, tuple[core.Net, int]] = {}
        self._report_steps: list[tuple[str, core.ExecutionStep]] = []
        self._grouped: tuple[TaskGroup, dict[str, str]] | None = None
        self._remote_nets: list[core.Net] = []

    def add_remote_net(self, net: core.Net) -> None:
        """Note a net that runs elsewhere."""
        self._remote_nets.append(net)

    def remote_nets(self) -> list[core.Net]:
        """The nets that run elsewhere."""
        return self._remote_nets

    def workspace_type(self) -> str | None:
        """The kind of workspace that its tasks run in."""
        return self._workspace_type

    def add(self, task: Task) -> None:
        """Add a task.

        Raises:
            AssertionError: The group's tasks have been asked for; or the task has another kind of workspace.
        """
        assert not self._already_used, "Cannot add Task to an already used TaskGroup."
        assert task._workspace_type in (None, self._workspace_type) or self._workspace_type is None, (
            f"task {task.name} needs a {task._workspace_type} workspace, and its group a "
            f"{self._workspace_type} one"
        )
        if task._workspace_type is None:
            task._workspace_type = self._workspace_type or WorkspaceType.PRIVATE
        if self._workspace_type is None:
            self._workspace_type = task._workspace_type
        task._notify_used()
        self._tasks.append(task)

    def tasks(self) -> list[Task]:
        """Its tasks; none is added any more."""
        waiting, self._tasks_to_add = self._tasks_to_add, []
        for task in waiting:
            self.add(task)
        self._already_used = True
        return self._tasks

    def num_registered_tasks(self) -> int:
        """How many tasks it has."""
        return len(self._tasks) + len(self._tasks_to_add)

    def used_nodes(self) -> list[str]:
        """The nodes of its tasks, in the order of their first use."""
        return list(dict.fromkeys(task.node for task in [*self._tasks, *self._tasks_to_add]))

    def report_step(self, step: Any = None, node: Any = None, interval_ms: int = 1000) -> None:
        """Run a step again and again on a node, while tasks run there, and once after them.

        Args:
            step: A step, a net, or what else `core.to_execution_step` takes.
            node: The node; the current one without it.
            interval_ms: Milliseconds between two runs.
        """
        step = core.to_execution_step(step)
        step.RunEveryMillis(interval_ms)
        self._report_steps.append((str(node or Node.current(node)), step))

    def report_net(self, net: core.Net | None = None, node: Any = None, report_interval: int = 5) -> core.Net:
        """The net that reports on a node (deprecated, see `report_step`); ``report_interval`` in seconds."""
        name = str(node or Node.current(node))
        assert net is None or name not in self._report_nets, f"node {name} has a net that reports"
        if name not in self._report_nets:
            self._report_nets[name] = net or core.Net(f"{name}/reporter"), report_interval
        return self._report_nets[name][0]

    def tasks_by_node(self, node_remap: Callable[[str], str] | None = None) -> TaskGroup:
        """A group with one task per node, which runs those of the node at once.

        Args:
            node_remap: New names of nodes.

        Raises:
            AssertionError: It has been called before with other nodes; or a step reports on a node without
                tasks.
        """
        nodes = {task.node: node_remap(task.node) if node_remap else task.node for task in self.tasks()}
        if self._grouped is not None:
            grouped, before = self._grouped
            assert before == nodes, "Cannot call tasks_by_node multiple times."
            return grouped
        for node, (net, interval) in self._report_nets.items():
            self.report_step(net, node=node, interval_ms=interval * 1000)
        self._report_nets = {}
        reports: dict[str, list[core.ExecutionStep]] = {}
        for node, step in self._report_steps:
            assert node in nodes, f"step {step.Name()} reports on node {node}, where no task runs"
            reports.setdefault(nodes[node], []).append(step)
        grouped = TaskGroup()
        for node in dict.fromkeys(nodes.values()):
            tasks = [task for task in self.tasks() if nodes[task.node] == node]
            self._together(node, tasks, reports.get(node, []), grouped)
        self._grouped = grouped, nodes
        return grouped

    def _together(
        self, node: str, tasks: list[Task], reports: list[core.ExecutionStep], grouped: TaskGroup
    ) -> None:
        """One task for those of a node."""
        from netgrad.caffe2.python.task.task import Task

        own_steps = [task.get_step() for task in tasks]
        before, after = get_setup_nets(TaskGroup.LOCAL_SETUP, [*own_steps, *reports], self)
        for task, own in zip(tasks, own_steps, strict=True):
            own.SetCreateWorkspace(task.workspace_type() == WorkspaceType.PRIVATE)
        steps = [*reports, *own_steps]
        step = steps[0]
        if len(steps) > 1:
            step = core.execution_step(f"{node}:body", steps, concurrent_substeps=True)
        kinds = {task.workspace_type() for task in tasks}
        Task(
            node=node,
            step=add_setup_steps(step, before, after, node),
            outputs=[output for task in tasks for output in task.outputs()],
            name="grouped_by_node",
            group=grouped,
            workspace_type=WorkspaceType.GLOBAL if WorkspaceType.GLOBAL in kinds else WorkspaceType.PRIVATE,
        )

    def to_task(self, node: Any = None) -> Task:
        """One task that runs all of them on one node."""
        from netgrad.caffe2.python.task.task import Task

        name = str(Node.current(node))
        tasks = self.tasks_by_node(lambda _: name).tasks()
        return tasks[0] if tasks else Task()

    def __repr__(self) -> str:
        tasks = self._tasks + self._tasks_to_add
        return (
            f"TaskGroup(tasks={tasks}, workspace_type={self._workspace_type}, "
            f"remote_nets={self._remote_nets})"
        )
