"""Operators and nets on several devices give the same. Here all device options mean the processor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import DeviceOption, NetDef, OperatorDef
from netgrad.caffe2.python import workspace


class DeviceChecker:
    """Runs operators or nets once per device option, and compares the results."""

    def __init__(self, threshold: float, device_options: Sequence[DeviceOption]) -> None:
        """Choose the absolute and relative tolerance, and the devices."""
        self._threshold = threshold
        self._device_options = list(device_options)

    def CheckSimple(
        self,
        op: OperatorDef,
        inputs: Sequence[Any],
        outputs_to_check: Sequence[int],
        input_device_options: Mapping[str, DeviceOption] | None = None,
    ) -> bool:
        """Whether an operator gives the same outputs at these positions on all devices."""
        results = []
        with workspace.WorkspaceGuard("_device_check_"):
            for option in self._device_options:
                op.device_option.CopyFrom(option)
                for name, array in zip(op.input, inputs, strict=True):
                    workspace.FeedBlob(name, array, (input_device_options or {}).get(name, option))
                workspace.RunOperatorOnce(op)
                results.append([workspace.FetchBlob(op.output[at]) for at in outputs_to_check])
                workspace.ResetWorkspace()
        return self._agree(results)

    def CheckNet(
        self,
        net: NetDef,
        inputs: Mapping[str, Any] | None = None,
        blobs_to_check: Sequence[str] | None = None,
        ignore: Sequence[str] | None = None,
    ) -> bool:
        """Whether a net leaves the same blobs on all devices; by default all that it writes."""
        names = list(blobs_to_check or dict.fromkeys(name for op in net.op for name in op.output))
        names = [name for name in names if name not in (ignore or ())]
        results = []
        with workspace.WorkspaceGuard("_device_check_"):
            for option in self._device_options:
                for name, array in (inputs or {}).items():
                    workspace.FeedBlob(name, array, option)
                placed = NetDef()
                placed.CopyFrom(net)
                placed.device_option.CopyFrom(option)
                workspace.RunNetOnce(placed)
                results.append([workspace.FetchBlob(name) for name in names])
                workspace.ResetWorkspace()
        return self._agree(results)

    def _agree(self, results: Sequence[Sequence[Any]]) -> bool:
        return all(
            np.allclose(first, other, atol=self._threshold, rtol=self._threshold)
            for others in results[1:]
            for first, other in zip(results[0], others, strict=True)
        )
