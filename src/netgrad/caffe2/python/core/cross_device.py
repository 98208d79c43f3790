"""Copies between devices, put where an operator reads what is on another device."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from netgrad.caffe2.caffe2_pb2 import CPU, DeviceOption, OperatorDef
from netgrad.caffe2.python.core.blob_reference import BlobReference
from netgrad.caffe2.python.core.net import Net
from netgrad.caffe2.python.core.placement import InferOpBlobDevices, copy_func_between_devices, device_equal


@dataclass(frozen=True)
class RemapEntry:
    """A blob on a device, which has a copy of it."""

    blob: str
    device: DeviceOption

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemapEntry) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[str, int, int]:
        return self.blob, self.device.device_type, self.device.device_id


def InjectCrossDeviceCopies(
    net: Net,
    blob_to_device: dict[str, DeviceOption] | None = None,
    blob_remap: dict[RemapEntry, str] | None = None,
    placeHolderOps: Collection[str] | None = None,
) -> tuple[Net, dict[str, DeviceOption]]:
    """A net with a copy wherever an operator reads what is on another device.

    A copy is called ``<blob>_cpu`` or ``<blob>_cuda_<id>`` and is made once per value. What an operator
    writes in place on a copy is copied back when it is read where it was, or at the end.

    Args:
        net: The net; it stays as it is.
        blob_to_device: Where blobs are, to which those of the net are added. External inputs that it doesn't
            name are on the net's device.
        blob_remap: The copies that earlier nets have made, to which those of this net are added.
        placeHolderOps: Types of operators that stand for something else, such as sending and receiving. All
            their blobs are on their device; where a blob is on another one, they write a copy of it.

    Returns:
        The net ``<name>_cross_device``, and where all blobs are.

    Raises:
        AssertionError: The net doesn't define a blob that it reads.
        RuntimeError: A blob is written on one device and then, not in place, on another.
        ValueError: A device is neither a processor nor a graphics processor.
    """
    return _Injection(net, blob_to_device, blob_remap, placeHolderOps or ()).run()


class _Injection:
    """The net as it is copied, operator by operator."""

    def __init__(
        self,
        net: Net,
        devices: dict[str, DeviceOption] | None,
        copies: dict[RemapEntry, str] | None,
        placeholders: Collection[str],
    ) -> None:
        self._devices = {} if devices is None else devices
        self._copies = {} if copies is None else copies
        self._placeholders = placeholders
        self._now: dict[str, str] = {}  # blobs whose last value is in a copy
        self._made: set[str] = set(self._copies.values())
        self._names = net.UsedBlobNames()
        self._of_net = net.Proto().device_option
        self._operators = list(net.Proto().op)
        self._new = net.Clone(f"{net.Name()}_cross_device")

    def run(self) -> tuple[Net, dict[str, DeviceOption]]:
        message = self._new.Proto()
        del message.op[:]
        for op in self._operators:
            for blob in op.output:
                self._forget(blob)  # the net's next run has to copy what this one has written
        kept = [copy for entry, copy in self._copies.items() if entry.blob in message.external_input]
        message.external_input.extend(kept)
        for op in self._operators:
            self._add(op)
        for blob in list(self._now):
            self._bring_home(blob)
        return self._new, self._devices

    def _add(self, op: OperatorDef) -> None:
        added = OperatorDef()
        added.CopyFrom(op)
        is_stand_in = op.type in self._placeholders
        if is_stand_in:
            reads, writes = [op.device_option] * len(op.input), [op.device_option] * len(op.output)
        else:
            reads, writes = InferOpBlobDevices(op)
        names = {blob: self._on(blob, device) for blob, device in zip(op.input, reads, strict=True)}
        for blob, device in zip(added.output, writes, strict=True):
            before = self._devices.get(blob)
            moves = before is not None and blob not in op.input and not _reachable(before, device)
            if moves and not is_stand_in:
                raise RuntimeError(
                    f"In-place blob: {blob} is not supported between operators with different device "
                    f"options; previous: {before}, now: {device}. Failed op: {op}"
                )
        added.input[:] = [names[blob] for blob in op.input]
        for place, blob in enumerate(added.output):
            name = names.get(blob, blob)
            if is_stand_in and not _reachable(self._devices.get(blob, writes[place]), writes[place]):
                name = self._name(blob, writes[place])  # what comes from elsewhere goes home when it is read
            self._forget(blob)
            self._now.pop(blob, None)
            if name != blob:
                self._now[blob] = name
                self._copies[RemapEntry(blob, writes[place])] = name
            added.output[place] = name
            self._devices[name] = writes[place]
        self._new.extend_ops([added])

    def _home(self, blob: str) -> DeviceOption:
        """The device of a blob itself."""
        if blob not in self._devices:
            assert self._new.BlobIsDefined(blob), f"input {blob} should be defined in the net"
            self._devices[blob] = self._of_net
        return self._devices[blob]

    def _on(self, blob: str, device: DeviceOption) -> str:
        """The name under which a blob's value is on a device, where it is copied to if it has to be."""
        if _reachable(self._home(blob), device):
            self._bring_home(blob)
            return blob
        entry = RemapEntry(blob, device)
        if entry not in self._copies:
            name = self._name(blob, device)
            self._copy(self._now.get(blob, blob), name, device)
            self._copies[entry] = name
            self._devices[name] = device
        return self._copies[entry]

    def _bring_home(self, blob: str) -> None:
        """Copy a blob's value back, if it is in a copy."""
        if blob in self._now:
            self._copy(self._now.pop(blob), blob, self._devices[blob])

    def _copy(self, blob: str, name: str, device: DeviceOption) -> None:
        copy = copy_func_between_devices(self._devices[blob], device)
        assert copy is not None, f"{blob} and {name} are on one device, {device}"
        copy(self._new, BlobReference(blob), BlobReference(name))

    def _name(self, blob: str, device: DeviceOption) -> str:
        base = f"{blob}_cpu" if device.device_type == CPU else f"{blob}_cuda_{device.device_id}"
        name, count = base, 1
        while name in self._names and name not in self._made:
            name, count = f"{base}_{count}", count + 1
        self._made.add(name)
        return name

    def _forget(self, blob: str) -> None:
        """No copy has the value of a blob any more that is written now."""
        for entry in [entry for entry in self._copies if entry.blob == blob]:
            del self._copies[entry]


def _reachable(first: DeviceOption, second: DeviceOption) -> bool:
    """Whether a blob on one device can be read on another without a copy."""
    return device_equal(first, second) or copy_func_between_devices(first, second) is None


def InjectDeviceCopiesAmongNets(
    nets: list[Net], blob_to_device_init: dict[str, DeviceOption] | None = None
) -> tuple[list[Net], dict[str, DeviceOption]]:
    """`InjectCrossDeviceCopies` into nets that run one after the other, and share their copies.

    Args:
        nets: The nets, in the order in which they run.
        blob_to_device_init: Where blobs are before.

    Returns:
        The new nets, and where all blobs are.

    Raises:
        AssertionError: ``nets`` is no list of nets.
    """
    is_list = isinstance(nets, list) and all(isinstance(net, Net) for net in nets)
    assert is_list, f"a list of nets is needed, not {nets!r}"
    devices = {} if blob_to_device_init is None else blob_to_device_init
    copies: dict[RemapEntry, str] = {}
    return [InjectCrossDeviceCopies(net, devices, copies)[0] for net in nets], devices


def InjectDeviceCopiesAmongNetsWithoutB2D(nets: list[Net], blob_to_device_init: Any = None) -> Sequence[Net]:
    """The nets of `InjectDeviceCopiesAmongNets`."""
    return InjectDeviceCopiesAmongNets(nets, blob_to_device_init)[0]
