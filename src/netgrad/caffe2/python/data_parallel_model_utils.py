"""Moving a part of a data-parallel model's operators from one device to another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.python import core
from netgrad.caffe2.python.data_parallel_model.devices import prefix_of, stripBlobName


def GetActivationBlobs(model: Any) -> list[str]:
    """The blobs between layers, without the name scope of a device: what is read again, with its gradient."""
    first = prefix_of(model, model._devices[0])
    ops = model.net.Proto().op
    read = {blob for op in ops for blob in op.input}
    params = {str(param) for param in model.GetParams("")}
    return [
        stripBlobName(blob)
        for op in ops
        for blob in op.output
        if blob.startswith(first)
        and not blob.endswith("_grad")
        and blob not in params
        and {blob, f"{blob}_grad"} <= read
    ]


def ShiftActivationDevices(model: Any, activations: Iterable[str], shifts: Mapping[int, int]) -> None:
    """Let other devices compute some blobs and their gradients, and put copies where they are needed.

    The name scopes stay as they are. The model's nets are new ones, which are to be created anew.

    Args:
        model: A model that was made parallel.
        activations: Some of the blobs that `GetActivationBlobs` finds.
        shifts: Device to the device that takes its part; none is both.

    Raises:
        AssertionError: A device is both.
    """
    both = set(shifts) & set(shifts.values())
    assert not both, f"devices {sorted(both)} would give and take operators"
    chosen = set(activations)
    for device, other in shifts.items():
        _shift(model, chosen, device, other)
    old = {id(model.param_init_net): 0, id(model.net): 1}
    (start, net), _ = core.InjectDeviceCopiesAmongNets([model.param_init_net, model.net])
    model.param_init_net, model.net = start, net
    for nets in (model._data_parallel_model_init_nets, model._data_parallel_model_nets):
        nets[:] = [(start, net)[old[id(one)]] if id(one) in old else one for one in nets]


def _shift(model: Any, chosen: set[str], device: int, other: int) -> None:
    """Give operators of a device that belong to the chosen blobs to another device."""
    scope = prefix_of(model, device)
    activations = {scope + blob for blob in GetActivationBlobs(model)}
    places = dict.fromkeys(activations, device) | {scope + blob: other for blob in chosen}
    for op in model.net.Proto().op:
        if op.device_option.device_id != device:
            continue
        blobs = [*op.input, *op.output]
        place = _place(blobs, activations, places, device)
        for blob in blobs:
            if blob.startswith(scope):
                places.setdefault(blob, place)
        op.device_option.device_id = place
    ops: Iterable[OperatorDef] = model.param_init_net.Proto().op
    for op in ops:
        if op.output[0] in places:
            op.device_option.device_id = places[op.output[0]]


def _place(blobs: list[str], activations: set[str], places: dict[str, int], otherwise: int) -> int:
    """Where an operator goes: to its last activation, else to the first of its blobs that has a place."""
    known = [blob for blob in blobs if blob in places]
    deciding = [blob for blob in known if blob in activations]
    if deciding:
        return places[deciding[-1]]
    return places[known[0]] if known else otherwise
