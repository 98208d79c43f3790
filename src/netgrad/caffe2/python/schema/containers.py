"""Fields that hold others: structs and lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from netgrad.caffe2.python.schema.field import FIELD_SEPARATOR, Field
from netgrad.caffe2.python.schema.scalar import Scalar


def normalized(field: Any, keep_blobs: bool = True) -> Any:
    """A field of its own: a copy of one, or a scalar of a type, of a reference or of an array."""
    if isinstance(field, Field):
        return field.clone(keep_blobs)
    if isinstance(field, type | np.dtype):
        return Scalar(dtype=field)
    return Scalar(blob=field)


class Struct(Field):
    """Fields by name, as attributes and as items.

    Attributes:
        fields: The fields inside, by name.
    """

    fields: dict[str, Any]

    def __init__(self, *fields: tuple[str, Any]) -> None:
        """Take pairs of name and field, each a field, a type, a reference or an array.

        A name like ``a:b`` is that of a field ``b`` inside a struct ``a``; structs of one name are merged.

        Raises:
            AssertionError: A name is empty, or ``lengths``, which lists have for their own.
            ValueError: Two fields that are no structs have one name.
            TypeError: So have two fields inside of structs that are merged.
        """
        found: dict[str, Any] = {}
        for name, given in fields:
            assert name, "Field names cannot be empty"
            assert name != "lengths", "Struct cannot contain a field named `lengths`."
            field = normalized(given)
            outer, *inner = name.split(FIELD_SEPARATOR, 1)
            if inner:
                field = Struct((inner[0], field))
            if outer in found:
                if not isinstance(found[outer], Struct) or not isinstance(field, Struct):
                    raise ValueError(f"Duplicate field name: {outer}")
                field = found[outer] + field
            found[outer] = field
        self.fields = found
        super().__init__(found.values())
        self._frozen = True

    def _children(self) -> list[tuple[str, Field]]:
        return list(self.fields.items())

    def get_children(self) -> list[tuple[str, Field]]:
        """Its fields with their names."""
        return self._children()

    def clone(self, keep_blobs: bool = True) -> Any:
        """A copy of its own class, with values or without them."""
        return type(self)(*[(name, normalized(field, keep_blobs)) for name, field in self.fields.items()])

    # ---- access --------------------------------------------------------------------------------------

    def _find(self, name: str) -> Any:
        """The field of a name like ``a:b:c``, or None."""
        outer, *inner = name.split(FIELD_SEPARATOR, 1)
        field = self.fields.get(outer)
        if field is None or not inner:
            return field
        try:
            return field[inner[0]]
        except (KeyError, TypeError):
            return None

    def __contains__(self, name: str) -> bool:
        return self._find(name) is not None

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fields.values())

    def __getitem__(self, item: Any) -> Any:
        """A field by name, nested names included, or by place; or a struct of those that a list says.

        Raises:
            KeyError: There is no field of that name.
            IndexError: There are fewer fields.
        """
        if isinstance(item, list | tuple):
            names = list(self.fields)
            return Struct(*[(names[one] if isinstance(one, int) else one, self[one]) for one in item])
        if isinstance(item, int):
            return list(self.fields.values())[item]
        field = self._find(item)
        if field is None:
            raise KeyError(f'field "{item}" not found (fields: {", ".join(self.fields) or "none"})')
        return field

    def get(self, item: str, default_value: Any) -> Any:
        """A field by name, or the default."""
        field = self._find(item)
        return default_value if field is None else field

    def __getattr__(self, item: str) -> Any:
        if not item.startswith("__"):
            fields: Mapping[str, Any] = self.__dict__.get("fields", {})
            if item in fields:
                return fields[item]
        raise AttributeError(item)

    def __setattr__(self, key: str, value: Any) -> None:
        if self.__dict__.get("_frozen") and not key.startswith("_"):
            raise TypeError(f"field {key} can't be replaced: make a new Struct")
        super().__setattr__(key, value)

    # ---- merging -------------------------------------------------------------------------------------

    def __add__(self, other: object) -> Any:
        """The fields of both; structs of one name are merged in the same way.

        Raises:
            TypeError: Other fields have one name, or ``other`` is no struct.
        """
        if not isinstance(other, Struct):
            return NotImplemented
        merged = dict(self.fields)
        for name, field in other.fields.items():
            if name in merged:
                if not isinstance(merged[name], Struct) or not isinstance(field, Struct):
                    raise TypeError(
                        f"fields {name} can't be merged, since they are no structs: "
                        f"{type(merged[name]).__name__} and {type(field).__name__}"
                    )
                field = merged[name] + field
            merged[name] = field
        return Struct(*merged.items())

    def __sub__(self, other: object) -> Any:
        """The fields without those of ``other``; of structs in both what is left, if anything is.

        Raises:
            TypeError: Fields of one name are of different kinds, or ``other`` is no struct.
        """
        if not isinstance(other, Struct):
            return NotImplemented
        left = dict(self.fields)
        for name, field in other.fields.items():
            if name not in left:
                continue
            if type(left[name]) is not type(field):
                raise TypeError(
                    f"field {name} can't be removed, since it is another one: "
                    f"{type(left[name]).__name__} and {type(field).__name__}"
                )
            left[name] = left[name] - field if isinstance(field, Struct) else Struct()
            if not left[name].fields:
                del left[name]
        return Struct(*left.items())


class List(Field):
    """Lists of values: one column of their lengths, and the field of all their values in order.

    Attributes:
        lengths: A scalar of int32, how many values each list has.
    """

    def __init__(self, values: Any, lengths_blob: Any = None) -> None:
        """Take the field of the values, and the lengths: a scalar, or its values."""
        self.lengths = _scalar(np.int32, lengths_blob)
        self._items = normalized(values)
        super().__init__([field for _, field in self._children()])

    def _children(self) -> list[tuple[str, Field]]:
        return [("lengths", self.lengths), ("values", self._items)]

    def clone(self, keep_blobs: bool = True) -> Any:
        """A copy of its own class, with values or without them."""
        return type(self)(normalized(self._items, keep_blobs), normalized(self.lengths, keep_blobs))

    def __getattr__(self, item: str) -> Any:
        """The values (``items`` or ``value``), or a field inside them where they are structs."""
        values = self.__dict__.get("_items")
        if item.startswith("__") or values is None:
            raise AttributeError(item)
        if isinstance(values, Struct) and (item in values.fields or hasattr(Struct, item)):
            return getattr(values, item)
        if item in ("items", "value"):
            return values
        raise AttributeError(f"Field not found in list: {item}.")

    def __getitem__(self, item: str) -> Any:
        """A field inside by name: ``lengths``, ``values``, ``values:a``.

        Raises:
            KeyError: There is none of that name.
        """
        outer, *inner = item.split(FIELD_SEPARATOR, 1)
        field: Any = dict(self._children()).get(outer)
        if field is None or (inner and isinstance(field, Scalar)):
            raise KeyError(f"Field not found in list: {item}.")
        return field[inner[0]] if inner else field


class ListWithEvicted(List):
    """A list with a column more, the values that were evicted from a table of limited size."""

    def __init__(self, values: Any, lengths_blob: Any = None, evicted_values: Any = None) -> None:
        """Take what `List` takes, and the evicted values: a scalar, or its values."""
        self._evicted_values = _scalar(np.int64, evicted_values)
        super().__init__(values, lengths_blob)

    def _children(self) -> list[tuple[str, Field]]:
        return [*super()._children(), ("_evicted_values", self._evicted_values)]

    def clone(self, keep_blobs: bool = True) -> Any:
        """A copy of its own class, with values or without them."""
        fields = (self._items, self.lengths, self._evicted_values)
        return type(self)(*[normalized(field, keep_blobs) for field in fields])


def _scalar(dtype: Any, given: Any) -> Scalar:
    if isinstance(given, Field):
        assert isinstance(given, Scalar), f"one column is a Scalar, not {type(given).__name__}"
        return given.clone()
    return Scalar(dtype, given)
