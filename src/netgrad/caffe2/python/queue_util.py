"""Queues of records between steps that run at once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.dataio import Pipe, Reader, Writer
from netgrad.caffe2.python.dataio.base import Read
from netgrad.caffe2.python.schema import Field
from netgrad.caffe2.python.task import TaskGroup

_logger = logging.getLogger(__name__)


class _QueueReader(Reader):
    """Takes records out of a queue, which is closed when it has finished."""

    def __init__(self, wrapper: QueueWrapper, num_dequeue_records: int = 1) -> None:
        assert wrapper.schema() is not None, "Queue needs a schema in order to be read from."
        super().__init__(wrapper.schema())
        self._wrapper = wrapper
        self._num_dequeue_records = num_dequeue_records

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        finish_net.CloseBlobsQueue([self._wrapper.queue()], 0)

    def read_ex(self, local_init_net: Any, local_finish_net: Any) -> Read:
        self._wrapper._new_reader(local_init_net)
        net = core.Net("dequeue")
        should_stop, fields = self.read(net)
        return [net], should_stop, fields

    def read(self, read_net: Any) -> tuple[Any, Any]:
        names = self.schema().field_names()
        fields, should_stop = dequeue(
            read_net,
            self._wrapper.queue(),
            len(names),
            field_names=names,
            num_records=self._num_dequeue_records,
        )
        return should_stop, fields


class _QueueWriter(Writer):
    """Puts records into a queue, which is closed when it has finished."""

    def __init__(self, wrapper: QueueWrapper) -> None:
        self._wrapper = wrapper

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        finish_net.CloseBlobsQueue([self._wrapper.queue()], 0)

    def write_ex(self, fields: Any, local_init_net: Any, local_finish_net: Any, stop_blob: Any) -> list[Any]:
        self._wrapper._new_writer(self.schema(), local_init_net)
        net = core.Net("enqueue")
        enqueue(net, self._wrapper.queue(), fields, stop_blob)
        return [net]


class QueueWrapper(Pipe):
    """A queue whose blob there is already."""

    def __init__(self, handler: Any, schema: Field | None = None, num_dequeue_records: int = 1) -> None:
        """Take the queue's blob.

        Args:
            handler: The blob.
            schema: What is in it; without it what is written first.
            num_dequeue_records: How many records a reader takes out at once, joined.
        """
        super().__init__(schema, TaskGroup.LOCAL_SETUP)
        self._queue = handler
        self._num_dequeue_records = num_dequeue_records

    def reader(self) -> _QueueReader:
        """A reader of it."""
        return _QueueReader(self, self._num_dequeue_records)

    def writer(self) -> _QueueWriter:
        """A writer into it."""
        return _QueueWriter(self)

    def queue(self) -> Any:
        """Its blob."""
        return self._queue


class Queue(QueueWrapper):
    """A queue that is made before the tasks which use it.

    Attributes:
        capacity: How many records it holds at most.
    """

    def __init__(
        self, capacity: int, schema: Field | None = None, name: str = "queue", num_dequeue_records: int = 1
    ) -> None:
        net = core.Net(name)  # gives its blob a name of its own
        super().__init__(net.AddExternalInput(net.NextName("handler")), schema, num_dequeue_records)
        self.capacity = capacity

    def setup(self, global_init_net: Any) -> None:
        """Add the operator that makes it.

        Raises:
            AssertionError: It isn't known what goes through.
        """
        assert self._schema is not None, "This queue does not have a schema."
        names = self._schema.field_names()
        global_init_net.CreateBlobsQueue(
            [], [self._queue], capacity=self.capacity, num_blobs=len(names), field_names=names
        )


def enqueue(net: Any, queue: Any, data_blobs: Sequence[Any], status: Any = None) -> Any:
    """Add an operator that puts blobs into a queue; a blob that stands twice is copied.

    Returns:
        The blob ``status``, which says whether the queue was closed.
    """
    blobs: list[Any] = []
    for blob in data_blobs:
        if blob in blobs:
            _logger.warning("blob %s is put into the queue twice: it is copied", blob)
            blob = net.Copy(blob)
        blobs.append(blob)
    if status is None:
        status = net.NextName("status")
    return core.output_to_list(net.SafeEnqueueBlobs([queue, *blobs], [*blobs, status]))[-1]


def dequeue(
    net: Any,
    queue: Any,
    num_blobs: int,
    status: Any = None,
    field_names: Sequence[str] | None = None,
    num_records: int = 1,
) -> tuple[list[Any], Any]:
    """Add an operator that takes records out of a queue.

    Args:
        net: The net.
        queue: The queue's blob.
        num_blobs: How many blobs a record has.
        status: A name for the blob that says whether the queue was closed and empty.
        field_names: Names for the blobs of the record.
        num_records: How many records are taken at once, joined.

    Returns:
        The blobs, and that of the status.
    """
    assert field_names is None or len(field_names) == num_blobs, f"{field_names} for {num_blobs} blobs"
    names = [
        net.NextName("data", at) if field_names is None else net.NextName(field_names[at])
        for at in range(num_blobs)
    ]
    names.append(net.NextName("status") if status is None else status)
    *fields, found = core.output_to_list(net.SafeDequeueBlobs(queue, names, num_records=num_records))
    return fields, found


def close_queue(step: Any, *queues: Any) -> core.ExecutionStep:
    """A step that runs another one and closes queues then."""
    net = core.Net("close_queue_net")
    for queue in queues:
        net.CloseBlobsQueue([queue], 0)
    close = core.execution_step(f"{net}_step", net)
    return core.execution_step(f"{net}_wrapper_step", [step, close])
