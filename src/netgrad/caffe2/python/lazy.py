"""What is done only when operators are needed for the first time."""

from __future__ import annotations

from collections.abc import Callable

_calls: list[Callable[[], None]] = []


def RegisterLazyImport(lazy: Callable[[], None]) -> None:
    """Register a function that is called before a net is created, and when operators are listed anew."""
    _calls.append(lazy)


def TriggerLazyImport() -> None:
    """Call all functions that were registered; each time, as they know what they have done already."""
    for call in _calls:
        call()
