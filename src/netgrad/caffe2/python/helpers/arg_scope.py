"""Defaults for functions by their names, in force inside of a block."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterator
from typing import Any


class _Scopes(threading.local):
    def __init__(self) -> None:
        self.current: dict[str, dict[str, Any]] = {}


_scopes = _Scopes()


@contextlib.contextmanager
def arg_scope(single_helper_or_list: Any, **kwargs: Any) -> Iterator[None]:
    """Defaults for some functions inside the block; those of a block around stay where nothing else is said.

    Args:
        single_helper_or_list: A function, or a list of them.
        **kwargs: The defaults.

    Raises:
        AssertionError: Something is no function.
    """
    helpers = single_helper_or_list if isinstance(single_helper_or_list, list) else [single_helper_or_list]
    before = _scopes.current
    inside = copy.deepcopy(before)
    for helper in helpers:
        assert callable(helper), f"arg_scope takes functions, not {helper!r}"
        inside.setdefault(helper.__name__, {}).update(kwargs)
    _scopes.current = inside
    try:
        yield
    finally:
        _scopes.current = before


def get_current_scope() -> dict[str, dict[str, Any]]:
    """The defaults of the current block, by the functions' names."""
    return _scopes.current
