"""Timers."""

from __future__ import annotations

import time

import numpy as np

from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs


class Timer:
    """Runs from when it is made.

    Attributes:
        start: When that was, in nanoseconds.
    """

    def __init__(self) -> None:
        self.start = time.perf_counter_ns()


def _timer(call: Call) -> Timer:
    timer = call.value(0)
    if not isinstance(timer, Timer):
        raise call.error(f"input '{call.definition.input[0]}' was not written by TimerBegin")
    return timer


@runs("TimerBegin")
def _begin(call: Call) -> None:
    if not call.argument("counter_name", ""):
        raise call.error("argument 'counter_name' is missing")
    call.put(0, Timer())


@runs("TimerEnd")
def _end(call: Call) -> None:
    """Nothing: nobody listens to what is timed."""
    _timer(call)


@runs("TimerGet", "TimerGetAndEnd")
def _get(call: Call) -> None:
    """The nanoseconds since the start."""
    call.write(0, np.array([time.perf_counter_ns() - _timer(call).start], np.int64))


@runs("WallClockTime")
def _wall_clock_time(call: Call) -> None:
    call.write(0, np.int64(time.time()))
