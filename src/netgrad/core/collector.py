"""The garbage collector while many objects are made that all stay."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_MANY = 100_000
"""Objects that were made inside a block and are still there, from which on they are moved unseen."""


@contextlib.contextmanager
def not_collecting() -> Iterator[None]:
    """Stop the garbage collector inside the block.

    A backward pass makes millions of objects that live until it ends, and the collector would look at all of
    them, most of them twice: 15 to 35 % of the time (``benchmarks/scale.py``). Many objects are then put
    among the old ones, where the collector looks when it looks at everything; otherwise it would look at all
    of them as soon as the block ends. Cycles that rules leave behind are collected after the block. Where
    the collector was stopped before, or keeps frozen objects of the caller, nothing is changed.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] > _MANY and gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()
        gc.enable()
