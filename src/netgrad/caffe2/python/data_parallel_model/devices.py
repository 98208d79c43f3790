"""The devices of a data-parallel model: how they are named, and which blobs each of them has.

What is known of them is kept in attributes of the model, where scripts read it: ``_devices`` (their numbers),
``_device_type``, ``_device_prefix``, ``_device_grouped_blobs`` (name to number to blob), ``_blob_to_device``.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from netgrad.caffe2.caffe2_pb2 import CPU, IDEEP, DeviceOption, NetDef
from netgrad.caffe2.python import core, scope, workspace
from netgrad.caffe2.python.model_helper import ModelHelper

log = logging.getLogger("data_parallel_model")


def check_call(model: Any, rendezvous: Any) -> None:
    """What has to be so before a model is made parallel.

    Raises:
        AssertionError: There is a device scope around, or the model isn't a model helper.
        NotImplementedError: The model is to run on several machines.
    """
    around = scope.CurrentDeviceScope()
    assert around is None or around.device_type == CPU, (
        f"a model is made parallel outside of device scopes, and not in that of {around}"
    )
    assert isinstance(model, ModelHelper), f"a model helper is needed, not {model!r}"
    if rendezvous is not None and rendezvous.get("num_shards", 1) > 1:
        raise NotImplementedError(
            f"netgrad does not have a rendezvous of {rendezvous['num_shards']} machines: a data-parallel "
            "model runs in one process (rendezvous=None)"
        )


def set_devices(model: Any, devices: Sequence[int] | None, cpu_device: bool, ideep: bool = False) -> None:
    """Write to the model on which devices it runs.

    Args:
        model: The model.
        devices: Their numbers; None: a CPU device for each core.
        cpu_device: Whether they are called CPU devices.
        ideep: Whether they are called IDEEP devices. Otherwise they are called GPUs.

    Raises:
        AssertionError: There is no device.
    """
    if ideep:
        model._device_type, model._device_prefix = IDEEP, "ideep"
    elif cpu_device:
        model._device_type, model._device_prefix = CPU, "cpu"
    else:
        model._device_type, model._device_prefix = workspace.GpuDeviceType, "gpu"
    if devices is None:
        devices = range((os.cpu_count() or 1) if cpu_device or ideep else workspace.NumGpuDevices())
    model._devices = list(devices)
    assert model._devices, (
        "there are no graphics devices: give the numbers of devices=, whose nets run on the processor, "
        "or use cpu_device=True"
    )
    if model._device_prefix == "gpu":
        log.warning("GPUs %s: there is none, and their nets run on the processor", model._devices)


def set_workers(net: core.Net, model: Any, net_type: str, threads_per_device: int) -> None:
    """Write to a net how the original would run it; here operators run in order."""
    net.Proto().type = net_type
    net.Proto().num_workers = len(model._devices) * threads_per_device


def prefix_of(model: Any, device: int) -> str:
    """The name scope of a device, with the separator."""
    return f"{model._device_prefix}_{device}/"


def option_of(model: Any, device: int) -> DeviceOption:
    """The option of a device."""
    return core.DeviceOption(model._device_type, device)


@contextlib.contextmanager
def on_device(model: Any, device: int) -> Iterator[None]:
    """The device scope and the name scope of a device."""
    name = prefix_of(model, device).rstrip("/")
    with core.DeviceScope(option_of(model, device)), core.NameScope(name):
        yield


def device_of(model: Any, blob: Any) -> int | None:
    """The number of the device that a blob is on by its name, or None."""
    found = re.match(rf"{model._device_prefix}_(\d+)/", str(blob))
    return int(found[1]) if found else None


def stripBlobName(param: Any) -> str:
    """A blob's name without the scope of its device; of a sparse gradient both names, with ``:`` between."""
    if isinstance(param, core.GradientSlice):
        return f"{stripBlobName(param.indices)}:{stripBlobName(param.values)}"
    name = str(param)
    return name[name.index("/") + 1 :]


def group_by_device(model: Any, blobs: Iterable[Any]) -> dict[str, dict[int, Any]]:
    """Blobs and sparse gradients by their name without scope, and then by device; both in order.

    Raises:
        AssertionError: One is something else, or isn't on a device.
    """
    grouped: dict[str, dict[int, Any]] = {}
    for blob in blobs:
        is_slice = isinstance(blob, core.GradientSlice)
        assert is_slice or isinstance(blob, core.BlobReference), f"{blob!r} is no blob and no sparse gradient"
        devices = {device_of(model, part) for part in ((blob.indices, blob.values) if is_slice else (blob,))}
        scope_of_first = prefix_of(model, model._devices[0])
        assert len(devices) == 1, f"{blob} has to be in the name scope of one device, as {scope_of_first}"
        device = devices.pop()
        assert device is not None, f"{blob} has to be in the name scope of a device, as {scope_of_first}"
        grouped.setdefault(stripBlobName(blob), {})[device] = blob
    return grouped


def check_unique(params: Iterable[Any]) -> None:
    """That no parameter is there twice.

    Raises:
        AssertionError: Some are.
    """
    counts = Counter(str(param) for param in params)
    twice = [name for name, count in counts.items() if count > 1]
    assert not twice, f"Duplicate entries in params: {', '.join(twice)}"


def infer_blob_devices(model: Any) -> None:
    """Write to the model, as ``_blob_to_device``, where each blob is: on the device of its first operator."""
    found: dict[str, DeviceOption] = {}

    def look_at(net: NetDef) -> None:
        for op in net.op:
            # The counter is on the processor, whatever the device of the operator that counts.
            device = DeviceOption(device_type=CPU) if op.type == "Iter" else op.device_option
            for blob in (*op.input, *op.output):
                found.setdefault(blob, device)
            if op.type.startswith("RecurrentNetwork"):
                for argument in op.arg:
                    if argument.name.endswith("step_net"):
                        look_at(argument.n)

    look_at(model.param_init_net.Proto())
    look_at(model.net.Proto())
    model._blob_to_device = found


def is_gpu_blob(model: Any, name: str) -> bool:
    """Whether a blob, given by its name with or without the scope of its device, is on a GPU."""
    scoped = prefix_of(model, model._devices[0]) + name
    device = model._blob_to_device.get(name) or model._blob_to_device.get(scoped)
    return core.IsGPUDeviceType(model._device_type if device is None else device.device_type)


def check_scopes(model: Any) -> None:
    """That operators on a GPU use no blobs of another one, unless they copy, gather or sum them.

    Raises:
        Exception: One does.
    """
    for op in model.net.Proto().op:
        moves = any(word in op.type for word in ("NCCL", "Copy", "Concat"))
        if moves or (op.type == "Sum" and op.name == "dpm"):
            continue
        if not core.IsGPUDeviceType(op.device_option.device_type):
            continue
        own = op.device_option.device_id
        for blob in (*op.input, *op.output):
            if device_of(model, blob) not in (None, own):
                raise Exception(
                    f"Blob {blob} of op {op.type} should be in the name scope {prefix_of(model, own)}: {op}"
                )
