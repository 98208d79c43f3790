"""On which devices blobs lie, copies between devices, and nets bound to other blobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netgrad.caffe2.caffe2_pb2 import CPU, DeviceOption, OperatorDef
from netgrad.caffe2.python import scope
from netgrad.caffe2.python.core.device import IsGPUDeviceType
from netgrad.caffe2.python.core.net import Net
from netgrad.caffe2.python.core.ssa import get_ssa, get_undefined_blobs


def InferBlobDevices(net: Net) -> dict[str, DeviceOption]:
    """For each blob that a net writes the device option of the operator that writes it last."""
    return {name: op.device_option for op in net.Proto().op for name in op.output}


# Operators with inputs or outputs on the processor, whatever their device: the places of both; None for all.
_ON_PROCESSOR: dict[str, tuple[tuple[int, ...] | None, tuple[int, ...] | None]] = {
    "CopyCPUToGPU": (None, ()),
    "CopyFromCPUInput": (None, ()),
    "CopyGPUToCPU": ((), None),
    "EnsureCPUOutput": ((), None),
    "Concat": ((), (1,)),  # the sizes of the parts
    "Split": ((1,), ()),
    "SplitByLengths": ((1,), ()),
    "LearningRate": ((0,), ()),  # the counter of iterations, as in the following
    "Adam": ((5,), ()),
    "SparseAdam": ((6,), ()),
    "RowWiseSparseAdam": ((6,), ()),
}


def InferOpBlobDevices(op: OperatorDef) -> tuple[list[DeviceOption], list[DeviceOption]]:
    """The devices of an operator's inputs and outputs: its own, but for what has to be on the processor."""
    own = op.device_option
    reads, writes = _ON_PROCESSOR.get(op.type, ((), ()))

    def placed(count: int, places: tuple[int, ...] | None) -> list[DeviceOption]:
        cpu = DeviceOption(device_type=CPU)
        return [cpu if places is None or place in places else own for place in range(count)]

    return placed(len(op.input), reads), placed(len(op.output), writes)


def InferOpBlobDevicesAsDict(op: OperatorDef) -> tuple[dict[str, DeviceOption], dict[str, DeviceOption]]:
    """`InferOpBlobDevices` by the names of inputs and of outputs."""
    reads, writes = InferOpBlobDevices(op)
    return dict(zip(op.input, reads, strict=True)), dict(zip(op.output, writes, strict=True))


def device_equal(src: DeviceOption, dst: DeviceOption) -> bool:
    """Whether two options have the same device type and index."""
    return bool(src.device_type == dst.device_type and src.device_id == dst.device_id)


def copy_func_between_devices(src: DeviceOption, dst: DeviceOption) -> Callable[..., Any] | None:
    """A function that adds a copy from one device to another: of a net and the arguments of the operator.

    Returns:
        The function, or None if nothing has to be copied.

    Raises:
        ValueError: A device is neither a processor nor a graphics processor.
    """
    from_gpu, to_gpu = IsGPUDeviceType(src.device_type), IsGPUDeviceType(dst.device_type)
    if (not from_gpu and src.device_type != CPU) or (not to_gpu and dst.device_type != CPU):
        raise ValueError(f"Non-supported devices: {src} and {dst}")
    if not from_gpu and not to_gpu:
        return None
    if from_gpu and to_gpu and src.device_id == dst.device_id:
        return None
    type_ = "Copy" if from_gpu and to_gpu else "CopyGPUToCPU" if from_gpu else "CopyCPUToGPU"

    def add(net: Net, *args: Any, **kwargs: Any) -> Any:
        with scope.DeviceScope(dst if to_gpu else src):
            return getattr(net, type_)(*args, **kwargs)

    return add


def clone_and_bind_net(
    net: Net,
    name: str,
    prefix: str,
    blob_remap: dict[str, str] | None = None,
    inputs: Any = None,
    keep_schema: bool = True,
) -> tuple[Net, dict[str, str]]:
    """A copy of a net whose own blobs have a prefix; those that it reads from outside keep their names.

    Args:
        net: The net.
        name: Name of the copy.
        prefix: What its own blobs get in front.
        blob_remap: Other names for some blobs; a dict gets the names of all.
        inputs: A record whose blobs it reads instead of those of its own input record, field by field.
        keep_schema: Whether the copy has the records of the net; else ``inputs`` are its input record.

    Returns:
        The copy, and the new name of each blob.

    Raises:
        AssertionError: ``inputs`` are given, and the net has no input record, or one with other fields.
    """
    renames: dict[str, str] = {} if blob_remap is None else blob_remap
    if inputs is not None:
        own = net.input_record()
        assert own is not None, f"net {net.Name()} has no input record to be bound"
        given = dict(zip(inputs.field_names(), inputs.field_blobs(), strict=True))
        missing = [field for field in own.field_names() if field not in given]
        assert not missing, f"fields {', '.join(missing)} of net {net.Name()} are not among the inputs"
        for field, blob in zip(own.field_names(), own.field_blobs(), strict=True):
            renames[str(blob)] = str(given[field])
    ssa, versions = get_ssa(net)
    outside = get_undefined_blobs(ssa)
    for blob in versions:
        renames.setdefault(blob, blob if blob in outside else prefix + blob)
    copy = net.Clone(name, renames, keep_schema=keep_schema)
    if not keep_schema and inputs is not None:
        copy.set_input_record(inputs)
    return copy, renames
