"""The garbage collector rests during a backward pass, and works again when it ends, however it ends."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from netgrad import core
from netgrad.core.collector import not_collecting


class _Node:
    """Something that can be part of a cycle."""

    other: object = None


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_not_inside_and_again_outside() -> None:
    with not_collecting():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_was_stopped_stays_so() -> None:
    gc.disable()
    with not_collecting():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_a_pass_that_fails_lets_it_work_again() -> None:
    rules = core.RuleRegistry()
    seen = []

    def rule(op, grads):
        seen.append(gc.isenabled())
        raise ValueError("no")

    rules.register("Op", rule)
    with pytest.raises(core.RuleError):
        core.backward_pass([core.Operator("Op", ("x",), ("y",))], ["y"], rules)
    assert seen == [False]
    assert gc.isenabled()


@pytest.mark.parametrize("kept", [10, 300_000])
def test_many_objects_are_old_at_once_and_cycles_are_still_found(kept: int) -> None:
    gc.collect()
    with not_collecting():
        first, second = _Node(), _Node()
        first.other, second.other = second, first
        gone = weakref.ref(first)
        del first, second
        stays = [[k] for k in range(kept)]
    assert (len(gc.get_objects(generation=0)) > kept) == (kept < 1000)
    assert gone() is not None
    gc.collect()
    assert gone() is None
    assert len(stays) == kept


def test_frozen_objects_of_the_caller_stay_frozen() -> None:
    gc.freeze()
    try:
        with not_collecting():
            stays = [[k] for k in range(300_000)]
        assert gc.get_freeze_count() > 0
        assert len(stays) == 300_000
    finally:
        gc.unfreeze()
