"""Queues of blobs between steps that run at once."""

from __future__ import annotations

from collections import deque
from typing import Any, NoReturn

import numpy as np

from netgrad.caffe2.running import turns
from netgrad.caffe2.running.blob import as_array, is_tensor, is_text
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.errors import RunError
from netgrad.caffe2.running.operators.databases import RecordReader
from netgrad.caffe2.running.registry import runs


class BlobsQueue:
    """Rows of blobs, first in, first out.

    Attributes:
        capacity: How many rows it holds at most.
        width: How many blobs a row has.
        rows: What is in it.
        closed: Whether nothing more comes in.
    """

    def __init__(self, capacity: int, width: int) -> None:
        self.capacity = capacity
        self.width = width
        self.rows: deque[list[Any]] = deque()
        self.closed = False


@runs("CreateBlobsQueue")
def _create(call: Call) -> None:
    fields = call.argument("field_names", ())
    width = call.argument("num_blobs", len(fields) or 1)
    call.put(0, BlobsQueue(call.argument("capacity", 1), width))


@runs("CloseBlobsQueue")
def _close(call: Call) -> None:
    """Nothing more comes in; what is in it can still be taken out."""
    _queue(call).closed = True
    turns.tell()


@runs("EnqueueBlobs")
def _enqueue(call: Call) -> None:
    """Put blobs in, as soon as there is room."""
    if not _put(call):
        raise call.error("the queue is closed")


@runs("SafeEnqueueBlobs")
def _safe_enqueue(call: Call) -> None:
    """Put blobs in; the last output says whether the queue was closed instead."""
    call.write(len(call.definition.output) - 1, np.bool_(not _put(call)))


@runs("DequeueBlobs")
def _dequeue(call: Call) -> None:
    """Take blobs out, as soon as there are any."""
    row = _take(call, _queue(call), call.argument("timeout_secs", 0.0))
    if row is None:
        raise call.error("the queue is closed and empty, or the time is up")
    for at, value in enumerate(row):
        call.put(at, value)


@runs("SafeDequeueBlobs")
def _safe_dequeue(call: Call) -> None:
    """Take rows out, joined along the first axis if several; the last output says whether there were none."""
    queue, count = _queue(call), call.argument("num_records", 1)
    rows: list[list[Any]] = []
    while len(rows) < count:
        row = _take(call, queue)
        if row is None:
            break
        rows.append(row)
    call.write(queue.width, np.bool_(not rows))
    if not rows:
        return
    for at, values in enumerate(zip(*rows, strict=True)):
        if count == 1:
            call.put(at, values[0])
        elif all(is_tensor(value) or is_text(value) for value in values):
            call.write(at, np.concatenate([as_array(value) for value in values]))
        else:
            raise call.error("only tensors of several records can be joined")


@runs("WeightedSampleDequeueBlobs")
def _weighted_sample_dequeue(call: Call) -> None:
    """Take a row out of one of several queues, drawn by weights; the last output says whether it was empty.

    With ``table_idx_blob`` the output at that place says which queue it was, instead of the row's blob.
    """
    count = len(call.definition.input)
    weights = np.asarray(call.argument("weights", (1.0,) * count), np.float64)
    place, last = call.argument("table_idx_blob", -1), len(call.definition.output) - 1
    if len(weights) != count or weights.min() < 0 or not weights.sum() or not -1 <= place < last:
        raise call.error("it needs a weight for each queue, one above 0, and a place before the last output")
    chosen = int(call.random().choice(count, p=weights / weights.sum()))
    queue = _queue(call, chosen)
    if last != queue.width:
        raise call.error(f"queue '{call.definition.input[chosen]}' has rows of {queue.width} blobs")
    row = _take(call, queue)
    for at, value in enumerate(row or ()):
        call.put(at, value)
    if place >= 0:
        call.write(place, np.array([chosen], np.int32))
    call.write(last, np.bool_(row is None))


class QueueRecords(RecordReader):
    """The records of a database that a queue holds, each once."""

    def __init__(self, call: Call, queue: BlobsQueue) -> None:
        self._call = call
        self._queue = queue
        self._key = call.argument("key_blob_index", -1)
        self._value = call.argument("value_blob_index", 0)
        self._seconds = call.argument("timeout_secs", 0.0)
        if not -1 <= self._key < queue.width or not 0 <= self._value < queue.width:
            raise call.error(f"the queue has rows of {queue.width} blobs only")

    def next(self) -> tuple[str, bytes]:
        """The next record; the key is empty where no blob has it."""
        row = _take(self._call, self._queue, self._seconds)
        if row is None:
            raise self._call.error("the queue is closed and empty, or the time is up")
        return ("" if self._key < 0 else _text(row[self._key]).decode()), _text(row[self._value])

    def all(self) -> NoReturn:
        """Refused: there is no end of it."""
        raise self._call.error("blobs can't be loaded from a queue")


def _text(value: Any) -> bytes:
    """A text, or the one in a tensor."""
    if is_text(value) and value.size == 1:
        value = value.reshape(-1)[0]
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if not isinstance(value, bytes):
        raise RunError("a record of a database in a queue is a text, or a tensor of one text")
    return value


@runs("CreateBlobsQueueDB")
def _create_blobs_queue_db(call: Call) -> None:
    call.put(0, QueueRecords(call, _queue(call)))


def _queue(call: Call, at: int = 0) -> BlobsQueue:
    queue = call.value(at)
    if not isinstance(queue, BlobsQueue):
        raise call.error(f"input '{call.definition.input[at]}' was not written by CreateBlobsQueue")
    return queue


def _put(call: Call) -> bool:
    """Whether the blobs went in, and the queue was not closed."""
    queue = _queue(call)
    names = call.definition.input[1:]
    if len(names) != queue.width:
        raise call.error(f"the queue has rows of {queue.width} blobs, not {len(names)}")
    values = [call.value(at + 1) for at in range(len(names))]
    wait(call, lambda: queue.closed or len(queue.rows) < queue.capacity, 0.0)
    if queue.closed:
        return False
    queue.rows.append([np.array(value) if isinstance(value, np.ndarray) else value for value in values])
    turns.tell()
    return True


def _take(call: Call, queue: BlobsQueue, seconds: float = 0.0) -> list[Any] | None:
    """The next row, or None where the queue is closed and empty, or the time is up."""
    wait(call, lambda: queue.closed or bool(queue.rows), seconds)
    if not queue.rows:
        return None
    row = queue.rows.popleft()
    turns.tell()
    return row


def wait(call: Call, ready: Any, seconds: float) -> None:
    """Wait until something is ready, or for some seconds if they aren't 0.

    Raises:
        RunError: It would wait forever, or a step beside has failed.
    """
    try:
        turns.wait_until(ready, seconds or None)
    except turns.StoppedError:
        raise
    except RunError as error:
        raise call.error(f"{error}: put its step beside one that fills or empties the queue") from error
