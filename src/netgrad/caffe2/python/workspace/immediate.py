"""Immediate mode: every operator that is created runs at once, in a workspace of its own."""

from __future__ import annotations

import shutil
import tempfile
from types import ModuleType
from typing import Any

from netgrad.caffe2.python.core.operators import when_created
from netgrad.caffe2.running.errors import RunError
from netgrad.caffe2.running.workspace import Workspace

_workspace: Workspace | None = None


def StartImmediate(i_know: bool = False) -> None:
    """Start immediate mode; what an earlier one has left is forgotten.

    Args:
        i_know: Whether a word about it is left out.
    """
    global _workspace
    if _workspace is not None:
        return
    _workspace = Workspace(root_folder=tempfile.mkdtemp(prefix="caffe2-immediate"))
    _module()._immediate_root_folder = _workspace.root_folder
    when_created.append(RunOperatorImmediate)
    if not i_know:
        print("Immediate mode: every operator runs when it is created. StopImmediate() ends it.")


def StopImmediate() -> None:
    """End immediate mode, and forget its blobs and its folder."""
    global _workspace
    if _workspace is not None:
        when_created.remove(RunOperatorImmediate)
        shutil.rmtree(_workspace.root_folder, ignore_errors=True)
        _workspace = None
        _module()._immediate_root_folder = ""


def _module() -> Any:
    """What scripts know as ``workspace``, which says where the folder of immediate mode is."""
    from netgrad.caffe2.python import workspace

    found: ModuleType = workspace
    return found


def IsImmediate() -> bool:
    """Whether immediate mode is on."""
    return _workspace is not None


def _immediate() -> Workspace:
    if _workspace is None:
        raise RunError("immediate mode is off: call StartImmediate first")
    return _workspace


def RunOperatorImmediate(op: Any) -> bool:
    """Run an operator in the workspace of immediate mode."""
    return _immediate().run_operators([op])


def ImmediateBlobs() -> list[str]:
    """The names of the blobs of immediate mode."""
    return _immediate().names()


def FetchImmediate(name: Any) -> Any:
    """A blob of immediate mode; see ``FetchBlob``."""
    return _immediate().fetch_blob(name)


def FeedImmediate(name: Any, arr: Any, device_option: Any = None) -> bool:
    """Write a blob of immediate mode; see ``FeedBlob``."""
    return _immediate().feed_blob(name, arr, device_option)
