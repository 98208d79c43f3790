"""Classes whose objects are entered, and found by the code inside: one stack per class and thread."""

from __future__ import annotations

import functools
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeVar

_Class = TypeVar("_Class", bound=type)
_Function = TypeVar("_Function", bound=Callable[..., Any])


class _Own(threading.local):
    def __init__(self) -> None:
        self.stacks: defaultdict[type, list[Any]] = defaultdict(list)


_own = _Own()


def _kind(cls: type) -> type:
    """The class that has the stack for objects of ``cls``: it, or the one that it derives from."""
    for parent in cls.__mro__:
        if "_allows_default" in parent.__dict__:
            return parent
    plain = [parent for parent in cls.__mro__ if issubclass(parent, Managed)]
    return next(parent for parent in reversed(plain) if parent not in (Managed, DefaultManaged))


def _current(cls: type, value: Any = None, required: bool = True) -> Any:
    """``value``, or else the object that was entered last.

    Args:
        cls: The class that is asked.
        value: An object to be returned as it is.
        required: Whether there has to be one.

    Raises:
        AssertionError: ``value`` is of another class; or none was entered, and the class has no default.
    """
    kind = _kind(cls)
    if value is not None:
        assert isinstance(value, kind), f"an object of {kind.__name__} is needed, not {value!r}"
        return value
    stack = _own.stacks[kind]
    if not stack:
        if not required:
            return None
        allowed = getattr(cls, "_allows_default", issubclass(cls, DefaultManaged))
        assert allowed, f"Context {cls.__name__} is required but none is active."
        stack.append(cls())
    return stack[-1]


def _enter(self: Any) -> Any:
    _own.stacks[_kind(type(self))].append(self)
    return self


def _leave(self: Any) -> None:
    stack = _own.stacks[_kind(type(self))]
    last = stack[-1] if stack else None
    assert last is self, f"{type(self).__name__} was not the last that was entered"
    stack.pop()


def _within(self: Any, function: _Function) -> _Function:
    """``function``, which runs with the object entered; so that it works as a decorator."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with self:
            return function(*args, **kwargs)

    return wrapped  # type: ignore[return-value]


class Managed:
    """A class whose objects are entered by ``with``, and found by ``current``."""

    def __enter__(self) -> Any:
        return _enter(self)

    def __exit__(self, *args: Any) -> None:
        _leave(self)

    def __call__(self, function: _Function) -> _Function:
        """A function that runs with the object entered."""
        return _within(self, function)

    @classmethod
    def current(cls, value: Any = None, required: bool = True) -> Any:
        """``value``, or else the object that was entered last in this thread.

        Raises:
            AssertionError: There is none, and one is required.
        """
        return _current(cls, value, required)


class DefaultManaged(Managed):
    """`Managed`, where an object is made if none was entered."""


def define_context(arg_name: str | None = None, allow_default: bool = False) -> Callable[[_Class], _Class]:
    """A decorator that gives a class what `Managed` gives to those that derive from it.

    Args:
        arg_name: Not used.
        allow_default: Whether an object is made where none was entered.
    """

    def decorated(cls: _Class) -> _Class:
        assert not hasattr(cls, "_allows_default"), f"{cls.__name__} derives from a class with a context"
        enter, leave = cls.__dict__.get("__enter__"), cls.__dict__.get("__exit__")

        def entered(self: Any) -> Any:
            _enter(self)
            return self if enter is None else enter(self)

        def left(self: Any, *args: Any) -> Any:
            _leave(self)
            return None if leave is None else leave(self, *args)

        members: dict[str, Any] = {
            "_allows_default": allow_default,
            "__enter__": entered,
            "__exit__": left,
            "__call__": _within,
            "current": classmethod(_current),
        }
        for name, member in members.items():
            setattr(cls, name, member)
        return cls

    return decorated
