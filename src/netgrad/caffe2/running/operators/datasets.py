"""Data sets in columns: cursors over them, batches of rows, their order and their consistency."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnxruntime import OrtValue

from netgrad.caffe2.caffe2_pb2 import BlobProto
from netgrad.caffe2.running.blob import as_array
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.columns import Array, Columns, ColumnsError
from netgrad.caffe2.running.errors import RunError
from netgrad.caffe2.running.packed import PackedRecord
from netgrad.caffe2.running.registry import runs
from netgrad.caffe2.stored import Stored
from netgrad.caffe2.tensors import elements_of, to_message
from netgrad.core import InvalidModelError

_SHUFFLE_SEED = 3  # the original shuffles in the same way each time, too


class TreeCursor(Stored, blob_type="std::unique_ptr<TreeCursor>"):
    """A place in a data set.

    Attributes:
        columns: The columns of the data set.
        offsets: The next row in each domain (see `Columns`); empty at the start.
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.offsets: list[int] = []

    def to_message(self, name: str) -> BlobProto:
        """The place as a blob of this name: the offsets, and the names of the columns as a text."""
        text = "".join(f"{column} " for column in self.columns.names).encode()
        blob = BlobProto(name=name, type="std::unique_ptr<TreeCursor>", content=text)
        if self.offsets:
            blob.tensor.CopyFrom(to_message(np.array(self.offsets, np.int64), name))
        return blob

    @classmethod
    def of(cls, blob: BlobProto, where: str) -> TreeCursor:
        """The place that a blob holds.

        Raises:
            InvalidModelError: It holds something else.
        """
        try:
            cursor = cls(Columns.of(blob.content.decode().split()))
        except ColumnsError as error:
            raise InvalidModelError(f"{where} is no place in a data set: {error}") from error
        if blob.HasField("tensor"):
            cursor.offsets = [int(offset) for offset in elements_of(blob.tensor)]
        return cursor


def _tree(call: Call) -> Columns:
    names = [name.decode() for name in call.argument("fields", ())]
    try:
        return Columns.of(names)
    except ColumnsError as error:
        raise call.error(str(error)) from error


def _cursor(call: Call) -> TreeCursor:
    cursor = call.value(0)
    if not isinstance(cursor, TreeCursor):
        raise call.error(f"input '{call.definition.input[0]}' was not written by CreateTreeCursor")
    return cursor


def read_columns(call: Call, first: int, last: int | None = None) -> list[Array]:
    """The tensors of inputs from one on, which are copied out of ONNX Runtime once for all times."""
    count = len(call.definition.input) if last is None else last
    for at in range(first, count):
        blob = call.blob(at)
        if isinstance(blob.value, OrtValue):
            blob.value = as_array(blob.value)
    return [call.array(at) for at in range(first, count)]


def _wrong(call: Call, error: ColumnsError) -> RunError:
    return call.error(f"{error}: see the blobs of the data set")


@runs("CreateTreeCursor")
def _create_tree_cursor(call: Call) -> None:
    call.put(0, TreeCursor(_tree(call)))


@runs("ResetCursor")
def _reset_cursor(call: Call) -> None:
    _cursor(call).offsets = []


@runs("ReadNextBatch")
def _read_next_batch(call: Call) -> None:
    """The next rows; none behind the end, or with ``enforce_batch_size`` where they are too few."""
    cursor, columns = _cursor(call), read_columns(call, 1)
    tree, size = cursor.columns, call.argument("batch_size", 1)
    starts = cursor.offsets or [0] * (len(tree.lengths) + 1)
    if len(starts) != len(tree.lengths) + 1:
        raise call.error("the cursor has read rows by their indices: reset it by ResetCursor first")
    try:
        ends = tree.ends(columns, starts, size)
    except ColumnsError as error:
        raise _wrong(call, error) from error
    cursor.offsets = ends
    if call.argument("enforce_batch_size", 0) and ends[0] - starts[0] < size:
        ends = starts
    for at, part in enumerate(tree.parts(columns, starts, ends)):
        call.write(at, part)


@runs("ComputeOffset")
def _compute_offset(call: Call) -> None:
    """Where each row starts in every domain; the cursor starts anew."""
    cursor, columns = _cursor(call), read_columns(call, 1)
    try:
        call.write(0, cursor.columns.row_offsets(columns))
    except ColumnsError as error:
        raise _wrong(call, error) from error
    cursor.offsets = []


@runs("SortAndShuffle")
def _sort_and_shuffle(call: Call) -> None:
    """An order of the rows: by a column, then mixed inside of chunks, then whole batches mixed."""
    cursor, by = _cursor(call), call.argument("sort_by_field_idx", -1)
    batch, chunk = call.argument("batch_size", 1), call.argument("shuffle_size", 1)
    columns = read_columns(call, 1)
    if not -1 <= by < len(columns):
        raise call.error(f"there is no field {by} to sort by")
    if batch < 1 or chunk < 1:
        raise call.error("batch_size and shuffle_size are at least 1")
    rows = np.arange(len(columns[max(by, 0)]))
    if by >= 0:
        if cursor.columns.domains[by]:
            raise call.error(f"field '{cursor.columns.names[by]}' has not one value per row to sort by")
        rows = np.argsort(columns[by], kind="stable")
    random = np.random.default_rng(_SHUFFLE_SEED)
    if batch * chunk > 1:
        for start in range(0, len(rows) - batch, batch * chunk):
            random.shuffle(rows[start : start + batch * chunk])
    whole = len(rows) // batch
    order = random.permutation(whole)
    batches = rows[: whole * batch].reshape(whole, batch)[order].reshape(-1)
    call.write(0, np.concatenate([batches, rows[whole * batch :]]).astype(np.int64))


@runs("ReadRandomBatch")
def _read_random_batch(call: Call) -> None:
    """The rows that the next indices name, by the offsets that ComputeOffset has found."""
    cursor, indices, offsets = _cursor(call), call.array(1).reshape(-1), call.array(2)
    columns, size = read_columns(call, 3), call.argument("batch_size", 1)
    at = cursor.offsets[0] if cursor.offsets else 0
    if call.argument("enforce_batch_size", 0) and at + size > len(indices):
        at = len(indices)
    if call.argument("loop_over", 0) and at >= len(indices):
        at = 0
    cursor.offsets = [at + size]
    rows = indices[at : at + size]
    if rows.size and not (rows.min() >= 0 and rows.max() + 1 < len(offsets)):
        raise call.error(f"an index lies outside of the {len(offsets) - 1} rows: {rows.tolist()}")
    for output, (domain, column) in enumerate(zip(cursor.columns.domains, columns, strict=True)):
        parts = [column[offsets[row, domain] : offsets[row + 1, domain]] for row in rows]
        call.write(output, np.concatenate(parts) if parts else column[:0])


@runs("CheckDatasetConsistency")
def _check_dataset_consistency(call: Call) -> None:
    try:
        _tree(call).check(read_columns(call, 0))
    except ColumnsError as error:
        raise call.error(f"the fields don't fit together: {error}") from error


@runs("TrimDataset")
def _trim_dataset(call: Call) -> None:
    """Drop the last rows, so that a multiple of some number is left."""
    tree, columns = _tree(call), read_columns(call, 0)
    multiple = call.argument("multiple_of", 0)
    if multiple < 1:
        raise call.error("argument 'multiple_of' is missing or below 1")
    try:
        starts = [0] * (len(tree.lengths) + 1)
        ends = tree.ends(columns, starts, tree.sizes(columns)[0] // multiple * multiple)
    except ColumnsError as error:
        raise _wrong(call, error) from error
    for at, part in enumerate(tree.parts(columns, starts, ends)):
        call.write(at, part)


@runs("PackRecords")
def _pack_records(call: Call) -> None:
    """A tensor of opaque values, one for each row, or one for all."""
    tree, columns = _tree(call), read_columns(call, 0)
    try:
        offsets = tree.row_offsets(columns)
    except ColumnsError as error:
        raise _wrong(call, error) from error
    if call.argument("pack_to_single_shared_ptr", 0):
        records = [columns]
    else:
        records = [tree.parts(columns, *offsets[row : row + 2]) for row in range(len(offsets) - 1)]
    packed = np.empty(len(records), object)
    packed[:] = [PackedRecord([np.array(part) for part in parts]) for parts in records]
    call.put(0, packed)


@runs("UnPackRecords")
def _un_pack_records(call: Call) -> None:
    """The columns again; of no records those of the further inputs, without rows."""
    packed: Any = call.array(0).reshape(-1)
    count = len(call.definition.output)
    if not all(isinstance(record, PackedRecord) for record in packed):
        raise call.error(f"input '{call.definition.input[0]}' was not written by PackRecords")
    if any(record.parts is None for record in packed):
        raise call.error(
            f"the records in '{call.definition.input[0]}' were saved, which keeps none of their content"
        )
    if not len(packed):
        if len(call.definition.input) != count + 1:
            raise call.error("there are no records: give a tensor of each field's type and shape as input")
        for at in range(count):
            call.write(at, call.array(at + 1)[:0])
        return
    if any(len(record.parts) != count for record in packed):
        raise call.error(f"the records have {len(packed[0].parts)} fields, not {count}")
    for at in range(count):
        call.write(at, np.concatenate([record.parts[at] for record in packed]))
