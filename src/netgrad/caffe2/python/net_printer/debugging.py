"""Nets that tell what they do."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.net_printer.printing import to_string


def debug_net(net: core.Net) -> core.Net:
    """A copy of a net that prints each operator before it runs."""
    copy = net.Clone(f"{net.Name()}_debug", op_id_mask=[])
    for op in net.Proto().op:
        copy.Python((_printing, [to_string(op)], {}))([], [])
        copy.extend_ops([op])
    return copy


def _printing(text: str) -> Any:
    def show(inputs: Any, outputs: Any) -> None:
        print(text)

    return show
