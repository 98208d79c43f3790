"""Records of blobs: made in nets, fed and fetched."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.python.core.blob_reference import BlobReference
from netgrad.caffe2.python.native import workspaces
from netgrad.caffe2.python.schema.field import Field
from netgrad.caffe2.python.schema.making import data_type_for_dtype, from_blob_list
from netgrad.caffe2.python.schema.scalar import Scalar

_logger = logging.getLogger(__name__)


def NewRecord(net: Any, schema: Field) -> Any:
    """A record of new blobs in a net, named by the columns, in the name scope."""
    assert isinstance(schema, Field), f"a schema is a Field, not {schema!r}"
    names = ["unnamed_scalar"] if isinstance(schema, Scalar) else schema.field_names()
    return from_blob_list(schema, [net.NextScopedBlob(name) for name in names])


def ConstRecord(net: Any, array_record: Field) -> Any:
    """A record of new blobs, which the net fills with the arrays of another record."""
    record = NewRecord(net, array_record)
    for blob, array in zip(record.field_blobs(), array_record.field_blobs(), strict=True):
        net.Const(array, blob)
    return record


def InitEmptyRecord(net: Any, schema_or_record: Field, enforce_types: bool = False) -> Any:
    """A record whose blobs the net fills with tensors of no values.

    Args:
        net: The net.
        schema_or_record: A record of blobs, or a schema, for which blobs are made.
        enforce_types: Whether a column without a type is an error; else its tensor is of floats.

    Raises:
        TypeError: A column has no type.
    """
    record = schema_or_record if schema_or_record.has_blobs() else NewRecord(net, schema_or_record)
    for dtype, blob in zip(record.field_types(), record.field_blobs(), strict=True):
        try:
            number = data_type_for_dtype(dtype)
        except TypeError:
            if enforce_types:
                raise
            _logger.warning("blob %s has a column without a type: it starts as floats", blob)
            net.ConstantFill([], blob, shape=[0])
        else:
            net.ConstantFill([], blob, shape=[0, *dtype.shape], dtype=number)
    return record


def FeedRecord(blob_record: Field, arrays: Any, ws: Any = None) -> None:
    """Feed the blobs of a record.

    Args:
        blob_record: The record of blobs.
        arrays: A record of arrays, or a list of them.
        ws: The workspace; the current one without it.
    """
    blobs = _blobs(blob_record)
    values: Sequence[Any] = arrays.field_blobs() if isinstance(arrays, Field) else arrays
    assert len(values) == len(blobs), f"Values must contain exactly {len(blobs)} arrays, not {len(values)}."
    workspace = workspaces.current() if ws is None else ws
    for blob, array in zip(blobs, values, strict=True):
        workspace.feed_blob(blob, array)


def FetchRecord(blob_record: Field, ws: Any = None, throw_on_type_mismatch: bool = False) -> Any:
    """A record of the arrays that the blobs of a record hold.

    Args:
        blob_record: The record of blobs.
        ws: The workspace; the current one without it.
        throw_on_type_mismatch: Whether an array of another type than its column's is refused, not cast.
    """
    workspace = workspaces.current() if ws is None else ws
    arrays = [workspace.fetch_blob(blob) for blob in _blobs(blob_record)]
    return from_blob_list(blob_record, arrays, throw_on_type_mismatch)


def _blobs(record: Field) -> list[str]:
    assert isinstance(record, Field), f"a record is a Field, not {record!r}"
    blobs = record.field_blobs()
    for blob in blobs:
        assert isinstance(blob, BlobReference), f"a record of blobs is needed, which holds {blob!r}"
    return [str(blob) for blob in blobs]
