"""Part of the sweep over the standard's node tests: a fixed sample, and every operator at least once.

`make sweep` does all of it; see `tests/sweep`.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator

import pytest

from tests.sweep.examine import examine
from tests.sweep.known import unexpected
from tests.sweep.models import FORMS, differentiable_path, in_form, node_tests

SHARDS = 8
ONE_IN = 9


@pytest.fixture(autouse=True)
def one_core() -> Iterator[None]:
    """With one core, ONNX Runtime starts no threads that wait for work: the models are tiny."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(cores)[os.getpid() % len(cores)]})
    yield
    os.sched_setaffinity(0, cores)


def _number(name: str) -> int:
    return zlib.crc32(name.encode())


def chosen() -> list[tuple[str, str]]:
    """Names and forms: one test in `ONE_IN`, and one of each operator that has a floating-point path."""
    tests = node_tests()
    names = [name for name in tests if _number(name) % ONE_IN == 0]
    by_operator: dict[str, list[str]] = {}
    for name, test in tests.items():
        if differentiable_path(test.model)[0]:
            by_operator.setdefault(test.operator, []).append(name)
    names += [min(group, key=_number) for group in by_operator.values()]
    return [(name, FORMS[_number(name) // ONE_IN % len(FORMS)]) for name in dict.fromkeys(names)]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_gradients_of_node_tests(shard: int) -> None:
    faults = []
    for name, form in chosen()[shard::SHARDS]:
        finding = examine(in_form(node_tests()[name], form), form, elements=8)
        if unexpected(finding):
            faults.append(f"{name} ({form}): {finding.verdict.value}: {finding.reason}")
    assert not faults, "\n".join(faults)


def test_the_sample_is_what_it_says() -> None:
    assert len(node_tests()) > 1400
    assert len(chosen()) > 250
    assert {form for _, form in chosen()} == set(FORMS)
