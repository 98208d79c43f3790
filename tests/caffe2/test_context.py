"""Objects that are entered and found by the code inside."""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest

from netgrad.caffe2.python import context


class Needed(context.Managed):
    """There has to be one."""


class Child(Needed):
    """Found as one of those that it derives from."""


class Optional(context.DefaultManaged):
    """One is made if there is none."""


@context.define_context(allow_default=True)
class Decorated:
    """Made by the decorator."""

    def __init__(self) -> None:
        self.left = 0

    def __exit__(self, *args: Any) -> None:
        self.left += 1


def test_current_of_a_class_without_default() -> None:
    with pytest.raises(AssertionError, match="Context Needed is required but none is active"):
        Needed.current()
    assert Needed.current(required=False) is None
    one = Needed()
    assert Needed.current(value=one) is one
    with pytest.raises(AssertionError, match="an object of Needed is needed"):
        Needed.current(value=3)


def test_current_with_default() -> None:
    assert isinstance(Optional.current(), Optional)
    assert isinstance(Decorated.current(), Decorated)  # type: ignore[attr-defined]


def test_nested() -> None:
    with Needed() as one, Optional() as two, Needed() as three:
        assert Needed.current() is three
        assert Optional.current() is two
        with Child() as child:
            assert Child.current() is child
            assert Needed.current() is child
        assert Needed.current() is three
    assert one is not three
    assert Needed.current(required=False) is None


def test_decorator_calls_what_the_class_has() -> None:
    one: Any = Decorated()
    with one as entered:
        assert entered is one
        assert Decorated.current() is one  # type: ignore[attr-defined]
    assert one.left == 1


def test_as_a_decorator() -> None:
    one = Needed()

    @one
    def current() -> Any:
        return Needed.current()

    assert current() is one
    assert Needed.current(required=False) is None


def test_each_thread_has_its_own() -> None:
    wrong: list[Any] = []

    def use() -> None:
        for _ in range(100):
            with Needed() as one:
                if Needed.current() is not one:
                    wrong.append(one)

    threads = [Thread(target=use) for _ in range(8)]
    with Needed() as around:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert Needed.current() is around
    assert not wrong


def test_leaving_out_of_order() -> None:
    one, two = Needed(), Needed()
    one.__enter__()
    two.__enter__()
    with pytest.raises(AssertionError, match="was not the last"):
        one.__exit__()
    two.__exit__()
    one.__exit__()
    assert Needed.current(required=False) is None
