"""Tensors that grow: appended rows, vectors of tensors, samples, windows of the last rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.running import packed
from netgrad.caffe2.running.blob import Array, is_tensor, is_text
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.operators.counters import Mutex
from netgrad.caffe2.running.operators.datasets import read_columns
from netgrad.caffe2.running.registry import runs

_GROWTH = 1.4


class TensorVector:
    """Tensors in a row.

    Attributes:
        tensors: What is in it.
    """

    def __init__(self) -> None:
        self.tensors: list[Array] = []


# ---- appending ---------------------------------------------------------------------------------------


@runs("Append")
def _append(call: Call) -> None:
    """Append the rows of the second input to the first, which is the output."""
    (target, more) = read_columns(call, 0)
    call.put(0, _appended(call, 0, target, more, call.memory))


@runs("AtomicAppend")
def _atomic_append(call: Call) -> None:
    """`Append` for several tensors, all or none: a mutex, the tensors, and what is appended to each."""
    count = (len(call.definition.input) - 1) // 2
    if len(call.definition.input) != 2 * count + 1 or len(call.definition.output) != count:
        raise call.error("it reads a mutex, some tensors and as many to append, and writes the tensors")
    mutex = call.value(0)
    if not isinstance(mutex, Mutex):
        raise call.error(f"input '{call.definition.input[0]}' was not written by CreateMutex")
    tensors = read_columns(call, 1)
    grown = [_appended(call, at, tensors[at], tensors[count + at], mutex.memory) for at in range(count)]
    for at, tensor in enumerate(grown):
        call.put(at, tensor)


def _appended(call: Call, output: int, target: Array, more: Array, memory: dict[str, Any]) -> Array:
    """Both in one tensor: the head of a larger one, kept in ``memory``, with room for what comes next."""
    name = call.definition.output[output]
    if more.ndim < 1 or target.ndim < 1:
        raise call.error(f"'{name}', or what it is appended to, has no rows: it is a single value")
    if not len(target):
        return np.array(more)
    if target.dtype != more.dtype or target.shape[1:] != more.shape[1:]:
        raise call.error(
            f"{more.dtype} of shape {list(more.shape)} can't be appended to '{name}', "
            f"{target.dtype} of shape {list(target.shape)}"
        )
    total = len(target) + len(more)
    rooms: dict[str, tuple[Array, Array]] = memory.setdefault("rooms", {})
    room, head = rooms.get(name, (None, None))
    if room is None or head is not target or total > len(room):
        room = np.empty((int(total * _GROWTH) + 1, *target.shape[1:]), target.dtype)
        room[: len(target)] = target
    room[len(target) : total] = more
    head = room[:total]
    rooms[name] = room, head
    return head


# ---- vectors of tensors ------------------------------------------------------------------------------


@runs("CreateTensorVector")
def _create_tensor_vector(call: Call) -> None:
    call.put(0, TensorVector())


@runs("TensorVectorSize")
def _tensor_vector_size(call: Call) -> None:
    call.write(0, np.int32(len(_vector(call, 0).tensors)))


@runs("ConcatTensorVector")
def _concat_tensor_vector(call: Call) -> None:
    tensors = _vector(call, 0).tensors
    if not tensors:
        raise call.error(f"there are no tensors in '{call.definition.input[0]}'")
    if len({(tensor.dtype, tensor.shape[1:]) for tensor in tensors}) > 1 or not tensors[0].ndim:
        raise call.error(f"the tensors in '{call.definition.input[0]}' differ in type or in more than rows")
    call.write(0, np.concatenate(tensors))


@runs("CollectTensor")
def _collect_tensor(call: Call) -> None:
    """Keep a uniform sample of the tensors that come by: of all inputs those of the same runs."""
    limit, count = call.argument("num_to_collect", -1), len(call.definition.output)
    if limit < 1 or len(call.definition.input) != 2 * count:
        raise call.error("it reads vectors and as many tensors, and 'num_to_collect' is at least 1")
    if list(call.definition.input[:count]) != list(call.definition.output):
        raise call.error("its outputs are the vectors that it reads")
    seen = call.memory.get("seen", 0)
    call.memory["seen"] = seen + 1
    place = seen
    if seen >= limit:
        place = int(call.random().integers(0, seen + 1))
    if place >= limit:
        return
    for at in range(count):
        tensors = _vector(call, at).tensors
        tensor = np.array(call.array(count + at))
        if seen < limit:
            tensors.append(tensor)
        else:
            tensors[place] = tensor


def _vector(call: Call, at: int) -> TensorVector:
    vector = call.value(at)
    if not isinstance(vector, TensorVector):
        raise call.error(f"input '{call.definition.input[at]}' was not written by CreateTensorVector")
    return vector


# ---- windows -----------------------------------------------------------------------------------------


@runs("LastNWindowCollector")
def _last_n_window_collector(call: Call) -> None:
    """Keep the last rows in a ring.

    It reads the window, where the next row goes, the data, a mutex, and how many rows were seen; the window,
    the place and the number are outputs, too.
    """
    limit, data = call.argument("num_to_collect", -1), call.array(2)
    if limit < 1:
        raise call.error("argument 'num_to_collect' is missing or below 1")
    if data.ndim < 1:
        raise call.error(f"input '{call.definition.input[2]}' has no rows: it is a single value")
    if len(call.definition.output) > 2:
        call.write(2, call.array(len(call.definition.input) - 1) + np.int64(len(data)))
    before: Any = call.blob(0).value
    is_there = (is_tensor(before) or is_text(before)) and not packed.is_empty(before)
    window = call.array(0) if is_there else data[:0]
    if window.size and window.shape[1:] != data.shape[1:]:
        raise call.error(f"rows of shape {list(data.shape[1:])} don't fit a window {list(window.shape)}")
    start = int(call.scalar(1)) if window.size else 0
    rows, place = list(window) if window.size else [], start
    if len(data) > limit:  # all of it is new
        rows, place = list(data[-limit:]), 0
    else:
        for row in data:
            rows[place : place + 1] = [row]
            place = (place + 1) % limit
    call.write(0, packed.rows_in_one(rows, data))
    call.write(1, np.int32(place))
