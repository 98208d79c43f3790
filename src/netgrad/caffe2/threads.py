"""How many threads one operator may use."""

from __future__ import annotations

import os
from collections.abc import Sequence

_given: list[int] = []

_FLAGS = ("--caffe2_mkl_num_threads", "--caffe2_omp_num_threads")  # the first counts where both are given


def read_flags(arguments: Sequence[str]) -> None:
    """Take the number from flags of the native runtime, if they give one.

    Nets that have run keep the threads that they have.
    """
    flags = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
    for flag in _FLAGS:
        number = _positive(flags.get(flag, ""))
        if number is not None:
            _given[:] = [number]
            return


def number() -> int | None:
    """As many as a flag says, or ``OMP_NUM_THREADS``; None for as many as there are cores."""
    if _given:
        return _given[0]
    return _positive(os.environ.get("OMP_NUM_THREADS", "").split(",")[0])


def _positive(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isdecimal() and int(text) > 0 else None
