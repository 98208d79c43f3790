"""A queue of records with the steps that fill it from a reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netgrad.caffe2.python import core, workspace
from netgrad.caffe2.python.dataio import Reader, Writer
from netgrad.caffe2.python.queue_util import dequeue, enqueue
from netgrad.caffe2.python.schema import Field, Struct, from_column_list


class _QueueReader(Reader):
    """Takes records out of the queue."""

    def __init__(self, blobs_queue: Any, schema: Field, name: str) -> None:
        super().__init__(schema)
        self.blobs_queue = blobs_queue
        self.name = name

    def read(self, read_net: Any) -> tuple[Any, Any]:
        names = self.schema().field_names()
        with core.NameScope(read_net.NextName(self.name)):
            fields, should_stop = dequeue(read_net, self.blobs_queue, len(names), field_names=names)
        return should_stop, fields


class _QueueWriter(Writer):
    """Puts records into the queue."""

    def __init__(self, blobs_queue: Any, schema: Field) -> None:
        self.blobs_queue = blobs_queue
        self._schema = schema

    def write(self, writer_net: Any, fields: Any) -> Any:
        blobs = fields.field_blobs() if isinstance(fields, Field) else list(fields)
        writer_net.CheckDatasetConsistency(blobs, [], fields=self.schema().field_names())
        return enqueue(writer_net, self.blobs_queue, blobs)


class RecordQueue:
    """A queue in the current workspace.

    Attributes:
        schema: What is in it.
        name: Its name.
        num_threads: How many steps fill it at once.
        blobs_queue: Its blob.
        writer: A writer into it.
        reader: A reader of it.
        exit_step: A step that closes it.
    """

    def __init__(
        self,
        fields: Any,
        name: str | None = None,
        capacity: int = 1,
        enforce_unique_name: bool = False,
        num_threads: int = 1,
    ) -> None:
        """Make the queue.

        Args:
            fields: A struct, or a list of columns.
            name: Its name.
            capacity: How many records it holds at most.
            enforce_unique_name: An argument of the operator that makes it.
            num_threads: How many steps fill it at once.
        """
        assert isinstance(fields, list | Struct), f"a Struct or a list of names is needed, not {fields!r}"
        self.schema: Any = from_column_list(fields) if isinstance(fields, list) else fields
        self.name = name or "queue"
        self.num_threads = num_threads
        init_net = core.Net(f"{self.name}/init_net")
        self.blobs_queue = init_net.CreateBlobsQueue(
            [],
            1,
            capacity=capacity,
            num_blobs=len(self.schema.field_names()),
            enforce_unique_name=enforce_unique_name,
        )
        workspace.RunNetOnce(init_net)
        self.writer = _QueueWriter(self.blobs_queue, self.schema)
        self.reader = _QueueReader(self.blobs_queue, self.schema, f"{self.name}_reader")
        exit_net = core.Net(f"{self.name}/exit_net")
        exit_net.CloseBlobsQueue(self.blobs_queue, 0)
        self.exit_step = core.execution_step(f"{exit_net}_close_step", exit_net)

    def build(
        self, reader: Reader, process: Callable[[Any, Any], Any] | None = None
    ) -> tuple[Reader, core.ExecutionStep, core.ExecutionStep, Any]:
        """Steps that fill the queue.

        Args:
            reader: Where records come from.
            process: A function of a net and a record, which adds operators and gives the record to be put in.

        Returns:
            A reader of the queue; the step that fills it, beside which another one reads; the step that
            closes it; and the schema.
        """
        steps = []
        for at in range(self.num_threads):
            read_net, write_net = core.Net(f"reader_{at}"), core.Net(f"queue_writer{at}")
            should_stop, record = reader.read_record(read_net)
            self.writer.write(write_net, process(write_net, record) if process else record)
            parts = [
                core.execution_step(f"reader_{at}", read_net),
                core.execution_step(f"queue_writer{at}", write_net),
            ]
            steps.append(core.execution_step(f"producer_{at}", parts, should_stop_blob=should_stop))
        producers = core.execution_step("producers", steps, concurrent_substeps=True)
        return self.reader, producers, self.exit_step, self.schema
