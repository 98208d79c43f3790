"""Batch normalization with the moments of the batches of all devices together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.arguments import make_argument
from netgrad.caffe2.caffe2_pb2 import CPU, OperatorDef
from netgrad.caffe2.python import core
from netgrad.caffe2.python.data_parallel_model.devices import option_of, prefix_of, stripBlobName


def combine_batch_normalizations(model: Any) -> None:
    """Rewrite a model's net, which has its backward pass, so that all its SpatialBN use common moments.

    The operators of the devices are put next to each other, first operator by first, since one of them waits
    for what all have computed.

    Raises:
        AssertionError: The devices don't have the same operators.
    """
    expanded: list[OperatorDef] = []
    for turn in _turns(model):
        if _of_batch(turn[0]):
            expanded += _forward(model, turn)
        elif turn[0].type == "SpatialBNGradient":
            expanded += _backward(model, turn)
        else:
            expanded += turn
    message = model.net.Proto()
    del message.op[:]
    message.op.extend(expanded)


def has_batch_moments(model: Any) -> bool:
    """Whether some SpatialBN takes the moments of its batch, as in training."""
    return any(_of_batch(op) for op in model.net.Proto().op)


def _of_batch(op: OperatorDef) -> bool:
    return op.type == "SpatialBN" and len(op.output) > 1


def _turns(model: Any) -> list[list[OperatorDef]]:
    """The operators of the net: in each list the same one for each device."""
    by_device: dict[int, list[OperatorDef]] = {device: [] for device in model._devices}
    for op in model.net.Proto().op:
        number = op.device_option.device_id
        assert number in by_device, f"operator {op.type} is on none of the devices {model._devices}: {op}"
        copy = OperatorDef()
        copy.CopyFrom(op)
        by_device[number].append(copy)
    counts = {device: len(ops) for device, ops in by_device.items()}
    assert len(set(counts.values())) == 1, f"the devices have different numbers of operators: {counts}"
    turns = [list(turn) for turn in zip(*by_device.values(), strict=True)]
    for turn in turns:
        types = [op.type for op in turn]
        assert len(set(types)) == 1, f"the devices have different operators in one place: {', '.join(types)}"
    return turns


def _forward(model: Any, turn: Sequence[OperatorDef]) -> list[OperatorDef]:
    """Sums and sums of squares of each device, those over all, and the normalizations that read them."""
    added: list[OperatorDef] = []
    for op in turn:
        names = [f"{op.input[0]}_sums", f"{op.input[0]}_sumsq"]
        added.append(_operator(model, op, "ChannelStats", [op.input[0]], names))
    for ending in ("_sums", "_sumsq"):
        sums = [op.input[0] + ending for op in turn]
        if model._device_prefix == "gpu":
            combined = [f"{name}_combined" for name in sums]
            added += _summed_off_gpus(model, sums, combined)
        else:
            combined = [f"{sums[0]}_combined"] * len(sums)
            added.append(core.CreateOperator("Sum", _references(sums), _references(combined[:1])))
        for op, name in zip(turn, combined, strict=True):
            op.input.append(name)
    return added + _over_batches(turn)


def _backward(model: Any, turn: Sequence[OperatorDef]) -> list[OperatorDef]:
    """The gradients of scale and bias by each device, those over all, and the gradients that read them."""
    added: list[OperatorDef] = []
    for op in turn:
        inputs = [op.input[0], op.input[3], op.input[4], op.input[2]]
        added.append(_operator(model, op, "ChannelBackpropStats", inputs, list(op.output[1:3])))
    for place in (1, 2):
        grads = [op.output[place] for op in turn]
        if model._device_prefix == "gpu":
            added += _summed_off_gpus(model, grads, grads)
        else:
            name = f"{prefix_of(model, model._devices[0])}{stripBlobName(grads[0])}_combined"
            added.append(core.CreateOperator("Sum", _references(grads), _references([name])))
            for grad in grads:
                added.append(core.CreateOperator("Copy", _references([name]), _references([grad])))
        for op, grad in zip(turn, grads, strict=True):
            op.input.append(grad)
    return added + _over_batches(turn)


def _over_batches(turn: Sequence[OperatorDef]) -> list[OperatorDef]:
    for op in turn:
        op.arg.append(make_argument("num_batches", len(turn)))
    return list(turn)


def _summed_off_gpus(model: Any, blobs: Sequence[str], results: Sequence[str]) -> list[OperatorDef]:
    """Sum blobs of GPUs on the processor, and give each GPU the sum."""
    stripped = stripBlobName(blobs[0])
    total = f"cpu_0/{stripped}_combined"
    options = [option_of(model, device) for device in model._devices]
    copies = [f"cpu_0/{stripped}_gpu_{device}_copy" for device in model._devices]
    added = [
        core.CreateOperator("CopyGPUToCPU", _references([blob]), _references([copy]), device_option=option)
        for blob, copy, option in zip(blobs, copies, options, strict=True)
    ]
    cpu = core.DeviceOption(CPU)
    added.append(core.CreateOperator("Sum", _references(copies), _references([total]), device_option=cpu))
    added += [
        core.CreateOperator("CopyCPUToGPU", _references([total]), _references([blob]), device_option=option)
        for blob, option in zip(results, options, strict=True)
    ]
    return added


def _operator(
    model: Any, like: OperatorDef, op_type: str, inputs: Sequence[str], outputs: Sequence[str]
) -> OperatorDef:
    """An operator for the same image, and on GPUs on the same device, as another one."""
    op = core.CreateOperator(op_type, _references(inputs), _references(outputs))
    if model._device_prefix == "gpu":
        op.device_option.CopyFrom(like.device_option)
    op.arg.extend(argument for argument in like.arg if argument.name == "order")
    return op


def _references(names: Sequence[str]) -> list[core.BlobReference]:
    return [core.BlobReference(name) for name in names]
