"""Device options."""

from __future__ import annotations

from collections.abc import Sequence

from netgrad.caffe2 import caffe2_pb2
from netgrad.caffe2.devices import same_device


def DeviceOption(
    device_type: int,
    device_id: int = 0,
    random_seed: int | None = None,
    node_name: str | None = None,
    numa_node_id: int | None = None,
    extra_info: Sequence[str] | None = None,
    *,
    cuda_gpu_id: int | None = None,
) -> caffe2_pb2.DeviceOption:
    """A device option message.

    Args:
        device_type: ``caffe2_pb2.CPU``, ``caffe2_pb2.CUDA`` and so on.
        device_id: Which of the devices of that type.
        random_seed: Seed of random operators that run there.
        node_name: Node of a cluster.
        numa_node_id: Memory node.
        extra_info: Further ``key:value`` texts.
        cuda_gpu_id: The older name of ``device_id``.
    """
    option = caffe2_pb2.DeviceOption(
        device_type=device_type, device_id=device_id if cuda_gpu_id is None else cuda_gpu_id
    )
    if node_name is not None:
        option.node_name = node_name
    if random_seed is not None:
        option.random_seed = random_seed
    if numa_node_id is not None:
        option.numa_node_id = numa_node_id
    if extra_info is not None:
        option.extra_info.extend(extra_info)
    return option


def device_option_equal(
    opt1: caffe2_pb2.DeviceOption,
    opt2: caffe2_pb2.DeviceOption,
    ignore_node_name: bool = True,
    ignore_random_seed: bool = True,
) -> bool:
    """Whether two options mean the same device; see `netgrad.caffe2.devices.same_device`."""
    return same_device(opt1, opt2, ignore_node_name, ignore_random_seed)


def IsGPUDeviceType(device_type: int) -> bool:
    """Whether a device type is a graphics processor."""
    return device_type in (caffe2_pb2.CUDA, caffe2_pb2.HIP)
