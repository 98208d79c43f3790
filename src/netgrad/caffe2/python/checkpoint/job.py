"""Jobs: what runs at the start, in each epoch, and at the end."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.context import Managed
from netgrad.caffe2.python.session import Session
from netgrad.caffe2.python.task import Task, TaskGroup, TaskOutput, WorkspaceType


class Job(Managed):
    """Groups of tasks that a `JobRunner` runs; tasks that are created inside its block are those of an epoch.

    Attributes:
        init_group: Runs once at the start, and writes what checkpoints keep.
        epoch_group: Runs until a stop condition holds behind it.
        download_group: Runs once behind the last epoch, and collects what was learned.
        exit_group: Runs once at the end.
        stop_conditions: Outputs of tasks, truth values.
    """

    def __init__(
        self,
        init_group: Any = None,
        epoch_group: Any = None,
        download_group: Any = None,
        exit_group: Any = None,
        stop_conditions: list[TaskOutput] | None = None,
        nodes_to_checkpoint: list[str] | None = None,
    ) -> None:
        """Start a job; groups that aren't given are empty.

        Args:
            init_group: See the attributes.
            epoch_group: Likewise.
            download_group: Likewise.
            exit_group: Likewise.
            stop_conditions: Likewise.
            nodes_to_checkpoint: The nodes whose workspaces are saved; without it those of ``init_group``.
        """
        self.init_group: Any = init_group or TaskGroup(WorkspaceType.GLOBAL)
        self.epoch_group: Any = epoch_group or TaskGroup()
        self.download_group: Any = download_group or TaskGroup()
        self.exit_group: Any = exit_group or TaskGroup()
        self.stop_conditions: list[TaskOutput] = stop_conditions or []
        self._nodes_to_checkpoint = nodes_to_checkpoint

    def nodes_to_checkpoint(self) -> list[str]:
        """The nodes whose workspaces are saved."""
        return self._nodes_to_checkpoint or self.init_group.used_nodes()

    def compile(self, session_class: type[Session]) -> None:
        """Prepare its groups for sessions of a class; nothing is added to them any more."""
        self._nodes_to_checkpoint = self.nodes_to_checkpoint()
        self.init_group = session_class.compile(self.init_group)
        self.epoch_group = session_class.compile(self.epoch_group)
        self.download_group = session_class.compile(self.download_group)
        self.exit_group = session_class.compile(self.exit_group)

    def __enter__(self) -> Job:
        super().__enter__()
        self.epoch_group.__enter__()
        return self

    def __exit__(self, *args: Any) -> None:
        self.epoch_group.__exit__(*args)
        super().__exit__(*args)

    def add_stop_condition(self, output: TaskOutput | core.BlobReference) -> None:
        """Stop behind an epoch in which a truth value holds: an output of a task, or a blob."""
        if isinstance(output, core.BlobReference):
            output = Task(outputs=[output], group=self.epoch_group).outputs()[0]
        assert isinstance(output, TaskOutput), f"an output of a task or a reference, not {output!r}"
        self.stop_conditions.append(output)


def epoch_limiter(job: Job | int, num_epochs: int | None = None) -> None:
    """Stop a job after so many epochs.

    Args:
        job: The job; older programs leave it out, and mean the current one.
        num_epochs: How many epochs it has.
    """
    count = job if num_epochs is None else num_epochs
    job = Job.current() if num_epochs is None else job
    assert isinstance(count, int), "the number of epochs is missing"
    assert isinstance(job, Job), f"a job, not {job!r}"
    with job.init_group:
        init_net = core.Net("epoch_counter_init")
        counter = init_net.CreateCounter([], init_count=count - 1)
        Task(step=init_net)
    with job.epoch_group:
        epoch_net = core.Net("epoch_countdown")
        finished = epoch_net.CountDown(counter)
        output = Task(step=epoch_net, outputs=finished).outputs()[0]
    job.add_stop_condition(output)
