"""Gradients that several parameters share, which updates in place would spoil."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import TYPE_CHECKING, Any

from netgrad.caffe2.python.core.gradient import GradientSlice

if TYPE_CHECKING:
    from netgrad.caffe2.python.core.net import Net


def separate_gradients(net: Net, params: Iterable[Any], gradients: MutableMapping[str, Any]) -> None:
    """Copy gradients so that no two parameters have the same blob.

    Updates such as momentum's leave their step in the gradient's blob, where the original lets the next
    parameter's update read it.

    Args:
        net: The net with the backward pass, to which the copies are appended.
        params: The parameters.
        gradients: Gradients by blob; parameters get their copies in it.
    """
    seen: set[str] = set()
    for param in params:
        gradient = gradients.get(str(param))
        if gradient is None:
            continue
        shared = gradient.values if isinstance(gradient, GradientSlice) else gradient
        if str(shared) not in seen:
            seen.add(str(shared))
            continue
        writer = next((op for op in reversed(net.Proto().op) if str(shared) in op.output), None)
        device = None if writer is None else writer.device_option
        own = net.Copy(shared, net.NextBlob(f"{param}_grad"), device_option=device)
        gradients[str(param)] = (
            GradientSlice(gradient.indices, own) if isinstance(gradient, GradientSlice) else own
        )
