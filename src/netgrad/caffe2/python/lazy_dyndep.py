"""Libraries of operators that are loaded when operators are needed first; see `dyndep`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from netgrad.caffe2.python import dyndep, lazy

_pending: list[str] = []
_handlers: list[Callable[[BaseException], Any]] = []


def RegisterOpsLibrary(name: str) -> None:
    """Note a library; say that there is no such file, if there is none."""
    if not os.path.exists(name):
        print(f"There is no file {name}; its operators are not loaded.")
    elif name not in _pending:
        _pending.append(name)


def SetErrorHandler(handler: Callable[[BaseException], Any]) -> None:
    """Hand errors of loading to a function, within the ``except`` block that has caught them."""
    _handlers[:] = [handler]


def GetImportedOpsLibraries() -> set[str]:
    """The libraries that have been loaded, after those that wait are."""
    _load()
    return dyndep.GetImportedOpsLibraries()


def _load() -> None:
    while _pending:
        name = _pending.pop()  # a library that can't be loaded is not tried again
        try:
            dyndep.InitOpsLibrary(name, trigger_lazy=False)
        except Exception as error:
            if not _handlers:
                raise
            _handlers[0](error)


lazy.RegisterLazyImport(_load)
