"""A workspace of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netgrad.caffe2.python import workspace


@pytest.fixture(autouse=True)
def _fresh_workspace() -> Iterator[None]:
    workspace.SwitchWorkspace("default")
    workspace.ResetWorkspace()
    yield
    workspace.SwitchWorkspace("default")
    workspace.ResetWorkspace()
