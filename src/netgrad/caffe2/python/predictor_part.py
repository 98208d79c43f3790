"""The part of a net that predicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netgrad.caffe2.caffe2_pb2 import DeviceOption, NetDef, OperatorDef
from netgrad.caffe2.python import core
from netgrad.caffe2.python.core.remap import remap_operands
from netgrad.caffe2.recurrence import FORWARD


def ExtractPredictorNet(
    net_proto: NetDef,
    input_blobs: Sequence[Any],
    output_blobs: Sequence[Any],
    device: DeviceOption | None = None,
    renames: Mapping[str, str] | None = None,
    disabled_inputs: Sequence[Any] | None = None,
) -> tuple[Any, list[str]]:
    """The part of a net that predicts.

    Args:
        net_proto: The net.
        input_blobs: What it gets.
        output_blobs: What it gives.
        device: Where its operators run, if not where the net says.
        renames: New names of blobs.
        disabled_inputs: Blobs that nothing may read.

    Returns:
        A net ``<name>_predict``, and the blobs that it reads besides.

    Raises:
        Exception: An operator is in training mode (an argument ``is_test`` of 0).
    """
    inputs, outputs = {str(blob) for blob in input_blobs}, {str(blob) for blob in output_blobs}
    disabled = {str(blob) for blob in disabled_inputs or ()}
    ops = net_proto.op
    first = next((k for k, op in enumerate(ops) if inputs & set(op.input)), 0)
    last = max((k for k, op in enumerate(ops) if outputs & set(op.output)), default=-1)
    known = inputs | set(net_proto.external_input)
    external = {blob for blob in net_proto.external_input if blob not in inputs} - disabled
    names = dict(renames or {})
    predict = core.Net(f"{net_proto.name}_predict")
    proto = predict.Proto()
    used: dict[str, None] = {}
    for op in ops[first : last + 1]:
        if not set(op.input) <= known - disabled:
            continue
        known |= set(op.output)
        added = proto.op.add()
        added.CopyFrom(op)
        _adapt(added, names, device)
        used.update(dict.fromkeys(blob for blob in op.input if blob in external))
    proto.external_input.extend(names.get(str(blob), str(blob)) for blob in (*input_blobs, *used))
    proto.external_output.extend(names.get(str(blob), str(blob)) for blob in output_blobs)
    if device is not None:
        proto.device_option.CopyFrom(device)
    return predict, [names.get(blob, blob) for blob in used]


def _adapt(op: OperatorDef, names: Mapping[str, str], device: DeviceOption | None) -> None:
    """Rename the blobs of an operator, and of the steps of a recurrent net, which gets no backward step."""
    for argument in op.arg:
        if argument.name == "is_test" and argument.i == 0:
            raise Exception(f"an operator has is_test=0, as in a model that is trained: {op}")
    remap_operands(op, names)
    if device is not None:
        op.device_option.CopyFrom(device)
    if op.type != FORWARD:
        return
    for argument in op.arg:
        if argument.name == "backward_step_net":
            argument.n.CopyFrom(NetDef())
    core.recurrent_network_op_remap(op, "", names)
    for argument in op.arg:
        for step in argument.n.op:
            _adapt(step, {}, device)
