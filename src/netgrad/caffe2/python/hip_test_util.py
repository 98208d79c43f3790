"""Whether a test program runs on a device of the kind HIP."""

from __future__ import annotations

from collections.abc import Iterable

from netgrad.caffe2.caffe2_pb2 import HIP, DeviceOption


def run_in_hip(gc: DeviceOption, dc: Iterable[DeviceOption]) -> bool:
    """Whether the device that is checked on, or one of those that are compared, is of that kind."""
    return any(option.device_type == HIP for option in (gc, *dc))
