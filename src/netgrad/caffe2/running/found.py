"""The blobs of a part of a net, looked up once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from netgrad.caffe2.running.blob import Blob

if TYPE_CHECKING:
    from netgrad.caffe2.running.workspace import Workspace


class Found:
    """The blobs of a workspace that a part reads and writes, looked up once.

    Attributes:
        read: What it reads, None where there is nothing of the name.
    """

    def __init__(self, workspace: Workspace, reads: Iterable[str]) -> None:
        self._workspace = workspace
        self._changes = workspace.changes
        self._written: dict[str, Blob] = {}
        self._names: tuple[str, ...] = ()
        self._all: list[Blob] = []
        self.read = {name: workspace.find(name) for name in reads}
        self._complete = None not in self.read.values()

    def holds(self, workspace: Workspace) -> bool:
        """Whether it is still what the names of a workspace stand for."""
        return self._complete and self._workspace is workspace and self._changes == workspace.changes

    def all_to_write(self, names: tuple[str, ...]) -> list[Blob]:
        """The blobs of names, as `to_write`."""
        if self._names != names:
            self._names, self._all = names, [self.to_write(name) for name in names]
        return self._all

    def to_write(self, name: str) -> Blob:
        """The blob of a name, which is created if there is none."""
        blob = self._written.get(name)
        if blob is None:
            blob = self._written[name] = self._workspace.create_blob(name)
        return blob
