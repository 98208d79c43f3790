"""Scopes whose parameters are those of other scopes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping

from netgrad.caffe2.python import scope


class _Overrides(threading.local):
    def __init__(self) -> None:
        self.contexts: list[dict[str, str]] = []


_overrides = _Overrides()


def _resolved(name: str) -> str:
    """A scope with all overrides applied: the longest match of the innermost context first."""
    seen = {name}
    while True:
        found = _step(name)
        if found is None:
            return name
        assert found not in seen, f"parameters of scope '{name}' are shared in a circle"
        seen.add(found)
        name = found


def _step(name: str) -> str | None:
    for context in reversed(_overrides.contexts):
        for start in sorted(context, key=len, reverse=True):
            if name == start or name.startswith(start + "/"):
                return (context[start] + name[len(start) :]).lstrip("/")
    return None


class _ParameterSharingContext:
    """Gives parameters their names."""

    def get_parameter_name(self, name: str) -> str:
        """The full name of a parameter that is created here under ``name``."""
        current = scope.CurrentNameScope().rstrip("/")
        shared = _resolved(current) if current else ""
        return f"{shared}/{name}" if shared else name


parameter_sharing_context = _ParameterSharingContext()


@contextlib.contextmanager
def ParameterSharing(shared_scopes: Mapping[str, str]) -> Iterator[None]:
    """Let parameters that are created in one scope be those of another inside the block.

    Args:
        shared_scopes: Scope to the scope whose parameters it takes, both relative to the current one, which
            is ``''``.
    """
    prefix = scope.CurrentNameScope()
    whole = {(prefix + start).rstrip("/"): (prefix + end).rstrip("/") for start, end in shared_scopes.items()}
    _overrides.contexts.append(whole)
    try:
        yield
    finally:
        _overrides.contexts.pop()
