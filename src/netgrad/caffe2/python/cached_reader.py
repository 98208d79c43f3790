"""A reader whose data is kept in a file, so that it is made once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.dataio import Reader
from netgrad.caffe2.python.db_file_reader import DBFileReader
from netgrad.caffe2.python.pipeline import pipe
from netgrad.caffe2.python.task import Cluster, TaskGroup


class CachedReader(DBFileReader):
    """Reads from a file that a step has made from another reader; see `build_cache_step`.

    Attributes:
        original_reader: The other reader.
    """

    default_name_suffix = "cached_reader"

    def __init__(
        self,
        original_reader: Reader,
        db_path: str,
        db_type: str = "minidb",
        name: str | None = None,
        batch_size: int = 100,
        loop_over: bool = False,
    ) -> None:
        """Take a reader, and where its data is kept; see `DBFileReader`."""
        assert original_reader is not None, "original_reader can't be None"
        self.original_reader = original_reader
        super().__init__(db_path, db_type, name, batch_size, loop_over)

    def _init_reader_schema(self, field_names: Sequence[str] | None = None) -> Any:
        return self.original_reader.schema()

    def build_cache_step(self, overwrite: bool = False) -> core.ExecutionStep:
        """A step that reads everything and saves it; without anything to do if the file is there.

        Args:
            overwrite: Whether it is made anew even so.
        """
        if os.path.exists(self.db_path) and not overwrite:
            return core.execution_step("build_step", [])
        init_net, save_net = core.Net("init"), core.Net("save")
        self._make_blobs(init_net)
        with Cluster(), core.NameScope(self.name), TaskGroup() as group:
            pipe(self.original_reader, self.ds.writer())  # one thread, so that the rows keep their order
            copy_step = group.to_task().get_step()
        save_net.Save(
            self.ds.get_blobs(),
            [],
            db=self.db_path,
            db_type=self.db_type,
            blob_name_overrides=self.ds.field_names(),
            absolute_path=True,
        )
        return core.execution_step("build_cache", [init_net, copy_step, save_net])
