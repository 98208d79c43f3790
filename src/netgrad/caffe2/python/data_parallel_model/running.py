"""Running the nets of a parallel model in the current workspace."""

from __future__ import annotations

import copy
import warnings
from typing import Any

from netgrad.caffe2.caffe2_pb2 import IDEEP, DeviceOption, NetDef
from netgrad.caffe2.python import core, scope, workspace
from netgrad.caffe2.python.core.remap import remap_net


def CreateNet(model: Any, overwrite: bool = False) -> None:
    """Create the model's nets."""
    for net, _ in _nets(model, 1):
        workspace.CreateNet(net, overwrite=overwrite)


def RunInitNet(model: Any) -> None:
    """Initialize the model, and create its nets."""
    for net in model._data_parallel_model_init_nets:
        workspace.RunNetOnce(net)
    CreateNet(model)


def RunWarmup(model: Any) -> None:
    """Run the first iterations of a model with block updates; then all devices start from one model."""
    workspace.RunNet(model.net, model._warmup_iterations)
    workspace.RunNetOnce(model._warmup_broadcast)


def RunNet(model: Any, num_iterations: int) -> None:
    """Run the model so many times; a model with block updates ends with one of those."""
    for net, times in _nets(model, num_iterations):
        workspace.RunNet(net.Proto().name, times)


def _nets(model: Any, times: int) -> list[tuple[core.Net, int]]:
    """The model's nets, and how often each of them runs."""
    return [
        found if isinstance(found, tuple) else (found, times) for found in model._data_parallel_model_nets
    ]


def Synchronize(model: Any, timeout_sec: int = 300) -> None:
    """Wait for all other machines: there are none."""
    warnings.warn(
        "Synchronize is deprecated, and a model on one machine has nothing to wait for",
        category=DeprecationWarning,
        stacklevel=2,
    )


def ConvertNetForDevice(net: core.Net, device: DeviceOption | None = None) -> core.Net:
    """A copy of a net whose blobs and operators are on a device, for ``model.net.AppendNet``.

    Args:
        net: The net, whose blobs are in no name scope.
        device: The device; None: that of the current scope.

    Raises:
        AssertionError: There is no device.
        NotImplementedError: The net has an operator ``RecurrentNetwork``.
    """
    device = scope.CurrentDeviceScope() if device is None else device
    assert device is not None, "a device or a device scope is needed"
    is_gpu, is_ideep = core.IsGPUDeviceType(device.device_type), device.device_type == IDEEP
    kind = "gpu" if is_gpu else "ideep" if is_ideep else "cpu"
    start = f"{kind}_{device.device_id}/"
    converted = copy.deepcopy(net)
    message = converted.Proto()
    for op in message.op:
        if "RecurrentNetwork" in op.type:
            raise NotImplementedError(
                f"netgrad does not have a conversion of {op.type} (net {message.name}, outputs "
                f"{', '.join(op.output)}) to another device: build it inside of the model instead"
            )
        op.device_option.CopyFrom(device)
    remap_net(message, {name: start + name for name in _names(message)})
    return converted


def _names(net: NetDef) -> set[str]:
    """The names of all blobs of a net, and of the nets inside its operators."""
    found = {*net.external_input, *net.external_output}
    for op in net.op:
        found.update(op.input, op.output, op.control_input)
        for argument in op.arg:
            if argument.HasField("n"):
                found |= _names(argument.n)
    return found
