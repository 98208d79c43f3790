"""Records of what a net reads and writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from netgrad.caffe2.python import scope
from netgrad.caffe2.python.core.blob_reference import BlobReference

if TYPE_CHECKING:
    from netgrad.caffe2.python.core.net import Net
    from netgrad.caffe2.python.schema import Field


class NetRecords:
    """The part of a net that knows the records of its inputs and outputs."""

    _input_record: Field | None = None
    _output_record: Field | None = None

    def input_record(self: Any) -> Any:
        """The record of inputs, or None."""
        return self._input_record

    def output_record(self: Any) -> Any:
        """The record of outputs, or None."""
        return self._output_record

    def set_input_record(self: Any, input_record: Field) -> Any:
        """Say what the inputs are; blobs are made for a schema, and all become external inputs.

        Raises:
            AssertionError: Other blobs have been said to be the inputs.
        """
        from netgrad.caffe2.python.schema import NewRecord

        _check_unset(self._input_record, input_record, "Input")
        if not input_record.has_blobs():
            with scope.NameScope(self.Name()):
                input_record = NewRecord(self, input_record)
        self._input_record = input_record
        for blob in input_record.field_blobs():
            if not self.is_external_input(blob):
                self.AddExternalInput(blob)
        return input_record

    def set_output_record(self: Any, record: Field) -> None:
        """Say what the outputs are; they become external outputs.

        Raises:
            AssertionError: The net doesn't define one, or others have been said to be the outputs.
        """
        _check_unset(self._output_record, record, "Output")
        self.AddExternalOutput(*record.field_blobs())
        self._output_record = record

    def AppendOutputRecordField(self: Any, field_name: str, record: Field) -> None:
        """Add a field to the record of outputs.

        Raises:
            AssertionError: There is no record of outputs, or the net doesn't define a blob of the field.
        """
        from netgrad.caffe2.python.schema import Struct

        assert self._output_record is not None, "Tried to append to missing output record"
        self.AddExternalOutput(*record.field_blobs())
        self._output_record = self._output_record + Struct((field_name, record))

    def recover_input_record_by_prefix(self: Any, prefix: str) -> None:
        """Take the external inputs whose names start with the prefix for columns of the input record."""
        record = _by_prefix(self.Proto().external_input, prefix)
        if record is not None:
            self.set_input_record(record)

    def recover_output_record_by_prefix(self: Any, prefix: str) -> None:
        """Take the external outputs whose names start with the prefix for columns of the output record."""
        record = _by_prefix(self.Proto().external_output, prefix)
        if record is not None:
            self.set_output_record(record)

    def _take_records(self: Any, source: Net, renames: Mapping[Any, Any] | None) -> None:
        """The records of another net, with other names and as blobs of this net."""
        names = {str(old): str(new) for old, new in (renames or {}).items()}
        self._input_record = _of_net(source._input_record, names, self)
        self._output_record = _of_net(source._output_record, names, self)


def blobs_of(thing: Any) -> list[Any]:
    """The blobs of a record that has them, of a list, or one blob."""
    from netgrad.caffe2.python.schema import Field

    if isinstance(thing, Field) and thing.has_blobs():
        return thing.field_blobs()
    return list(thing) if isinstance(thing, list | tuple) else [thing]


def _of_net(record: Field | None, names: Mapping[str, str], net: Any) -> Any:
    from netgrad.caffe2.python.schema import from_blob_list

    if record is None:
        return None
    blobs = [BlobReference(names.get(str(blob), blob), net) for blob in record.field_blobs()]
    return from_blob_list(record, blobs)


def _check_unset(known: Field | None, record: Field, kind: str) -> None:
    if known is None:
        return
    same = record.has_blobs() and set(record.field_blobs()) == set(known.field_blobs())
    assert same, f"{kind} schema cannot be reset"


def _by_prefix(names: Sequence[str], prefix: str) -> Any:
    from netgrad.caffe2.python.schema import from_column_list

    found = [name for name in names if name.startswith(prefix)]
    if not found:
        return None
    columns = [name.removeprefix(prefix) for name in found]
    return from_column_list(columns, col_blobs=[BlobReference(name) for name in found])
