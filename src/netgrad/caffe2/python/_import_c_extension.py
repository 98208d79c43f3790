"""What scripts import as the native module: the names of `netgrad.caffe2.python.native.C`."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python.native import C


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(C, name)
