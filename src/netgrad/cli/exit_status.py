"""What the exit status of the command means."""

from __future__ import annotations

import enum


class ExitStatus(enum.IntEnum):
    """Exit statuses of every verb."""

    DONE = 0
    ANSWER_IS_NO = 1
    """The question was answered, and the answer is no: a gradient check that failed."""
    WRONG_CALL = 2
    """An argument or a file cannot be used; nothing was written."""
    INTERRUPTED = 130
    """Stopped by Ctrl-C."""
