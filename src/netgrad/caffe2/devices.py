"""Devices of operators as the core compares them."""

from __future__ import annotations

from dataclasses import dataclass

from netgrad.caffe2.caffe2_pb2 import DeviceOption


@dataclass(frozen=True, slots=True)
class Device:
    """A device option that can't change.

    Attributes:
        serialized: The message, as bytes.
    """

    serialized: bytes

    @staticmethod
    def of(option: DeviceOption) -> Device:
        """That of a message."""
        return Device(option.SerializeToString(deterministic=True))

    def option(self) -> DeviceOption:
        """A message of its own."""
        return DeviceOption.FromString(self.serialized)


def same_device(
    first: DeviceOption | None,
    second: DeviceOption | None,
    ignore_node_name: bool = True,
    ignore_random_seed: bool = True,
) -> bool:
    """Whether two device options mean the same device; an absent one is the processor.

    Two options for the processor are equal whatever their index; options for other devices are equal if type
    and index are.
    """
    first, second = first or DeviceOption(), second or DeviceOption()
    if not ignore_node_name and first.node_name != second.node_name:
        return False
    if not ignore_random_seed and first.random_seed != second.random_seed:
        return False
    if not first.device_type or not second.device_type:
        return not first.device_type and not second.device_type
    return first.device_type == second.device_type and first.device_id == second.device_id
