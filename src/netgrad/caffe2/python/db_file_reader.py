"""Reading the columns of a data set that were saved to a database."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.blobs import from_records
from netgrad.caffe2.python import core
from netgrad.caffe2.python.dataio import Reader
from netgrad.caffe2.python.dataset import Dataset
from netgrad.caffe2.python.native import C
from netgrad.caffe2.python.schema import from_column_list
from netgrad.caffe2.running.databases import records_of


class DBFileReader(Reader):
    """Reads the rows of a saved data set in any order.

    Attributes:
        db_path: The database.
        db_type: Its kind.
        name: What its blobs have in front.
        batch_size: How many rows a batch has.
        loop_over: Whether it starts anew at the end.
        ds: The data set in memory.
        ds_reader: The reader of the data set, once it is set up.
    """

    default_name_suffix = "db_file_reader"

    def __init__(
        self,
        db_path: str,
        db_type: str,
        name: str | None = None,
        batch_size: int = 100,
        loop_over: bool = False,
        field_names: Sequence[str] | None = None,
    ) -> None:
        """Look what is in a database.

        Args:
            db_path: The database.
            db_type: Its kind.
            name: What its blobs have in front; without it the file's name and what it is.
            batch_size: How many rows a batch has.
            loop_over: Whether it starts anew at the end.
            field_names: The columns in order; without them those that the database has, by their names.

        Raises:
            AssertionError: There are no databases of that kind.
            RunError: There is no such database.
        """
        known = C.registered_dbs()
        assert db_type in known, f"db_type {db_type} is not available; choose one of {', '.join(known)}"
        self.db_path = os.path.expanduser(db_path)
        self.db_type = db_type
        stem = os.path.basename(self.db_path).rsplit(".", 1)[0]
        self.name = name or f"{stem}_{self.default_name_suffix}"
        self.batch_size = batch_size
        self.loop_over = loop_over
        super().__init__(self._init_reader_schema(field_names))
        self.ds = Dataset(self._schema, f"{self.name}_dataset")
        self.ds_reader: Any = None

    def _init_reader_schema(self, field_names: Sequence[str] | None = None) -> Any:
        if field_names:
            return from_column_list(field_names)
        return from_column_list(sorted(from_records(records_of(self.db_type, self.db_path), self.db_path)))

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        """Load the data set and put its rows into an order."""
        if self.ds_reader is not None:
            self.ds_reader.setup_ex(init_net, finish_net)
            return
        self._make_blobs(init_net)
        init_net.Load(
            [],
            self.ds.get_blobs(),
            db=self.db_path,
            db_type=self.db_type,
            absolute_path=True,
            source_blob_names=self.ds.field_names(),
        )
        self.ds_reader = self.ds.random_reader(init_net, batch_size=self.batch_size, loop_over=self.loop_over)
        self.ds_reader.sort_and_shuffle(init_net)
        self.ds_reader.computeoffset(init_net)

    def read(self, read_net: Any) -> tuple[Any, Any]:
        """The next rows."""
        assert self.ds_reader is not None, "setup_ex must be called first"
        found: tuple[Any, Any] = self.ds_reader.read(read_net)
        return found

    def _make_blobs(self, init_net: Any) -> None:
        with core.NameScope(self.name):
            self.ds.init_empty(init_net)
