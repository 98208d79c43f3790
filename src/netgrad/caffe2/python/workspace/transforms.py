"""Changes of nets that leave what they compute as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netgrad.caffe2.caffe2_pb2 import CPU, NetDef
from netgrad.caffe2.running.errors import RunError
from netgrad.caffe2.running.net import CreatedNet
from netgrad.caffe2.running.workspace import Workspace, message_of
from netgrad.core.errors import nearest


def _conv_to_nnpack(net: NetDef) -> None:
    """Let convolutions on the processor ask for the engine NNPACK."""
    for op in net.op:
        if op.type == "Conv" and op.device_option.device_type == CPU:
            op.engine = "NNPACK"


_TRANSFORMS: dict[str, Callable[[NetDef], None]] = {"ConvToNNPack": _conv_to_nnpack}


def ApplyTransform(transform_key: str, net: Any) -> NetDef:
    """A changed copy of a net.

    Args:
        transform_key: The name of the change.
        net: The net, or its message.

    Raises:
        RunError: There is no change of that name.
    """
    if transform_key not in _TRANSFORMS:
        raise RunError(f"there is no transform {transform_key}{nearest(transform_key, _TRANSFORMS)}")
    changed = NetDef()
    changed.CopyFrom(message_of(net, NetDef))
    _TRANSFORMS[transform_key](changed)
    return changed


def ApplyTransformIfFaster(
    transform_key: str,
    net: Any,
    init_net: Any,
    warmup_runs: int = 5,
    main_runs: int = 10,
    improvement_threshold: float = 1.01,
) -> NetDef:
    """`ApplyTransform` if the changed net is so many times as fast; else a copy of the net.

    Args:
        transform_key: The name of the change.
        net: The net, or its message.
        init_net: The net that writes what it reads.
        warmup_runs: Runs before the measurement.
        main_runs: Runs that are measured.
        improvement_threshold: How many times as fast it has to be.

    Raises:
        RunError: There is no change of that name, or a net can't run.
    """
    unchanged = NetDef()
    unchanged.CopyFrom(message_of(net, NetDef))
    changed = ApplyTransform(transform_key, unchanged)
    before, after = (
        _milliseconds(one, message_of(init_net, NetDef), warmup_runs, main_runs)
        for one in (unchanged, changed)
    )
    return changed if before >= improvement_threshold * after else unchanged


def _milliseconds(net: NetDef, init_net: NetDef, warmup_runs: int, main_runs: int) -> float:
    workspace = Workspace()
    workspace.run(init_net)
    return CreatedNet(net, workspace).benchmark(warmup_runs, main_runs, False)[0]
