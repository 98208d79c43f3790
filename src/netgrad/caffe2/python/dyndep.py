"""Libraries of operators, which can't be loaded: there is no native Caffe2 to load them into.

The operators of Detectron's library are there without it.
"""

from __future__ import annotations

import os

from netgrad.caffe2.running.errors import RunError


def InitOpsLibrary(name: str, trigger_lazy: bool = True) -> None:
    """Say that there is no such library; its operators are unknown when they are used. Detectron's are known.

    Args:
        name: The file.
        trigger_lazy: Whether libraries that wait would be loaded first: as none can be, it changes nothing.

    Raises:
        RunError: There is one.
    """
    if "detectron_ops" in os.path.basename(name):
        return
    if os.path.exists(name):
        raise RunError(
            f"the operators of library {name} can't be loaded",
            hint="write them in Python (net.Python) or in terms of other operators",
        )
    print(f"There is no file {name}; its operators are not loaded.")


def GetImportedOpsLibraries() -> set[str]:
    """The libraries that have been loaded: none."""
    return set()
