"""Operators that bring blobs of all devices together: copies from the first device, and sums over all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from netgrad.caffe2.caffe2_pb2 import CPU, IDEEP
from netgrad.caffe2.python import core
from netgrad.caffe2.python.data_parallel_model.devices import is_gpu_blob, option_of, prefix_of

# How many devices are summed as a tree of pairs; any other number in one sum.
_TREES = (4, 8, 16)


def broadcast(model: Any, net: core.Net, name: str) -> None:
    """Copy a blob of the first device to all others."""
    blobs = model._device_grouped_blobs[name]
    on_gpu = is_gpu_blob(model, name)
    for device in model._devices[1:]:
        option = option_of(model, device) if on_gpu else core.DeviceOption(_cpu_type(model), 0)
        with core.DeviceScope(option):
            net.Copy(blobs[model._devices[0]], blobs[device])


def sync_blobs(model: Any, net: core.Net, names: Iterable[str]) -> None:
    """`broadcast` several blobs."""
    for name in names:
        broadcast(model, net, name)


def broadcast_computed_parameters(model: Any) -> None:
    """In each run, copy what isn't trained (running averages) from the first device to the others."""
    if len(model._devices) > 1:
        sync_blobs(model, model.net, model._computed_param_names)


def all_reduce(model: Any, net: core.Net, names: Iterable[str]) -> None:
    """Give all devices the sums of blobs over them; of sparse gradients the rows of all of them.

    Raises:
        AssertionError: Some devices have a blob, and others don't.
    """
    if len(model._devices) == 1:
        return
    gathered: set[str] = set()
    for name in names:
        blobs = list(model._device_grouped_blobs[name].values())
        if len(blobs) == 1:
            continue  # it belongs to one device
        assert len(blobs) == len(model._devices), (
            f"each of the devices {model._devices} should have a copy of {name}"
        )
        if isinstance(blobs[0], core.GradientSlice):
            with core.DeviceScope(option_of(model, model._devices[0])):
                _gather(model, net, name, blobs, gathered)
        elif is_gpu_blob(model, name):
            _sum_as_tree(model, net, blobs)
            broadcast(model, net, name)
        else:
            with core.DeviceScope(core.DeviceOption(_cpu_type(model))):
                net.Sum(blobs, [blobs[0]])
                if not model._shared_model:
                    broadcast(model, net, name)


def _cpu_type(model: Any) -> int:
    return IDEEP if model._device_type == IDEEP else CPU


def _sum_as_tree(model: Any, net: core.Net, blobs: Sequence[Any]) -> None:
    """Sum into the first blob: pairs, pairs of pairs and so on, each on the first of its devices."""

    def add(*places: int) -> None:
        with core.DeviceScope(option_of(model, model._devices[places[0]])):
            net.Sum([blobs[place] for place in places], [blobs[places[0]]], name="dpm")

    count = len(blobs)
    if count not in _TREES:
        add(*range(count))
        return
    distance = 1
    while distance < count:
        for first in range(0, count, 2 * distance):
            add(first, first + distance)
        distance *= 2


def _gather(model: Any, net: core.Net, name: str, slices: Sequence[Any], gathered: set[str]) -> None:
    """Give all devices the rows of all of them: numbers and values, one behind the other.

    Args:
        model: The model.
        net: Where the operators go.
        name: The gradient's name.
        slices: Its parts by device.
        gathered: The blobs of row numbers that are together already, which two gradients may share; what
            is gathered is added.
    """
    start = prefix_of(model, model._devices[0]) + name
    if not any(str(part.indices) in gathered for part in slices):
        _joined(model, net, [part.indices for part in slices], f"{start}_index")
        gathered.update(str(part.indices) for part in slices)
    _joined(model, net, [part.values for part in slices], f"{start}_val")


def _joined(model: Any, net: core.Net, blobs: Sequence[Any], start: str) -> None:
    outputs = [f"{start}_concat", f"{start}_splitinfo"]
    joined, _ = net.Concat(blobs, outputs, axis=0, name="note:data_parallel_model")
    for device, blob in zip(model._devices, blobs, strict=True):
        with core.DeviceScope(option_of(model, device)):
            net.Copy(joined, blob)
