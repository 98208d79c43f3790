"""What scripts ask about devices. Nets run on the processor, whatever device they name."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import CUDA
from netgrad.caffe2.running.errors import RunError

has_cuda_support = False
has_hip_support = False
has_fbgemm = True
"""Whether tensors can be saved as bfloat16."""

has_gpu_support = False
GpuDeviceType = CUDA


def NumCudaDevices() -> int:
    """How many graphics devices nets can run on: none."""
    return 0


NumGpuDevices = NumCudaDevices


def GetCUDAVersion() -> int:
    """The version of CUDA: 0, for none."""
    return 0


GetCuDNNVersion = GetCUDAVersion


def GetCudaPeerAccessPattern() -> np.ndarray[Any, Any]:
    """Which graphics device reaches which: a matrix of no rows."""
    return np.zeros((0, 0), np.bool_)


GetGpuPeerAccessPattern = GetCudaPeerAccessPattern


def GetDeviceProperties(deviceid: int) -> dict[str, Any]:
    """Properties of a graphics device.

    Raises:
        RunError: Always, since there is none.
    """
    raise RunError(f"there is no graphics device {deviceid}: nets run on the processor")


def GetGPUMemoryInfo(*args: Any) -> None:
    """Nothing: there is no graphics device."""


is_asan = False
"""Whether the native code checks its memory: there is none."""


def IsNUMAEnabled() -> bool:
    """Whether memory lies at one of several nodes: nets run where the system puts them."""
    return False


def GetNumNUMANodes() -> int:
    """How many nodes of memory nets can name: one."""
    return 1


def GetBlobNUMANode(name: Any) -> int:
    """The node of memory that a blob lies at: 0."""
    return 0
