"""Contexts in which parameters get modifiers, such as optimizers, by their tags."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, TypeVar

DEFAULT_MODIFIER = "DEFAULT"

_Context = TypeVar("_Context", bound="ModifierContext")


class _Own(threading.local):
    def __init__(self) -> None:
        self.contexts: dict[type, Any] = {}


_own = _Own()


class ModifierContext:
    """The modifiers that are in force, by name; those of inner blocks come before those of outer ones."""

    @classmethod
    def current(cls: type[_Context], value: _Context | None = None, required: bool = True) -> _Context:
        """``value``, or else the one of this class and thread, which is there without being entered."""
        found: _Context = _own.contexts.setdefault(cls, cls()) if value is None else value
        return found

    def __init__(self) -> None:
        self._modifiers: dict[str, Any] = {}
        self._modifiers_list: list[dict[str, Any]] = []

    def _has_modifier(self, name: str) -> bool:
        return name in self._modifiers

    def _get_modifier(self, name: str) -> Any:
        return self._modifiers.get(name)

    def push_modifiers(self, modifiers: dict[str, Any]) -> None:
        """Put more modifiers in force."""
        self._modifiers_list.append(modifiers)
        self._modifiers.update(modifiers)

    def pop_modifiers(self) -> None:
        """Put those that came last out of force."""
        assert self._modifiers_list, "there are no modifiers to put out of force"
        self._modifiers_list.pop()
        self._modifiers = {}
        for modifiers in self._modifiers_list:
            self._modifiers.update(modifiers)


class UseModifierBase:
    """A block in which modifiers are in force: one for all parameters, or a dictionary by tag or name."""

    def __init__(self, modifier_or_dict: Any) -> None:
        is_many = isinstance(modifier_or_dict, dict)
        self._modifiers = modifier_or_dict if is_many else {DEFAULT_MODIFIER: modifier_or_dict}

    def _context_class(self) -> type[ModifierContext]:
        raise NotImplementedError(f"{type(self).__name__} says not which context it changes")

    def __enter__(self) -> UseModifierBase:
        self._context_class().current().push_modifiers(self._modifiers)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context_class().current().pop_modifiers()
