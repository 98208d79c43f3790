"""Tasks that carry records from readers to writers, in one thread or several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.dataio import Reader, Writer
from netgrad.caffe2.python.dataio.base import reader_of
from netgrad.caffe2.python.net_builder import NetBuilder, ops
from netgrad.caffe2.python.pipeline.processors import ProcessingReader, processor_name
from netgrad.caffe2.python.queue_util import Queue
from netgrad.caffe2.python.task import Task, TaskGroup

DEFAULT_QUEUE_CAPACITY = 100
"""How many records a queue holds that `pipe` makes."""


def pipe(
    input: Any,
    output: Any = None,
    num_threads: int = 1,
    processor: Any = None,
    name: str | None = None,
    capacity: int | None = None,
    group: TaskGroup | None = None,
    num_runtime_threads: int = 1,
) -> Any:
    """A task that reads until the end, and writes each record.

    Args:
        input: A reader, or something with one, such as a queue or a data set.
        output: A writer, or something with one; without it a queue is made.
        num_threads: How many copies of the nets run at once. With 0 there is no task, and a reader is
            returned, which processes as well.
        processor: A function of a record that adds operators by ``ops`` and returns a record, or what
            `normalize_processor_output` takes; or a net with records of inputs and outputs. Without a record
            nothing is written.
        name: Name of the task.
        capacity: Of the queue that is made.
        group: The group of the task; without it the current one.
        num_runtime_threads: How often the nets run at once, each time in a workspace of its own.

    Returns:
        The queue, the ``output`` that isn't a writer, or None.

    Raises:
        AssertionError: Both numbers of threads are given, or a capacity and an output.
        ValueError: Input or output is something else.
    """
    found, _ = _piped(input, output, num_threads, processor, name, capacity, group, num_runtime_threads, None)
    return found


def pipe_and_output(
    input: Any,
    output: Any = None,
    num_threads: int = 1,
    processor: Any = None,
    name: str | None = None,
    capacity: int | None = None,
    group: TaskGroup | None = None,
    num_runtime_threads: int = 1,
    final_outputs: Any = None,
) -> tuple[Any, Any]:
    """`pipe`, whose task gives back ``final_outputs``: a blob or record, or a list of them.

    Returns:
        What `pipe` returns; and the outputs as the task has them, one or a list, or None.
    """
    assert num_threads > 0, "without a thread there is no task that could give something back"
    found, task = _piped(
        input, output, num_threads, processor, name, capacity, group, num_runtime_threads, final_outputs
    )
    if final_outputs is None or task is None:
        return found, None
    outputs = task.outputs()
    return found, outputs if isinstance(final_outputs, list | tuple) else outputs[0]


def _piped(
    input: Any,
    output: Any,
    num_threads: int,
    processor: Any,
    name: str | None,
    capacity: int | None,
    group: TaskGroup | None,
    num_runtime_threads: int,
    final_outputs: Any,
) -> tuple[Any, Task | None]:
    assert num_threads <= 1 or num_runtime_threads <= 1, (
        "Only one of num_threads or num_runtime_threads must be set."
    )
    reader = reader_of(input)
    if processor is not None:
        reader = ProcessingReader(reader, processor)
    if num_threads == 0 or num_runtime_threads == 0:
        assert output is None, "without a thread nothing is written: leave out the output"
        return reader, None
    if name is None:
        if processor is not None:
            name = processor_name(processor)
        else:
            name = f"pipe_into:{processor_name(output)}" if output else f"pipe_from:{processor_name(input)}"
    flow = _Flow(reader, output, capacity)
    task = Task(name=name, group=group, outputs=final_outputs, num_instances=num_runtime_threads)
    with task:
        if num_threads > 1:
            flow.add_copies(num_threads, task.name)
        else:
            flow.add_instance()
    return flow.target, task


@dataclass
class _Flow:
    """The parts of a task from a reader to a writer.

    Attributes:
        reader: The reader.
        output: What is written into, if that is given.
        capacity: Of the queue that is made without it.
        target: What the writer is of, once there is one.
    """

    reader: Reader
    output: Any
    capacity: int | None
    target: Any = None
    _writer: Writer | None = None

    def add_instance(self) -> None:
        """Add one loop, of which the task may run several instances."""
        before, after = core.Net("pipe:init"), core.Net("pipe:exit")
        self.reader.setup_ex(before, after)
        own_before, own_after, body = self._loop(before, after, "pipe:instance:")
        with ops.task_init():
            ops.net(before)
        with ops.task_instance_init():
            ops.net(own_before)
        ops.net(body)
        with ops.task_instance_exit():
            ops.net(own_after)
        with ops.task_exit():
            ops.net(after)

    def add_copies(self, count: int, name: str) -> None:
        """Add several loops that run at once."""
        before, after = core.Net("init"), core.Net("exit")
        self.reader.setup_ex(before, after)
        steps = []
        for at in range(count):
            with NetBuilder(name=f"t:{at}") as builder:
                own_before, own_after, body = self._loop(before, after, "", name)
                for part in (own_before, body, own_after):
                    ops.net(part)
            steps.append(core.to_execution_step(builder))
        ops.net(before)
        ops.net(core.execution_step("body", steps, concurrent_substeps=True))
        ops.net(after)

    def _loop(
        self, before: core.Net, after: core.Net, prefix: str, task_name: str | None = None
    ) -> tuple[core.Net, core.Net, core.ExecutionStep]:
        """A loop over the records, and what runs before and after it in each thread."""
        own_before, own_after = core.Net(f"{prefix}init"), core.Net(f"{prefix}exit")
        nets, status, record = self.reader.read_record_ex(own_before, own_after)
        own_before.ConstantFill([], [status], shape=[], value=False, dtype=core.DataType.BOOL)
        if record is not None:
            if self._writer is None:
                self._writer = self._made_writer(before, after, task_name)
            written, _ = self._writer.write_record_ex(record, own_before, own_after, status)
            nets = [*nets, *written]
        return own_before, own_after, core.execution_step("body", nets, should_stop_blob=status)

    def _made_writer(self, before: core.Net, after: core.Net, task_name: str | None) -> Writer:
        if self.output is None:
            with NetBuilder(_fullname=task_name or NetBuilder.current().name):
                self.target = Queue(DEFAULT_QUEUE_CAPACITY if self.capacity is None else self.capacity)
            writer = self.target.writer()
        else:
            assert self.capacity is None, "a capacity is that of a queue that is made: leave out one of both"
            if isinstance(self.output, Writer):
                writer = self.output
            elif hasattr(self.output, "writer"):
                self.target, writer = self.output, self.output.writer()
            else:
                raise ValueError(f"a writer, or something with one, is needed, not {self.output!r}")
        writer.setup_ex(before, after)
        made: Writer = writer
        return made
