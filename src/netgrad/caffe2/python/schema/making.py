"""Making schemas and records: from types, from columns, from Python values; and comparing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from netgrad.caffe2.python.core.blob_reference import BlobReference
from netgrad.caffe2.python.core.data_type import DataType
from netgrad.caffe2.python.schema.containers import List, ListWithEvicted, Struct, normalized
from netgrad.caffe2.python.schema.field import FIELD_SEPARATOR, Field
from netgrad.caffe2.python.schema.scalar import Metadata, Scalar


def Map(
    keys: Any, values: Any, keys_name: str = "keys", values_name: str = "values", lengths_blob: Any = None
) -> List:
    """Maps: lists of pairs of a key and a value."""
    return List(Struct((keys_name, keys), (values_name, values)), lengths_blob)


def MapWithEvicted(
    keys: Any,
    values: Any,
    keys_name: str = "keys",
    values_name: str = "values",
    lengths_blob: Any = None,
    evicted_values: Any = None,
) -> ListWithEvicted:
    """Maps with a column more; see `ListWithEvicted`."""
    return ListWithEvicted(Struct((keys_name, keys), (values_name, values)), lengths_blob, evicted_values)


def NamedTuple(name_prefix: str, *fields: Any) -> Struct:
    """A struct with the names ``prefix_0``, ``prefix_1``, ..."""
    return Struct(*[(f"{name_prefix}_{at}", field) for at, field in enumerate(fields)])


def Tuple(*fields: Any) -> Struct:
    """A struct with the names ``field_0``, ``field_1``, ..."""
    return NamedTuple("field", *fields)


def RawTuple(num_fields: int, name_prefix: str = "field") -> Struct:
    """A tuple of scalars without a type."""
    assert num_fields >= 0, f"a number of fields is needed, not {num_fields}"
    return NamedTuple(name_prefix, *([np.void] * num_fields))


def from_dtype(dtype: Any, _outer_shape: tuple[int, ...] = ()) -> Any:
    """The schema of a type of NumPy: a structured one becomes a struct, any other a scalar."""
    found = np.dtype(dtype)
    shape = (*_outer_shape, *found.shape)
    if found.base.fields is None:
        return Scalar(np.dtype((found.base, shape)) if shape else found)
    return Struct(*[(name, from_dtype(inner[0], shape)) for name, inner in found.base.fields.items()])


def from_column_list(
    col_names: Sequence[str],
    col_types: Sequence[Any] | None = None,
    col_blobs: Sequence[Any] | None = None,
    col_metadata: Sequence[Any] | None = None,
) -> Any:
    """The schema with columns of these names, as `Field.field_names` gives them, in any order.

    A field with exactly the columns ``lengths`` and ``values`` becomes a list.

    Args:
        col_names: The names.
        col_types: Their types.
        col_blobs: Their values.
        col_metadata: What is known of them.

    Raises:
        AssertionError: The lists have different lengths.
        ValueError: A name stands twice, or is that of a column and of what holds others.
    """
    count = len(col_names)
    types, blobs, metadata = (
        [None] * count if given is None else list(given) for given in (col_types, col_blobs, col_metadata)
    )
    for what, given in (("col_types", types), ("col_blobs", blobs), ("col_metadata", metadata)):
        assert len(given) == count, f"{what} has {len(given)} entries for {count} columns"
    root: dict[str, Any] = {}
    for name, dtype, blob, known in zip(col_names, types, blobs, metadata, strict=True):
        *path, last = name.split(FIELD_SEPARATOR)
        inside = root
        for part in path:
            inside = inside.setdefault(part, {})
            if isinstance(inside, Scalar):
                raise ValueError(f"column {name} is inside of another column")
        if last in inside:
            raise ValueError(f"Duplicate field name: {name}")
        inside[last] = Scalar(dtype, blob, known)
    return _field_of(root)


def _field_of(tree: Any) -> Any:
    if isinstance(tree, Scalar):
        return tree
    inside = {name: _field_of(inner) for name, inner in tree.items()}
    if set(inside) == {"lengths", "values"}:
        return List(inside["values"], inside["lengths"])
    if set(inside) == {"lengths", "values", "_evicted_values"}:
        return ListWithEvicted(inside["values"], inside["lengths"], inside["_evicted_values"])
    return Struct(*inside.items())


def from_blob_list(schema: Field, values: Any, throw_on_type_mismatch: bool = False) -> Any:
    """A record: a copy of a schema with these values of its columns.

    Raises:
        AssertionError: There are more or fewer values than columns, or they are refused
            (see `Scalar.set_value`).
    """
    assert isinstance(schema, Field), f"a schema is a Field, not {schema!r}"
    if isinstance(values, BlobReference):
        values = [values]
    record = schema.clone_schema()
    scalars = record.all_scalars()
    assert len(scalars) == len(values), f"Values must have {len(scalars)} elements, got {len(values)}."
    for scalar, value in zip(scalars, values, strict=True):
        scalar.set_value(value, throw_on_type_mismatch, unsafe=True)
    return record


def as_record(value: Any) -> Any:
    """A field as it is; a dict, or a list of pairs with names, as a struct; another list as a tuple."""
    if isinstance(value, Field):
        return value
    if isinstance(value, Mapping):
        value = list(value.items())
    elif not isinstance(value, list | tuple):
        return normalized(value)
    if all(isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str) for one in value):
        return Struct(*[(name, as_record(one)) for name, one in value])
    return Tuple(*[as_record(one) for one in value])


def attach_metadata_to_scalars(field: Field, metadata: Metadata) -> None:
    """Set the metadata of all columns."""
    for scalar in field.all_scalars():
        scalar.set_metadata(metadata)


# ---- comparing ---------------------------------------------------------------------------------------


def is_schema_subset(schema: Field, original_schema: Field) -> bool:
    """Whether all columns of a schema are, by name, in another one."""
    return set(schema.field_names()) <= set(original_schema.field_names())


def equal_schemas(
    schema: Field,
    original_schema: Field,
    check_field_names: bool = True,
    check_field_types: bool = True,
    check_field_metas: bool = False,
) -> bool:
    """Whether two schemas have the same columns, in what is wanted of names, types and metadata."""
    for one in (schema, original_schema):
        assert isinstance(one, Field), f"a schema is a Field, not {one!r}"
    if check_field_names and schema.field_names() != original_schema.field_names():
        return False
    if check_field_types and schema.field_types() != original_schema.field_types():
        return False
    return not check_field_metas or schema.field_metadata() == original_schema.field_metadata()


def schema_check(schema: Any, previous: Any = None) -> Any:
    """A record of anything; it must equal ``previous``, if that is given."""
    record = as_record(schema)
    if previous is not None:
        assert equal_schemas(record, previous), f"schemas differ: {record!r} and {previous!r}"
    return record


# ---- element types -----------------------------------------------------------------------------------

_ELEMENT_TYPES: tuple[tuple[Any, int], ...] = (
    (np.str_, DataType.STRING),
    (np.float16, DataType.FLOAT16),
    (np.float32, DataType.FLOAT),
    (np.float64, DataType.DOUBLE),
    (np.bool_, DataType.BOOL),
    (np.int8, DataType.INT8),
    (np.int16, DataType.INT16),
    (np.int32, DataType.INT32),
    (np.int64, DataType.INT64),
    (np.uint8, DataType.UINT8),
    (np.uint16, DataType.UINT16),
)


def data_type_for_dtype(dtype: Any) -> int:
    """The number of the element type of a type of NumPy.

    Raises:
        TypeError: There are no tensors of it.
    """
    base = np.dtype(dtype).base
    for known, number in _ELEMENT_TYPES:
        if base == known or (base.kind in "SU" and known is np.str_):
            return number
    raise TypeError(f"Unknown dtype: {base}")


def dtype_for_core_type(core_type: int) -> Any:
    """NumPy's type of an element type's number.

    Raises:
        TypeError: There is none.
    """
    for known, number in _ELEMENT_TYPES:
        if number == core_type:
            return known
    raise TypeError(f"Unknown core type: {core_type}")
