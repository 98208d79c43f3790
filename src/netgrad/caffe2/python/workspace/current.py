"""The workspaces of the process, one of which is the current one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from netgrad.caffe2.running.blob import Blob, Tensor
from netgrad.caffe2.running.errors import RunError
from netgrad.caffe2.running.workspace import Workspace
from netgrad.core.errors import nearest

_workspaces: dict[str, Workspace] = {"default": Workspace()}
_current = "default"


def current() -> Workspace:
    """The current workspace."""
    return _workspaces[_current]


def CurrentWorkspace() -> str:
    """The name of the current workspace."""
    return _current


def Workspaces() -> list[str]:
    """The names of all workspaces."""
    return list(_workspaces)


def SwitchWorkspace(name: str, create_if_missing: bool | None = None) -> None:
    """Make another workspace the current one.

    Raises:
        RunError: There is none of that name, and none is to be created.
    """
    global _current
    if name not in _workspaces:
        if not create_if_missing:
            raise RunError(
                f"The specified workspace '{name}' does not exist{nearest(name, _workspaces)}",
                hint="pass create_if_missing=True to create it",
            )
        _workspaces[name] = Workspace()
    _current = name


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
def WorkspaceGuard(workspace_name: str) -> Iterator[None]:
    """Another workspace, created if need be, inside the block."""
    before = CurrentWorkspace()
    SwitchWorkspace(workspace_name, True)
    try:
        yield
    finally:
        SwitchWorkspace(before)


class _CurrentOf(type):
    @property
    def current(cls) -> Workspace:
        """The current workspace."""
        return current()


class _Workspace(Workspace, metaclass=_CurrentOf):
    """A workspace as an object of its own."""


class C:
    """What the original has in its native module, as far as it has a Python form here."""

    Workspace = _Workspace
    Blob = Blob
    Tensor = Tensor
