"""Registries of statistics: whole numbers by name, which are added up."""

from __future__ import annotations

import time

import numpy as np

from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs
from netgrad.caffe2.running.statistics import StatRegistry, everywhere


@runs("StatRegistryCreate")
def _create(call: Call) -> None:
    call.put(0, StatRegistry())


@runs("StatRegistryUpdate")
def _update(call: Call) -> None:
    """Add numbers to those of a registry, without one to those of the process."""
    names, numbers = call.array(0).reshape(-1), call.array(1).reshape(-1)
    if names.dtype != object or numbers.dtype.kind not in "iu" or names.size != numbers.size:
        raise call.error(f"it reads texts and as many whole numbers, not {names.dtype} and {numbers.dtype}")
    registry = _registry(call, 2)
    for name, number in zip(names, numbers.tolist(), strict=True):
        registry.add(name if isinstance(name, bytes) else name.encode(), number)


@runs("StatRegistryExport")
def _export(call: Call) -> None:
    """Names, numbers and the time in seconds; unless ``reset`` says no, the numbers start anew."""
    registry = _registry(call, 0)
    numbers = dict(registry.numbers)
    names = np.empty(len(numbers), object)
    names[:] = list(numbers)
    call.put(0, names)
    call.write(1, np.array(list(numbers.values()), np.int64))
    call.write(2, np.full(len(numbers), int(time.time()), np.int64))
    if call.argument("reset", 1):
        registry.reset()


def _registry(call: Call, at: int) -> StatRegistry:
    if len(call.definition.input) <= at:
        return everywhere
    registry = call.value(at)
    if not isinstance(registry, StatRegistry):
        raise call.error(f"input '{call.definition.input[at]}' was not written by StatRegistryCreate")
    return registry
