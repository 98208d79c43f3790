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


# ---- numbers that are put there ----------------------------------------------------------------------

_LIMITS = np.iinfo(np.int64)


@runs("AveragePut")
def _average_put(call: Call) -> None:
    """Add a number to a sum, and one to a count."""
    name = _stat(call)
    everywhere.add(name + b"/sum", _put(call))
    everywhere.add(name + b"/count")


@runs("IncrementPut")
def _increment_put(call: Call) -> None:
    """Add a number."""
    everywhere.add(_stat(call), _put(call))


@runs("StdDevPut")
def _deviation_put(call: Call) -> None:
    """Add a number to a sum, one to a count, and what it is more than the first one to two sums of powers."""
    name, number = _stat(call), _put(call)
    more = number - call.memory.setdefault("first", number)
    sums = {b"/sum": number, b"/count": 1, b"/sumoffset": more, b"/sumsqoffset": more * more}
    for what, amount in sums.items():
        everywhere.add(name + what, amount)


def _stat(call: Call) -> bytes:
    name = call.argument("stat_name", "")
    if not name:
        raise call.error("the argument 'stat_name' is missing")
    return f"{name}/stat_value".encode()


def _put(call: Call) -> int:
    """The first element, times ``magnitude_expand``, as a whole number.

    With ``bound`` one that is too large or small for 64 bits is the largest or smallest there is, and what is
    no number is 0.
    """
    values, factor = call.array(0).reshape(-1), call.argument("magnitude_expand", 1)
    value = float(values[0]) if values.size else call.argument("default_value", None)
    if value is None:
        raise call.error("Default value must be provided when receiving empty tensors")
    scaled = value * factor
    if np.isnan(scaled) or not _LIMITS.min <= scaled < 2.0**63:
        if not call.argument("bound", 0):
            raise call.error(f"{value} times {factor} is no whole number of 64 bits; bound=True cuts it off")
        return 0 if np.isnan(scaled) else _LIMITS.max if scaled > 0 else _LIMITS.min
    return int(scaled)
