"""Readers that count, and readers that stop before the end."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import core
from netgrad.caffe2.python.dataio.base import Read, Reader
from netgrad.caffe2.python.schema import Struct
from netgrad.caffe2.running import turns

_NANOSECONDS = 10**9


def _no(net: Any, outputs: Any = 1) -> Any:
    """A truth value that doesn't hold."""
    return net.ConstantFill([], outputs, shape=[], value=False, dtype=core.DataType.BOOL)


class CounterReader(Reader):
    """Reads the integers from 0 on, without an end.

    Attributes:
        counter: The counter, once it is set up.
        should_stop: The blob that never says that the end has come.
    """

    def __init__(self) -> None:
        super().__init__(Struct(("iter", np.int64)))
        self.counter: Any = None
        self.should_stop: Any = None

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        """Make the counter."""
        if self.counter is None:
            self.counter = init_net.CreateCounter([], init_count=0)
            self.should_stop = _no(init_net)

    def read_ex(self, local_init_net: Any, local_finish_net: Any) -> Read:
        """The next integer."""
        net = core.Net("limited_reader_counter")
        return [net], self.should_stop, [net.CountUp([self.counter], 1)]


class ReaderWithLimitBase(Reader):
    """A reader that stops at its end or at a limit, and tells which it was.

    A class that derives from it has `setup_limiter` and `check_limiter_condition`.

    Attributes:
        reader: What is read.
        net: A net that has given names to its blobs.
    """

    def __init__(self, reader: Reader) -> None:
        super().__init__(reader._schema)
        self.reader = reader
        self.net = core.Net("reader_with_limit")
        self._data_finished = self._blob("data_finished")

    def _blob(self, name: str) -> core.BlobReference:
        blob: core.BlobReference = self.net.AddExternalInput(self.net.NextName(name))
        return blob

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        """Prepare the reader and the limit."""
        _no(init_net, [self._data_finished])
        self.reader.setup_ex(init_net, finish_net)
        self.setup_limiter(init_net, finish_net)

    def read_ex(self, local_init_net: Any, local_finish_net: Any) -> Read:
        """The limit is asked before each batch, and the end behind it."""
        before, after = core.Net("limited_reader_condition"), core.Net("limited_reader_post")
        should_stop = self.check_limiter_condition(before)
        nets, finished, fields = self.reader.read_ex(local_init_net, local_finish_net)
        self._set_schema(self.reader._schema)
        # one blob says both: it is looked at behind each net, so that the limit has been seen already
        after.Copy(finished, should_stop)
        after.Or([self._data_finished, finished], [self._data_finished])
        return [before, *nets, after], should_stop, fields

    def setup_limiter(self, init_net: Any, finish_net: Any) -> None:
        """Add what the limit needs once before all reading, and after it."""
        raise NotImplementedError(f"{type(self).__name__} has no setup_limiter")

    def check_limiter_condition(self, stop_condition_net: Any) -> Any:
        """Add operators that ask whether the limit is reached; returns the blob that says so."""
        raise NotImplementedError(f"{type(self).__name__} has no check_limiter_condition")

    def data_finished(self) -> core.BlobReference:
        """The blob that says, after the reading, whether the end came, and not the limit."""
        return self._data_finished


class ReaderWithLimit(ReaderWithLimitBase):
    """Stops after so many batches.

    Attributes:
        counter: The counter of the batches that are left, or None without a limit.
        num_iter: How many batches there may be, of all threads together.
    """

    def __init__(self, reader: Reader, num_iter: int | None = 1) -> None:
        """Take a reader, and the number of batches, or None for all."""
        super().__init__(reader)
        self.num_iter = num_iter
        self.counter = None if num_iter is None else self._blob("counter")

    def setup_limiter(self, init_net: Any, finish_net: Any) -> None:
        """Make the counter."""
        if self.num_iter is not None:
            init_net.CreateCounter([], [self.counter], init_count=int(self.num_iter))

    def check_limiter_condition(self, stop_condition_net: Any) -> Any:
        """Count a batch."""
        if self.counter is None:
            return _no(stop_condition_net)
        return stop_condition_net.CountDown([self.counter], 1)


def CountUntil(num_iter: int) -> ReaderWithLimit:
    """A reader of the integers below ``num_iter``."""
    return ReaderWithLimit(CounterReader(), num_iter)


class ReaderWithTimeLimit(ReaderWithLimitBase):
    """Stops when some time has passed since it was set up.

    Attributes:
        timer: The timer, once it is set up.
        duration: Seconds; 0 or None for no limit.
        duration_ns_blob: The blob of its nanoseconds.
    """

    def __init__(self, reader: Reader, duration: float | None = 0) -> None:
        """Take a reader and the seconds."""
        super().__init__(reader)
        self.timer: Any = None
        self.duration = duration
        self.duration_ns_blob: Any = None

    def setup_limiter(self, init_net: Any, finish_net: Any) -> None:
        """Start the timer."""
        if self.duration is None or self.duration <= 0:
            return
        self.timer = init_net.TimerBegin([], counter_name="epoch_timer")
        self.duration_ns_blob = init_net.GivenTensorInt64Fill(
            [], 1, shape=[1], values=[int(self.duration * _NANOSECONDS)]
        )
        finish_net.TimerEnd([self.timer], [])

    def check_limiter_condition(self, stop_condition_net: Any) -> Any:
        """Look at the timer."""
        if self.timer is None:
            return _no(stop_condition_net)
        passed = stop_condition_net.TimerGet([self.timer], 1)
        return stop_condition_net.GE([passed, self.duration_ns_blob], 1)


class ReaderWithDelay(Reader):
    """Waits before each batch.

    Attributes:
        reader: What is read.
        delay: Seconds.
    """

    def __init__(self, reader: Reader, delay: float) -> None:
        super().__init__(reader._schema)
        self.reader = reader
        self.delay = delay

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        """That of the reader inside."""
        self.reader.setup_ex(init_net, finish_net)

    def read_ex(self, local_init_net: Any, local_finish_net: Any) -> Read:
        """A wait, during which others go on, and a batch."""
        net = core.Net("delay")
        net.Python(lambda inputs, outputs: turns.pause(self.delay))([], [])
        nets, should_stop, fields = self.reader.read_ex(local_init_net, local_finish_net)
        return [net, *nets], should_stop, fields
