"""Models whose devices share the parameters of the first one."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.core.remap import DEFAULT_REMAP_FUNCS, remap_operands
from netgrad.caffe2.python.data_parallel_model.devices import device_of, prefix_of, stripBlobName


def keep_parameters_of_first(model: Any) -> None:
    """Forget the parameters of all other devices, so that they get no updates."""
    kept_devices = (None, model._devices[0])
    model.params = [param for param in model.params if device_of(model, param) in kept_devices]
    kept = {str(param) for param in model.params}
    model.param_to_grad = {param: grad for param, grad in model.param_to_grad.items() if str(param) in kept}
    model.weights = [weight for weight in model.weights if str(weight) in kept]
    model.biases = [bias for bias in model.biases if str(bias) in kept]


def use_parameters_of_first(model: Any, before: set[str]) -> None:
    """Let all operators read the parameters of the first device.

    Args:
        model: The model.
        before: The names of the parameters of all devices. What writes those of others is taken out.
    """
    others = before - {str(param) for param in model.params}
    first = prefix_of(model, model._devices[0])
    for net in (model.param_init_net, model.net):
        _use(net, {blob: first + stripBlobName(blob) for blob in others})


def _use(net: core.Net, renames: dict[str, str]) -> None:
    message = net.Proto()
    for index in reversed(range(len(message.op))):
        op = message.op[index]
        if any(blob in renames for blob in op.output):
            del message.op[index]
        else:
            remap_operands(op, renames)
            if op.type in DEFAULT_REMAP_FUNCS:  # it has nets inside
                DEFAULT_REMAP_FUNCS[op.type](op, "", renames)
    message.external_input[:] = [blob for blob in message.external_input if blob not in renames]
