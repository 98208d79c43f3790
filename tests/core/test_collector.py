"""The garbage collector's thresholds are the caller's again when a backward pass ends, however it ends."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from netgrad import core
from netgrad.core.collector import rarely_collecting


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(701, 11, 12)
    yield
    gc.set_threshold(*before)


def test_rarer_inside_and_as_before_outside() -> None:
    with rarely_collecting():
        assert gc.get_threshold()[0] > 701
    assert gc.get_threshold() == (701, 11, 12)


@pytest.mark.parametrize("own", [(0, 11, 12), (10**7, 2000, 3000)])
def test_what_the_process_has_set_itself_stays(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    with rarely_collecting():
        assert gc.get_threshold()[0] == own[0]
    assert gc.get_threshold() == own


def test_a_pass_that_fails_restores_them() -> None:
    rules = core.RuleRegistry()
    seen = []

    def rule(op, grads):
        seen.append(gc.get_threshold()[0])
        raise ValueError("no")

    rules.register("Op", rule)
    with pytest.raises(core.RuleError):
        core.backward_pass([core.Operator("Op", ("x",), ("y",))], ["y"], rules)
    assert seen[0] > 701
    assert gc.get_threshold() == (701, 11, 12)
