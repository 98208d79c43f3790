"""Name scopes and device scopes, one of each per thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from netgrad.caffe2.caffe2_pb2 import DeviceOption

_NAMESCOPE_SEPARATOR = "/"


class _Scopes(threading.local):
    name = ""
    device: DeviceOption | None = None


_scopes = _Scopes()


def CurrentNameScope() -> str:
    """The prefix that raw names get: empty, or ending in ``/``."""
    return _scopes.name


def CurrentDeviceScope() -> DeviceOption | None:
    """The device option of operators that have none of their own."""
    return _scopes.device


@contextlib.contextmanager
def NameScope(prefix: str | None, reset: bool = False) -> Iterator[None]:
    """Prefix raw names with ``prefix/`` inside the block, after the prefixes around it.

    Args:
        prefix: The scope's name; nothing is added if it is empty or None.
        reset: Whether the scopes around it don't count.

    Raises:
        ValueError: ``prefix`` is no text.
    """
    if prefix is not None and not isinstance(prefix, str):
        raise ValueError(f"a name scope is a text, not {prefix!r}")
    before = _scopes.name
    own = prefix + _NAMESCOPE_SEPARATOR if prefix else ""
    inside = own if reset else before + own
    _scopes.name = inside
    try:
        yield
    finally:
        unchanged = _scopes.name == inside
        _scopes.name = before
        assert unchanged, "the name scope was changed from outside while it was entered"


@contextlib.contextmanager
def DeviceScope(scope: DeviceOption | int | None, node_name: str | None = None) -> Iterator[None]:
    """Give operators that are created inside the block this device option unless they have their own.

    Args:
        scope: The device option; a node name is inherited from the scope around if it has none, and further
            notes are in any case. With None or 0 the option around stays, and only the node is set.
        node_name: The node, instead of that of ``scope``.

    Raises:
        AssertionError: ``scope`` is something else.
    """
    before = _scopes.device
    inside = DeviceOption()
    if scope:
        assert isinstance(scope, DeviceOption), f"a device scope is a device option, not {scope!r}"
        inside.CopyFrom(scope)
        if before is not None:
            inside.extra_info[:] = sorted({*before.extra_info, *scope.extra_info})
    elif before is not None:
        inside.CopyFrom(before)
    if node_name:
        inside.node_name = node_name
    elif not inside.HasField("node_name") and before is not None and before.HasField("node_name"):
        inside.node_name = before.node_name
    with _device(inside):
        yield


@contextlib.contextmanager
def EmptyNameScope() -> Iterator[None]:
    """No name scope inside the block."""
    with NameScope(None, reset=True):
        yield


@contextlib.contextmanager
def EmptyDeviceScope() -> Iterator[None]:
    """No device scope inside the block."""
    with _device(None):
        yield


@contextlib.contextmanager
def _device(inside: DeviceOption | None) -> Iterator[None]:
    before = _scopes.device
    _scopes.device = inside
    try:
        yield
    finally:
        unchanged = _scopes.device is inside
        _scopes.device = before
        assert unchanged, "the device scope was changed from outside while it was entered"
