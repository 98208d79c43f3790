"""Stacks of workspaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netgrad.caffe2.running.workspace import Workspace


class WorkspaceStack:
    """The workspaces of a ``Do`` operator: one for each time that it ran and its gradient has not yet."""

    def __init__(self) -> None:
        self.workspaces: list[Workspace] = []
