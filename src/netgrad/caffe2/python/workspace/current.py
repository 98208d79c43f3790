"""The workspaces of the process, one of which is the current one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from netgrad.caffe2.python.native import workspaces
from netgrad.caffe2.running.errors import RunError
from netgrad.caffe2.running.workspace import Workspace
from netgrad.core.errors import nearest


def current() -> Workspace:
    """The current workspace."""
    return workspaces.current()


def CurrentWorkspace() -> str:
    """The name of the current workspace."""
    return workspaces.name


def Workspaces() -> list[str]:
    """The names of all workspaces."""
    return list(workspaces.by_name)


def SwitchWorkspace(name: str, create_if_missing: bool | None = None) -> None:
    """Make another workspace the current one.

    Raises:
        RunError: There is none of that name, and none is to be created.
    """
    if name not in workspaces.by_name:
        if not create_if_missing:
            raise RunError(
                f"The specified workspace '{name}' does not exist{nearest(name, workspaces.by_name)}",
                hint="pass create_if_missing=True to create it",
            )
        workspaces.by_name[name] = Workspace()
    workspaces.name = name


def ResetWorkspace(root_folder: str | None = None) -> bool:
    """Drop all blobs and nets of the current workspace.

    Args:
        root_folder: The folder that relative paths start from; created if it isn't there.
    """
    if root_folder is not None:
        os.makedirs(root_folder, exist_ok=True)
    current().reset(root_folder)
    return True


def RootFolder() -> str:
    """The folder that relative paths of files start from."""
    return current().root_folder


@contextlib.contextmanager
def WorkspaceGuard(workspace_name: str | Workspace) -> Iterator[None]:
    """Another workspace, created if need be, inside the block; one that is given as an object has no name."""
    if isinstance(workspace_name, Workspace):
        yield
        return
    before = CurrentWorkspace()
    SwitchWorkspace(workspace_name, True)
    try:
        yield
    finally:
        SwitchWorkspace(before)
