"""The garbage collector while many objects are made that all stay."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_OFTEN_ENOUGH = (50_000, 20, 1_000)
"""Thresholds as in `gc.set_threshold`; by default they are a few hundred, 10 and 10."""


@contextlib.contextmanager
def rarely_collecting() -> Iterator[None]:
    """Let the garbage collector look around rarely inside the block.

    A backward pass makes millions of objects that live until it ends, and the collector would look at all of
    them again and again: 12 to 35 % of the time (``benchmarks/scale.py``). Cycles that rules leave behind are
    still collected, in larger lots. A process that has set rarer thresholds itself keeps them.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(
        *(max(own, enough) if own else 0 for own, enough in zip(thresholds, _OFTEN_ENOUGH, strict=True))
    )
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
