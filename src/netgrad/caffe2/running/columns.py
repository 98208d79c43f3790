"""The columns of a data set as a tree: which rows of one column belong to a row of another.

A column ``a:lengths`` says how many rows each of its own rows has in the columns whose names start with
``a:``; so every column is in one domain, that of the rows of the data set or that of one column of lengths.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_SEPARATOR = ":"
_LENGTHS = "lengths"


class ColumnsError(ValueError):
    """Columns that don't fit together; whoever reads them says where they come from."""


@dataclass
class Columns:
    """The tree of columns.

    Attributes:
        names: The names of the columns.
        lengths: The columns of lengths, by place; the domain of number n + 1 is that of the n-th of them,
            and domain 0 has the rows of the data set. A domain comes after the one that its lengths are in.
        domains: The domain of each column.
    """

    names: list[str]
    lengths: list[int]
    domains: list[int]

    @staticmethod
    def of(names: Sequence[str]) -> Columns:
        """The tree of columns with these names.

        Raises:
            ColumnsError: There are none, or two have one name.
        """
        places = {name: at for at, name in enumerate(names)}
        if not names or len(places) != len(names):
            raise ColumnsError("columns need names, each its own")
        above = [_lengths_of(name, places) for name in names]
        lengths = [at for at, name in enumerate(names) if name.split(_SEPARATOR)[-1] == _LENGTHS]
        lengths.sort(key=lambda at: names[at].count(_SEPARATOR))
        numbers: dict[int | None, int] = {at: number + 1 for number, at in enumerate(lengths)}
        numbers[None] = 0
        return Columns(list(names), lengths, [numbers[at] for at in above])

    def sizes(self, columns: Sequence[Array]) -> list[int]:
        """How many rows each domain has: those that all its columns have; without columns any number.

        Raises:
            ColumnsError: There are more or fewer columns than names, or one has no rows at all (a scalar).
        """
        if len(columns) != len(self.names):
            raise ColumnsError(
                f"{len(columns)} columns are there for the {len(self.names)} fields {self.names}"
            )
        for name, column in zip(self.names, columns, strict=True):
            if column.ndim == 0:
                raise ColumnsError(f"field '{name}' is a single value, not a column")
        found = [sys.maxsize] * (len(self.lengths) + 1)
        for domain, column in zip(self.domains, columns, strict=True):
            found[domain] = min(found[domain], len(column))
        return found

    def ends(self, columns: Sequence[Array], starts: Sequence[int], count: int) -> list[int]:
        """Where the rows of each domain end that belong to some rows of the data set.

        Args:
            columns: The columns.
            starts: Where they start in each domain.
            count: How many rows of the data set they are; fewer where it ends before.

        Raises:
            ColumnsError: Lengths say that there are more rows than there are.
        """
        sizes = self.sizes(columns)
        if starts[0] > sizes[0]:
            raise ColumnsError(
                f"row {starts[0]} lies behind the end of the data set, which has {sizes[0]} rows"
            )
        ends = [min(starts[0] + count, sizes[0])]
        for number, at in enumerate(self.lengths):
            parent = self.domains[at]
            end = starts[number + 1] + int(columns[at][starts[parent] : ends[parent]].sum())
            if end > sizes[number + 1]:
                raise ColumnsError(
                    f"the lengths in field '{self.names[at]}' say {end} rows, and there are "
                    f"{sizes[number + 1]}"
                )
            ends.append(end)
        return ends

    def row_offsets(self, columns: Sequence[Array]) -> Array:
        """Where each row of the data set starts in every domain.

        Returns:
            An int64 matrix, a row for each row of the data set and one for the end, a column for each domain.
        """
        sizes = self.sizes(columns)
        self.ends(columns, [0] * len(sizes), sizes[0])
        offsets = [np.arange(sizes[0] + 1)]
        for at in self.lengths:
            before = np.concatenate([[0], np.cumsum(columns[at], dtype=np.int64)])
            offsets.append(before[offsets[self.domains[at]]])
        return np.stack(offsets, axis=1).astype(np.int64)

    def check(self, columns: Sequence[Array]) -> None:
        """Check that columns fit together.

        Raises:
            ColumnsError: Columns of one domain have different numbers of rows, or lengths say other numbers.
        """
        sizes = self.sizes(columns)
        for name, domain, column in zip(self.names, self.domains, columns, strict=True):
            if len(column) != sizes[domain]:
                raise ColumnsError(
                    f"field '{name}' has {len(column)} rows, and another field of its domain {sizes[domain]}"
                )
        ends = self.ends(columns, [0] * len(sizes), sizes[0])
        for number, at in enumerate(self.lengths):
            if number + 1 in self.domains and ends[number + 1] != sizes[number + 1]:
                raise ColumnsError(
                    f"the lengths in field '{self.names[at]}' say {ends[number + 1]} rows, and there are "
                    f"{sizes[number + 1]}"
                )

    def parts(self, columns: Sequence[Array], starts: Sequence[int], ends: Sequence[int]) -> list[Array]:
        """The rows of all columns between some places of their domains."""
        return [
            column[starts[domain] : ends[domain]]
            for domain, column in zip(self.domains, columns, strict=True)
        ]


def _lengths_of(name: str, places: dict[str, int]) -> int | None:
    """The column of lengths that a column's rows are counted by: that of the innermost field around it."""
    path = name.split(_SEPARATOR)[:-1]
    if name.split(_SEPARATOR)[-1] == _LENGTHS:
        path = path[:-1]
    while path:
        found = places.get(_SEPARATOR.join([*path, _LENGTHS]))
        if found is not None:
            return found
        path.pop()
    return places.get(_LENGTHS) if name != _LENGTHS else None
