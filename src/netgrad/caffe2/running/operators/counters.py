"""Counters, mutexes, truth values that are shared, and iteration numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import BlobProto, OperatorDef
from netgrad.caffe2.running.blob import as_array, is_tensor
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs
from netgrad.caffe2.stored import Stored
from netgrad.caffe2.tensors import elements_of, to_message
from netgrad.core import InvalidModelError


class Mutex(Stored, blob_type="std::unique_ptr<std::mutex>"):
    """What operators that update one blob lock; they run one after the other anyway.

    Attributes:
        memory: What the operators that lock it keep together.
    """

    def __init__(self) -> None:
        self.memory: dict[str, Any] = {}

    def to_message(self, name: str) -> BlobProto:
        """A blob of this name; there is nothing to say of it."""
        return BlobProto(name=name, type="std::unique_ptr<std::mutex>", content=b"")

    @classmethod
    def of(cls, blob: BlobProto, where: str) -> Mutex:
        """A new one."""
        return cls()


class Counter(Stored, blob_type="std::unique_ptr<Counter<"):
    """A number that counts down to zero and below."""

    def __init__(self, count: int) -> None:
        self.start = count
        self.count = count

    def to_message(self, name: str) -> BlobProto:
        """The number as a blob of this name."""
        tensor = to_message(np.array([self.count], np.int64), name)
        return BlobProto(name=name, type="std::unique_ptr<Counter<int64_t>>", tensor=tensor)

    @classmethod
    def of(cls, blob: BlobProto, where: str) -> Counter:
        """A counter at the number that a blob holds.

        Raises:
            InvalidModelError: It holds something else.
        """
        numbers = elements_of(blob.tensor)
        if numbers.dtype != np.int64 or numbers.size != 1:
            raise InvalidModelError(f"{where} is no counter: it holds {numbers.size} {numbers.dtype}")
        return cls(int(numbers[0]))


class AtomicBool:
    """A truth value that is changed once."""

    def __init__(self) -> None:
        self.value = False


@runs("CreateMutex")
def _create_mutex(call: Call) -> None:
    call.put(0, Mutex())


def _without_inputs(definition: OperatorDef) -> bool:
    return not definition.input


@runs("Iter", when=_without_inputs)
def _iter(call: Call) -> None:
    """The output itself is the counter, which starts at 0 before the first run."""
    name = call.definition.output[0]
    value = call.workspace.create_blob(name).value
    _advance(call, np.zeros(1, np.int64) if value is None else value)


def _advance(call: Call, value: object) -> None:
    if not is_tensor(value) or as_array(value).dtype != np.int64 or as_array(value).size != 1:
        raise call.error("the iteration is one int64 number")
    call.write(0, as_array(value) + 1)


@runs("CreateCounter")
def _create_counter(call: Call) -> None:
    call.put(0, Counter(call.argument("init_count", 0)))


def _counter(call: Call) -> Counter:
    counter = call.value(0)
    if not isinstance(counter, Counter):
        raise call.error(f"input '{call.definition.input[0]}' was not written by CreateCounter")
    return counter


@runs("ResetCounter")
def _reset_counter(call: Call) -> None:
    """Start again from the argument; the output is where the counter was."""
    counter = _counter(call)
    before = counter.count
    counter.start = counter.count = call.argument("init_count", 0)
    if call.definition.output:
        call.write(0, np.int64(before))


@runs("CountDown")
def _count_down(call: Call) -> None:
    """One less; the output says whether it was at zero or below before."""
    counter = _counter(call)
    call.write(0, np.bool_(counter.count <= 0))
    counter.count -= 1


@runs("CountUp")
def _count_up(call: Call) -> None:
    """One more; the output is where it was before."""
    counter = _counter(call)
    call.write(0, np.int64(counter.count))
    counter.count += 1


@runs("RetrieveCount")
def _retrieve_count(call: Call) -> None:
    call.write(0, np.int64(_counter(call).count))


@runs("CheckCounterDone")
def _check_counter_done(call: Call) -> None:
    call.write(0, np.bool_(_counter(call).count <= 0))


@runs("CreateAtomicBool")
def _create_atomic_bool(call: Call) -> None:
    call.put(0, AtomicBool())


def _atomic_bool(call: Call) -> AtomicBool:
    found = call.value(0)
    if not isinstance(found, AtomicBool):
        raise call.error(f"input '{call.definition.input[0]}' was not written by CreateAtomicBool")
    return found


@runs("ConditionalSetAtomicBool")
def _conditional_set_atomic_bool(call: Call) -> None:
    """Set it where the second input holds."""
    if call.scalar(1):
        _atomic_bool(call).value = True


@runs("CheckAtomicBool")
def _check_atomic_bool(call: Call) -> None:
    call.write(0, [_atomic_bool(call).value])


@runs("AtomicFetchAdd", "AtomicFetchAdd64")
def _atomic_fetch_add(call: Call) -> None:
    """Add the third input to the second; the outputs are the sum and what was there before."""
    if not isinstance(call.value(0), Mutex):
        raise call.error(f"input '{call.definition.input[0]}' was not written by CreateMutex")
    before, more = call.array(1), call.array(2)
    call.write(0, before + more)
    call.write(1, before)
