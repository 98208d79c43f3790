"""Calls that have to end in time: ``with CompleteInTimeOrDie(60.0): workspace.RunNet(net)``."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator

_SECONDS_TO_END = 10.0

log = logging.getLogger("timeout_guard")


class WatcherThread(threading.Thread):
    """Ends the process if it isn't told in time that the call has completed.

    It prints where all threads are, interrupts the process as Ctrl+C does, and ends it by force, with exit
    status 1, if that doesn't help in ten seconds.

    Attributes:
        timeout_secs: How long it waits.
        completed: Whether the call has completed.
        caller_thread: The thread that makes the call.
    """

    def __init__(self, timeout_secs: float) -> None:
        """Prepare to wait so many seconds; `start` begins."""
        super().__init__(daemon=True)
        self.timeout_secs = timeout_secs
        self.completed = False
        self.condition = threading.Condition()
        self.caller_thread = threading.current_thread()

    def complete(self) -> None:
        """Say that the call has completed."""
        with self.condition:
            self.completed = True
            self.condition.notify()

    def run(self) -> None:
        """Wait, and end the process if nothing was said."""
        with self.condition:
            if self.condition.wait_for(lambda: self.completed, self.timeout_secs):
                return
        log.error("Call did not finish in time. Timeout:%ss PID: %s", self.timeout_secs, os.getpid())
        _print_threads(f"caller: {self.caller_thread.name}")
        threading.Thread(target=_end_by_force, daemon=True).start()
        os.kill(os.getpid(), signal.SIGINT)


def _end_by_force() -> None:
    time.sleep(_SECONDS_TO_END)
    _print_threads("before the process is ended by force")
    log.error("Process did not terminate cleanly in %s s, forcing", _SECONDS_TO_END)
    os._exit(1)


def _print_threads(heading: str) -> None:
    """Print where all threads are."""
    print(f"threads ({heading})")
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for number, frame in sys._current_frames().items():
        print(f"thread {names.get(number, number)}:")
        print("".join(traceback.format_stack(frame)), flush=True)


@contextlib.contextmanager
def CompleteInTimeOrDie(timeout_secs: float) -> Iterator[None]:
    """End the process if the block takes longer; see `WatcherThread`.

    Args:
        timeout_secs: How long it may take.
    """
    watcher = WatcherThread(timeout_secs)
    watcher.start()
    try:
        yield
    finally:
        watcher.complete()


def EuthanizeIfNecessary(timeout_secs: float = 120) -> None:
    """End the process if it is still there after so many seconds: for the end of a program."""
    WatcherThread(timeout_secs).start()
