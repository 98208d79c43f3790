"""Queues of elements that are put in one by one or by the batch, and taken out in batches of another size."""

from __future__ import annotations

from collections import deque

import numpy as np

from netgrad.caffe2.running import turns
from netgrad.caffe2.running.blob import Array
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.operators.queues import wait
from netgrad.caffe2.running.registry import runs


class RebatchingQueue:
    """Elements of several tensors each, first in, first out.

    Attributes:
        capacity: How many elements it holds at most.
        width: How many tensors an element has.
        elements: What is in it.
        closed: Whether nothing more comes in.
    """

    def __init__(self, capacity: int, width: int) -> None:
        self.capacity = capacity
        self.width = width
        self.elements: deque[list[Array]] = deque()
        self.closed = False


@runs("CreateRebatchingQueue")
def _create(call: Call) -> None:
    call.put(0, RebatchingQueue(call.argument("capacity", 1), call.argument("num_blobs", 1)))


@runs("CloseRebatchingQueue")
def _close(call: Call) -> None:
    """Nothing more comes in; what is in it can still be taken out."""
    _queue(call).closed = True
    turns.tell()


@runs("EnqueueRebatchingQueue")
def _enqueue(call: Call) -> None:
    """Put tensors in as one element, or with ``enqueue_batch`` each of their rows, once there is room."""
    queue = _queue(call)
    names = call.definition.input[1:]
    if len(names) != queue.width:
        raise call.error(f"the queue has elements of {queue.width} tensors, not {len(names)}")
    tensors = [call.array(at + 1) for at in range(len(names))]
    elements = [tensors]
    if call.argument("enqueue_batch", 0):
        if len({tensor.shape[:1] for tensor in tensors}) != 1 or not tensors[0].ndim:
            raise call.error("the tensors have different numbers of rows, or none at all")
        elements = [list(rows) for rows in zip(*tensors, strict=True)]
    for element in elements:
        wait(call, lambda: queue.closed or len(queue.elements) < queue.capacity, 0.0)
        if queue.closed:
            raise call.error("the queue is closed")
        queue.elements.append([np.array(tensor) for tensor in element])
        turns.tell()


@runs("DequeueRebatchingQueue")
def _dequeue(call: Call) -> None:
    """Take elements out, stacked; fewer than wanted only of a queue that is closed."""
    queue, count = _queue(call), call.argument("num_elements", 1)
    if len(call.definition.output) != queue.width:
        raise call.error(
            f"the queue has elements of {queue.width} tensors, not {len(call.definition.output)}"
        )
    found: list[list[Array]] = []
    while len(found) < count:
        wait(call, lambda: queue.closed or bool(queue.elements), 0.0)
        if not queue.elements:
            break
        while queue.elements and len(found) < count:
            found.append(queue.elements.popleft())
        turns.tell()
    if not found:
        raise call.error("the queue is closed and empty")
    for at, tensors in enumerate(zip(*found, strict=True)):
        if len({(tensor.dtype, tensor.shape) for tensor in tensors}) > 1:
            raise call.error(f"the elements for output '{call.definition.output[at]}' have different shapes")
        call.write(at, np.stack(tensors))


def _queue(call: Call) -> RebatchingQueue:
    queue = call.value(0)
    if not isinstance(queue, RebatchingQueue):
        raise call.error(f"input '{call.definition.input[0]}' was not written by CreateRebatchingQueue")
    return queue
