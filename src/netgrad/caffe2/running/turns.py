"""Threads take turns: one part of a net runs at a time, and what waits for a queue lets the others go on.

So steps that run at once share their blobs, counters and parameters without races; ONNX Runtime uses several
cores inside of each part anyway.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from netgrad.caffe2.running.errors import RunError

_gate = threading.Condition()  # guards the two that follow
_line: deque[object] = deque()  # who wants the turn, in order
_holder: list[int] = []  # the thread whose turn it is
_waiting: set[threading.Thread] = set()  # threads that have looked in vain since something has changed
_joining: dict[
    threading.Thread, list[threading.Thread]
] = {}  # threads that wait for others to end, and for which
_PAUSE = 0.05  # seconds after which a thread that waits looks whether anybody is left to wake it


class _Own(threading.local):
    stops: tuple[threading.Event, ...] = ()


_own = _Own()


class StoppedError(RunError):
    """A step was given up: one that ran beside it has failed, or the plan was cancelled.

    Cause: the error of the other step, which the plan raises; or ``cancel`` of a plan in the background.

    Example: a reader with a bad path beside a trainer that waits for its batches.

    What to do: see the other error.
    """


def turn() -> contextlib.AbstractContextManager[None]:
    """Nobody else runs a part inside the block, but while `wait_until` waits; first come, first served."""
    return _Turn()


class _Turn(contextlib.AbstractContextManager[None]):
    """A block of `turn`; a class, since nets with little to do have many of them."""

    __slots__ = ("_own", "_within")

    def __enter__(self) -> None:
        self._own = threading.get_ident()
        self._within = _holder == [self._own]  # a part within a part
        if not self._within:
            with _gate:
                if _holder or _line:
                    _take_turn(self._own)
                else:
                    _holder.append(self._own)

    def __exit__(self, *_: object) -> None:
        if self._within:
            return
        with _gate:
            if _holder == [self._own]:  # not so if it was interrupted while it waited
                _holder.clear()
            _gate.notify_all()


def _take_turn(own: int) -> None:
    ticket = object()
    _line.append(ticket)
    try:
        while _holder or _line[0] is not ticket:
            _gate.wait()
        _holder.append(own)
    finally:
        _line.remove(ticket)


@contextlib.contextmanager
def stopped_by(*events: threading.Event) -> Iterator[None]:
    """What this thread runs inside the block is given up when one of the events is set."""
    before = _own.stops
    _own.stops = (*before, *events)
    try:
        yield
    finally:
        _own.stops = before


def current_stops() -> tuple[threading.Event, ...]:
    """The events that stop this thread, for threads that it starts."""
    return _own.stops


@contextlib.contextmanager
def waiting(threads: list[threading.Thread]) -> Iterator[None]:
    """This thread only waits for others to end inside the block."""
    own = threading.current_thread()
    _joining[own] = threads
    try:
        yield
    finally:
        del _joining[own]


def _nobody_else() -> bool:
    """Whether all threads wait for something that another thread would have to do."""
    there = set(threading.enumerate())
    # one that ends is first not there any more, then not alive, and then wakes who waits for it
    joining = {own for own, threads in list(_joining.items()) if there.intersection(threads)}
    return there <= _waiting | joining


def check_stopped() -> None:
    """Raise if this thread's work is to be given up.

    Raises:
        StoppedError: A step beside it has failed, or the plan was cancelled.
    """
    stops = _own.stops
    if stops and any(stop.is_set() for stop in stops):
        raise StoppedError("the step was given up: one that ran beside it has failed, or it was cancelled")


def tell() -> None:
    """Something has changed that others may wait for; called within a turn."""
    _waiting.clear()
    with _gate:
        _gate.notify_all()


def pause(seconds: float) -> None:
    """Do nothing for some time, while others have their turns."""
    wait_until(lambda: False, seconds)


def wait_until(ready: Callable[[], bool], timeout: float | None = None) -> bool:
    """Wait, within a turn, while others have theirs.

    Args:
        ready: What is waited for.
        timeout: Seconds after which it is given up; None for as long as it takes.

    Returns:
        Whether it has come.

    Raises:
        StoppedError: A step beside this one has failed.
        RunError: There is no other thread that could bring it about.
    """
    end = None if timeout is None else time.monotonic() + timeout
    own = threading.current_thread()
    try:
        while not ready():
            check_stopped()
            if end is not None and time.monotonic() >= end:
                return False
            if end is None:  # else time alone brings it on
                _waiting.add(own)
            if end is None and _nobody_else():
                raise RunError("it would wait forever, since nothing else is running")
            with _gate:
                _holder.clear()
                _gate.notify_all()
                _gate.wait(_PAUSE)
                _take_turn(threading.get_ident())
        return True
    finally:
        _waiting.discard(own)
