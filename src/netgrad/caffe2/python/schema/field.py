"""What all fields of a schema have in common: columns under names, in a tree."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from netgrad.caffe2.python.schema.scalar import Scalar

FIELD_SEPARATOR = ":"
"""Stands between the names of a field and of what is inside of it."""


def joined(prefix: str, suffix: str) -> str:
    """The name of a field inside another one; either may be empty."""
    return FIELD_SEPARATOR.join(part for part in (prefix, suffix) if part)


class Field:
    """A tree of fields, whose leaves are `Scalar` fields: one column of data each.

    A schema says names and types of columns; a record is a schema whose columns have values, references to
    blobs or arrays. Both are fields.
    """

    def __init__(self, children: Iterable[Field]) -> None:
        """Take the fields inside, in order; a subclass sets them as attributes before."""
        self._parent: tuple[Field | None, int] = (None, 0)
        self._field_offsets = [0]
        for at, child in enumerate(children):
            child._parent = (self, at)
            self._field_offsets.append(self._field_offsets[-1] + len(child.field_names()))

    def _children(self) -> Sequence[tuple[str, Field]]:
        """The fields inside with their names, in order."""
        raise NotImplementedError(f"{type(self).__name__} doesn't say what is inside of it")

    def field_names(self) -> list[str]:
        """The names of its columns: ``a``, ``b:lengths``, ...; of a scalar one empty name."""
        return [joined(name, inner) for name, child in self._children() for inner in child.field_names()]

    def field_types(self) -> list[np.dtype[Any]]:
        """The types of its columns, with their inner shapes."""
        return [scalar.dtype for scalar in self.all_scalars()]

    def field_metadata(self) -> list[Any]:
        """The metadata of its columns."""
        return [scalar.metadata for scalar in self.all_scalars()]

    def field_blobs(self) -> list[Any]:
        """The values of its columns.

        Raises:
            AssertionError: One has none.
        """
        return [scalar.get() for scalar in self.all_scalars()]

    def all_scalars(self) -> list[Scalar]:
        """Its leaves, in order."""
        return [scalar for _, child in self._children() for scalar in child.all_scalars()]

    def has_blobs(self) -> bool:
        """Whether all columns have values."""
        return all(scalar.has_blobs() for scalar in self.all_scalars())

    def clone(self, keep_blobs: bool = True) -> Any:
        """A copy, with the values of its columns or without them."""
        raise NotImplementedError(f"{type(self).__name__} can't be copied")

    def clone_schema(self) -> Any:
        """A copy without values."""
        return self.clone(keep_blobs=False)

    def slice(self) -> builtins.slice:
        """The place of its columns among those of the outermost field: an index into a list of them."""
        start = self._first_column()
        return builtins.slice(start, start + len(self.field_names()))

    def _first_column(self) -> int:
        """The place of its first column among those of the outermost field."""
        start, field = 0, self
        while (parent := field._parent[0]) is not None:
            start += parent._field_offsets[field._parent[1]]
            field = parent
        return start

    def __eq__(self, other: object) -> bool:
        """Whether the columns have the same names, types and metadata; values don't matter."""
        if not isinstance(other, Field):
            return NotImplemented
        return (
            self.field_names() == other.field_names()
            and self.field_types() == other.field_types()
            and self.field_metadata() == other.field_metadata()
        )

    __hash__ = None  # type: ignore[assignment]  # equality looks at what may change

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        """Its text form: a line per scalar, indented by the depth of the tree."""
        lines = [f"{type(self).__name__}("]
        for name, child in self._children():
            first, *others = child._lines()
            lines += [f"  {name}={first}", *(f"  {line}" for line in others)]
        return [*lines, ")"]
