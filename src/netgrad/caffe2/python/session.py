"""Sessions run nets, steps, plans, tasks and groups of tasks."""

from __future__ import annotations

from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from netgrad.caffe2.python import core, workspace
from netgrad.caffe2.python.task import Cluster, Task, TaskGroup, TaskOutputList, WorkspaceType
from netgrad.caffe2.running.workspace import Workspace


class CompiledRunnable:
    """What `Session.compile` has made, for sessions of that class to run.

    Attributes:
        obj: What it is, which only the class knows.
        session_class: The class.
    """

    def __init__(self, obj: Any, session_class: type[Session]) -> None:
        self.obj = obj
        self.session_class = session_class


class Session:
    """Runs nets, steps, plans, tasks and groups; a class that derives from it says how."""

    _compiled_cache: ClassVar[WeakKeyDictionary[Any, CompiledRunnable]] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._open = True

    def is_open(self) -> bool:
        """Whether it can run something."""
        return self._open

    @classmethod
    def compile(
        cls, runnable: Any, workspace_type: str | None = None, setup_net_list: Any = None
    ) -> CompiledRunnable:
        """Prepare something to run; the same thing is prepared once.

        Args:
            runnable: A group of tasks, a task, a step, a plan, a net or a list of nets and steps.
            workspace_type: Where it runs (see `WorkspaceType`): a group where it says, else in the workspace
                of the session.
            setup_net_list: Nets that a session on several nodes may need.

        Raises:
            AssertionError: It was compiled for another class; a group says another workspace; a plan has no
                steps.
        """
        if isinstance(runnable, CompiledRunnable):
            assert runnable.session_class is cls, (
                f"Runnable was compiled for different session type. Need: {cls.__name__}, "
                f"got: {runnable.session_class.__name__}"
            )
            return runnable
        is_list = isinstance(runnable, list | tuple)
        known = None if is_list else cls._compiled_cache.get(runnable)
        if known is not None and known.session_class is cls:
            return known
        group = _group(runnable, workspace_type)
        compiled = CompiledRunnable(cls._compile_task_group(group, setup_net_list), cls)
        if not is_list:
            cls._compiled_cache[runnable] = compiled
        return compiled

    def run(self, runnable: Any, workspace_type: str | None = None, setup_net_list: Any = None) -> None:
        """Run something, see `compile`.

        Raises:
            AssertionError: The session is closed.
            RunError: It can't run.
        """
        assert self.is_open(), "Session is closed."
        assert runnable is not None, "there is nothing to run: the session got None"
        self._run_compiled(self.compile(runnable, workspace_type, setup_net_list).obj)

    def close(self) -> None:
        """Let nothing run any more."""
        if self.is_open():
            self._do_close()
            self._open = False

    def fetch_output(self, output: Any) -> Any:
        """The content of an output.

        Raises:
            NotImplementedError: Always; a class that has it derives from this one.
        """
        raise NotImplementedError(f"{type(self).__name__} doesn't say how it fetches outputs")

    @classmethod
    def _compile_task_group(cls, task_group: TaskGroup, setup_net_list: Any = None) -> Any:
        return task_group

    def _run_compiled(self, compiled: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} doesn't say how it runs")

    def _do_close(self) -> None:
        """Free what the session has; nothing here."""

    def __enter__(self) -> Any:
        assert self._open, "Session already closed."
        return self

    def __exit__(self, kind: Any = None, value: Any = None, traceback: Any = None) -> None:
        if kind is None:
            self.close()


def _group(runnable: Any, workspace_type: str | None) -> TaskGroup:
    """What is to run, as a group."""
    if isinstance(runnable, TaskGroup):
        if workspace_type:
            own = runnable.workspace_type()
            assert own in (None, workspace_type), f"the group runs in a {own} workspace, not {workspace_type}"
            runnable._workspace_type = workspace_type
        return runnable
    group = TaskGroup(workspace_type or WorkspaceType.GLOBAL)
    if isinstance(runnable, Task):
        group.add(runnable)
        return group
    if isinstance(runnable, core.Plan):
        assert runnable.Steps(), f"plan {runnable} has no steps"
        steps = runnable.Steps()
        step: Any = steps[0] if len(steps) == 1 else steps  # several run in order, as tasks would not
    else:
        step = core.execution_step("runnable", runnable)
    group.add(Task(step=step, group=TaskGroup()))
    return group


class LocalSession(Session):
    """Runs everything on this node: tasks of all nodes at once, in one workspace or workspaces inside it."""

    def __init__(self, ws: Workspace | None = None) -> None:
        """Start a session.

        Args:
            ws: The workspace; the current one without it.
        """
        super().__init__()
        self._ws: Workspace = workspace.C.Workspace.current if ws is None else ws

    @classmethod
    def _compile_task_group(
        cls, task_group: TaskGroup, setup_net_list: Any = None
    ) -> tuple[core.Plan, TaskOutputList]:
        with Cluster():
            task = task_group.to_task()
        plan = core.Plan("task_group_plan")
        plan.AddStep(task.get_step())
        return plan, task.output_list()

    def _run_compiled(self, compiled: tuple[core.Plan, TaskOutputList]) -> None:
        plan, outputs = compiled
        names = [str(name) for name in outputs.names()]
        for name in names:  # so that what tasks write to their own workspaces can be fetched from this one
            self._ws.create_blob(name)
        outputs.set_values([core.BlobReference(name) for name in names], _fetch_func=self.fetch_output)
        self._ws.run(plan)

    def fetch_output(self, output: Any) -> Any:
        """The content of the blob in the workspace of the session."""
        return self._ws.fetch_blob(output)
