"""Sums of blobs over devices, in the operators of a net: what scripts know as ``caffe2.python.muji``.

Each function adds operators that give the blob ``<blob>_reduced`` of each device the sum of all. Which of
them `Allreduce` takes depends on which devices reach each other; nets run on the processor, which has no such
devices, so it takes the one that needs none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.caffe2_pb2 import CPU, DeviceOption
from netgrad.caffe2.python import core, workspace


def OnGPU(gpu_id: int) -> DeviceOption:
    """The option of a GPU."""
    return core.DeviceOption(workspace.GpuDeviceType, gpu_id)


def OnCPU() -> DeviceOption:
    """The option of the processor."""
    return core.DeviceOption(CPU)


def Allreduce(
    net: core.Net,
    blobs: Sequence[Any],
    reduced_affix: str = "_reduced",
    gpu_indices: Sequence[int] | None = None,
) -> list[Any]:
    """Sums, in the way that fits the devices.

    Args:
        net: The net.
        blobs: A blob of each device, as references.
        reduced_affix: What the names of the sums end in.
        gpu_indices: The devices; without them 0, 1 and so on.

    Returns:
        The sums by device.

    Raises:
        RuntimeError: There are more or fewer devices than blobs.
    """
    devices = list(range(len(blobs))) if gpu_indices is None else list(gpu_indices)
    if len(devices) != len(blobs):
        raise RuntimeError(f"gpu_indices length and blobs length mismatch: {len(devices)} vs {len(blobs)}")
    reached = workspace.GetGpuPeerAccessPattern()

    def connected(*group: int) -> bool:
        inside = max(group) < reached.shape[0]
        return inside and all(bool(reached[a, b]) for a in group for b in group)

    if len(blobs) == 2 and connected(0, 1):
        return Allreduce2(net, blobs, reduced_affix, devices)
    if len(blobs) == 4 and connected(0, 1, 2, 3):
        return Allreduce4(net, blobs, reduced_affix, devices)
    if len(blobs) == 4 and connected(0, 1) and connected(2, 3):
        return Allreduce4Group2(net, blobs, reduced_affix, devices)
    if len(blobs) == 8 and connected(*range(8)):
        return Allreduce8(net, blobs, reduced_affix, devices)
    return AllreduceFallback(net, blobs, reduced_affix, devices)


class _Sums:
    """The sums that a net makes, by place among the devices."""

    def __init__(self, net: core.Net, blobs: Sequence[Any], affix: str, gpus: Sequence[int]) -> None:
        self._net, self._gpus = net, gpus
        self._blobs = [core.BlobReference(str(blob)) for blob in blobs]
        self._names = [blob + affix for blob in self._blobs]
        self.found: list[Any] = [None] * len(blobs)

    def _option(self, place: int) -> dict[str, DeviceOption]:
        return {"device_option": OnGPU(self._gpus[place])}

    def add(self, place: int, other: int, copy: bool = False) -> None:
        """Add what another place has to a place, there; with ``copy`` from a copy of it."""
        own = self._blobs[place] if self.found[place] is None else self.found[place]
        term = self._blobs[other] if self.found[other] is None else self.found[other]
        if copy:
            term = self._net.Copy(term, term + "_copy", **self._option(place))
        self.found[place] = self._net.Add([own, term], self._names[place], **self._option(place))

    def give(self, place: int, other: int) -> None:
        """Copy the sum of a place to another one."""
        self.found[other] = self._net.Copy(self.found[place], self._names[other], **self._option(other))

    def start(self) -> Any:
        """Copy the blob of the first place, which becomes its sum."""
        self.found[0] = self._net.Copy(self._blobs[0], self._names[0], **self._option(0))
        return self.found[0]

    def add_copy(self, other: int, name: Any) -> None:
        """Add the blob of another place to the first, through a copy there."""
        term = self._net.Copy(self._blobs[other], name, **self._option(0))
        self.found[0] = self._net.Add([self.found[0], term], self._names[0], **self._option(0))


def Allreduce2(
    net: core.Net, blobs: Sequence[Any], reduced_affix: str, gpu_indices: Sequence[int]
) -> list[Any]:
    """The sum on the first of two devices, copied to the second."""
    sums = _Sums(net, blobs, reduced_affix, gpu_indices)
    sums.add(0, 1)
    sums.give(0, 1)
    return sums.found


def Allreduce4(
    net: core.Net, blobs: Sequence[Any], reduced_affix: str, gpu_indices: Sequence[int]
) -> list[Any]:
    """Sums of two pairs, their sum, and back; all four devices reach each other."""
    return _of_four(net, blobs, reduced_affix, gpu_indices, copy=False)


def Allreduce4Group2(
    net: core.Net, blobs: Sequence[Any], reduced_affix: str, gpu_indices: Sequence[int]
) -> list[Any]:
    """`Allreduce4` where only the two devices of a pair reach each other."""
    return _of_four(net, blobs, reduced_affix, gpu_indices, copy=True)


def _of_four(
    net: core.Net, blobs: Sequence[Any], affix: str, gpus: Sequence[int], *, copy: bool
) -> list[Any]:
    sums = _Sums(net, blobs, affix, gpus)
    sums.add(0, 1)
    sums.add(2, 3)
    sums.add(0, 2, copy=copy)
    for place, other in ((0, 2), (0, 1), (2, 3)):
        sums.give(place, other)
    return sums.found


def Allreduce8(
    net: core.Net, blobs: Sequence[Any], reduced_affix: str, gpu_indices: Sequence[int]
) -> list[Any]:
    """Sums of four pairs, of two groups of four and of all, and back; the groups meet in a copy."""
    sums = _Sums(net, blobs, reduced_affix, gpu_indices)
    for place, other in ((0, 1), (2, 3), (4, 5), (6, 7), (0, 2), (4, 6)):
        sums.add(place, other)
    sums.add(0, 4, copy=True)
    for place, other in ((0, 4), (0, 2), (4, 6), (0, 1), (2, 3), (4, 5), (6, 7)):
        sums.give(place, other)
    return sums.found


def AllreduceFallback(
    net: core.Net, blobs: Sequence[Any], reduced_affix: str, gpu_indices: Sequence[int]
) -> list[Any]:
    """All added one by one on the first device, through copies there, and copied to the others."""
    sums = _Sums(net, blobs, reduced_affix, gpu_indices)
    temporary = sums.start() + "_temp_copy"
    for place in range(1, len(blobs)):
        sums.add_copy(place, temporary)
    for place in range(1, len(blobs)):
        sums.give(0, place)
    return sums.found
