"""A workspace of its own, with what the module ``workspace`` can do."""

from __future__ import annotations

import functools
import itertools
from typing import Any

from netgrad.caffe2.python import workspace
from netgrad.caffe2.python.native import workspaces

_numbers = itertools.count()


class Workspace:
    """A workspace apart from all others: ``FeedBlob``, ``RunNet`` and so on happen in it.

    It is dropped with the object.
    """

    def __init__(self) -> None:
        self.workspace_id = f"onnx_workspace_{next(_numbers)}"
        with workspace.WorkspaceGuard(self.workspace_id):
            pass  # entering it creates it

    def __getattr__(self, name: str) -> Any:
        function = getattr(workspace, name)
        if not callable(function):
            raise AttributeError(f"a workspace has no attribute '{name}'")

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with workspace.WorkspaceGuard(self.workspace_id):
                return function(*args, **kwargs)

        return inside

    def __del__(self) -> None:
        if workspaces is not None:  # gone while the program ends
            workspaces.by_name.pop(self.__dict__.get("workspace_id", ""), None)
