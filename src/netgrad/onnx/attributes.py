"""Attributes of a node as keys: equal attributes have equal keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

_PLAIN = (int, float, str, bytes)


def frozen(value: Any) -> Any:
    """A hashable stand-in for an attribute's value; graphs stand for themselves and never compare equal."""
    # Plain types first: asking whether something is a tensor compares it with a protocol, which is slow.
    if isinstance(value, _PLAIN):
        return (type(value).__name__, value)
    if isinstance(value, list | tuple):
        return tuple([frozen(item) for item in value])
    if isinstance(value, ir.Attr):
        return frozen(value.value)
    if isinstance(value, ir.TensorProtocol):
        return (str(value.dtype), tuple(value.shape), value.numpy().tobytes())
    return id(value)


def attributes_key(attributes: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """A hashable stand-in for all attributes of a node, in whatever order they are given."""
    return tuple(sorted([(name, frozen(value)) for name, value in attributes.items()]))
