"""Data sets in memory: blobs of columns, which are read and written batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netgrad.caffe2.python import core, workspace
from netgrad.caffe2.python.dataio import Reader, Writer
from netgrad.caffe2.python.schema import Field, InitEmptyRecord, Struct, from_blob_list, from_column_list


class _CursorReader(Reader):
    """Reads a data set from a cursor on, which is made when it is set up."""

    def __init__(self, dataset: Dataset, name: str | None, batch_size: int, enforce_batch_size: bool) -> None:
        super().__init__(dataset.content())
        self.dataset = dataset
        self.name = name or f"{dataset.name}_cursor"
        self.batch_size = batch_size
        self.enforce_batch_size = enforce_batch_size
        self.cursor: Any = None

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        if self.cursor is None:
            blob = init_net.NextScopedBlob(self.name)
            self.cursor = init_net.CreateTreeCursor([], blob, fields=self.dataset.fields)

    def _batch(self, net: Any, type_: str, more: Sequence[Any], **arguments: Any) -> tuple[Any, list[Any]]:
        assert self.cursor is not None, "setup not called."
        content = self.dataset.content()
        with core.NameScope(net.NextName(self.name)):
            fields = getattr(net, type_)(
                [self.cursor, *more, *content.field_blobs()],
                content.field_names(),
                batch_size=self.batch_size,
                enforce_batch_size=self.enforce_batch_size,
                **arguments,
            )
            found = core.output_to_list(fields)
            return net.IsEmpty([found[0]]), found

    def reset(self, net: Any) -> None:
        net.ResetCursor([self.cursor], [])


class _DatasetReader(_CursorReader):
    """Reads the rows in order."""

    def read(self, read_net: Any) -> tuple[Any, Any]:
        return self._batch(read_net, "ReadNextBatch", [])


class _DatasetRandomReader(_CursorReader):
    """Reads the rows in an order of indices, once `computeoffset` has been added."""

    def __init__(self, dataset: Dataset, name: str | None, indices: Any, loop_over: bool, *args: Any) -> None:
        super().__init__(dataset, name, *args)
        self.indices = indices
        self.loop_over = loop_over
        self.offsets: Any = None

    def computeoffset(self, net: Any) -> None:
        """Add operators that find where each row starts."""
        self.reset(net)
        self.offsets = net.ComputeOffset([self.cursor, *self.dataset.content().field_blobs()], "offsets")

    def sort_and_shuffle(
        self, net: Any, sort_by_field: str | None = None, shuffle_size: int = 1, batch_size: int = 1
    ) -> None:
        """Add operators that make the order.

        Args:
            net: The net.
            sort_by_field: A column of one value per row, by which the rows are sorted first.
            shuffle_size: How many batches are mixed with each other then.
            batch_size: How many rows a batch has; whole batches are put into any order last.
        """
        content = self.dataset.content()
        names = content.field_names()
        assert not sort_by_field or sort_by_field in names, f"{sort_by_field} is none of the fields {names}"
        self.reset(net)
        self.indices = net.SortAndShuffle(
            [self.cursor, *content.field_blobs()],
            "indices",
            sort_by_field_idx=names.index(sort_by_field) if sort_by_field else -1,
            shuffle_size=shuffle_size,
            batch_size=batch_size,
        )

    def read(self, read_net: Any) -> tuple[Any, Any]:
        assert self.indices is not None, "sort_and_shuffle not called"
        assert self.offsets is not None, "computeoffset not called"
        more = [self.indices, self.offsets]
        return self._batch(read_net, "ReadRandomBatch", more, loop_over=self.loop_over)


class _DatasetWriter(Writer):
    """Appends to a data set; a mutex is made when it is set up."""

    def __init__(self, content: Field) -> None:
        self._content = content
        self.mutex: Any = None

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        if self.mutex is None:
            self.mutex = init_net.CreateMutex([])

    def write(self, writer_net: Any, fields: Any) -> None:
        assert self.mutex is not None, "setup not called."
        blobs, names = self._content.field_blobs(), self._content.field_names()
        assert len(fields) == len(blobs), f"Expected {len(blobs)} fields, got {len(fields)}."
        writer_net.CheckDatasetConsistency(fields, [], fields=names)
        writer_net.AtomicAppend([self.mutex, *blobs, *fields], blobs)


def Const(net: Any, value: Any, dtype: Any = None, name: str | None = None) -> core.BlobReference:
    """Feed a value to a blob of the current workspace, which becomes an external input of the net."""
    assert isinstance(net, core.Net), f"a net is needed, not {net!r}"
    blob: core.BlobReference = net.AddExternalInput(net.NextName(prefix=name))
    workspace.FeedBlob(blob, np.array(value, dtype=dtype))
    return blob


def execution_step_with_progress(
    name: str, init_net: Any, substeps: Any, rows_read: Any
) -> core.ExecutionStep:
    """A step that runs steps at once, and prints ``rows_read`` after every fifth time."""
    report = core.Net("report_net")
    report.Print([rows_read], [])
    return core.execution_step(name, substeps, report_net=report, concurrent_substeps=True, report_interval=5)


class Dataset:
    """Columns of data in blobs.

    Attributes:
        schema: What a row is.
        fields: The names of the columns.
        field_types: Their types.
        field_blobs: Their blobs, once there are some.
        name: Its name.
    """

    def __init__(self, fields: Any, name: str | None = None) -> None:
        """Start a data set of a struct or of a list of columns; a record of blobs is its content."""
        assert isinstance(fields, list | Struct), f"a Struct or a list of names is needed, not {fields!r}"
        self.schema: Any = from_column_list(fields) if isinstance(fields, list) else fields
        self.fields = self.schema.field_names()
        self.field_types = self.schema.field_types()
        self.name = name or "dataset"
        self.field_blobs: list[Any] | None = self.schema.field_blobs() if self.schema.has_blobs() else None

    def init_empty(self, init_net: Any) -> None:
        """Make blobs that a net fills with no rows."""
        self.field_blobs = InitEmptyRecord(init_net, self.schema.clone_schema()).field_blobs()

    def init_from_dataframe(self, net: Any, dataframe: Any) -> None:
        """Feed the columns of a table of pandas to blobs of the current workspace, inputs of the net."""
        assert len(self.fields) == len(dataframe.columns), f"columns {self.fields} and {dataframe.columns}"
        columns = [dataframe.iloc[:, at].to_numpy() for at in range(len(self.fields))]
        self.field_blobs = [
            Const(net, column, name=field) for field, column in zip(self.fields, columns, strict=True)
        ]

    def trim(self, net: Any, multiple_of: int) -> None:
        """Add an operator that drops the last rows, so that a multiple of a number is left."""
        net.TrimDataset(self.field_blobs, self.field_blobs, fields=self.fields, multiple_of=multiple_of)

    def get_blobs(self) -> list[Any] | None:
        """The blobs of the columns."""
        return self.field_blobs

    def content(self) -> Any:
        """The blobs of the columns as a record."""
        return from_blob_list(self.schema, self._blobs())

    def field_names(self) -> list[str]:
        """The names of the columns."""
        names: list[str] = self.fields
        return names

    def _blobs(self) -> list[Any]:
        assert self.field_blobs, "Dataset not initialized."
        return self.field_blobs

    def reader(
        self,
        init_net: Any = None,
        cursor_name: str | None = None,
        batch_size: int = 1,
        enforce_batch_size: bool = False,
    ) -> _DatasetReader:
        """A reader of the rows in order.

        Args:
            init_net: A net that makes its cursor; else `Reader.setup_ex` does.
            cursor_name: Name of the cursor.
            batch_size: How many rows a batch has.
            enforce_batch_size: Whether the last rows are left out if they are fewer.
        """
        reader = _DatasetReader(self, cursor_name, batch_size, enforce_batch_size)
        if init_net is not None:
            reader.setup_ex(init_net, None)
        return reader

    def random_reader(
        self,
        init_net: Any = None,
        indices: Any = None,
        cursor_name: str | None = None,
        batch_size: int = 1,
        loop_over: bool = False,
        enforce_batch_size: bool = False,
    ) -> _DatasetRandomReader:
        """A reader of the rows in another order.

        Args:
            init_net: A net that makes its cursor; else `Reader.setup_ex` does.
            indices: The blob of the order; else ``sort_and_shuffle`` of the reader makes one.
            cursor_name: Name of the cursor.
            batch_size: How many rows a batch has.
            loop_over: Whether it starts anew at its end.
            enforce_batch_size: Whether the last rows are left out if they are fewer.
        """
        reader = _DatasetRandomReader(self, cursor_name, indices, loop_over, batch_size, enforce_batch_size)
        if init_net is not None:
            reader.setup_ex(init_net, None)
        return reader

    def writer(self, init_net: Any = None) -> _DatasetWriter:
        """A writer, which appends rows; a data set isn't to be read at the same time."""
        writer = _DatasetWriter(self.content())
        if init_net is not None:
            writer.setup_ex(init_net, None)
        return writer
