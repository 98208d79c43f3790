"""Plain text of reports: lists, tables and counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_NAMES_WIDTH = 60
"""Characters of the names in a heading."""


def counted(number: int, thing: str) -> str:
    """Such as ``2 nodes``."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def listed(title: str, lines: Sequence[str]) -> list[str]:
    """A list under a title, after an empty line; nothing without lines."""
    return ["", title, *indented(lines)] if lines else []


def indented(lines: Iterable[str]) -> list[str]:
    """Lines that stand under another one."""
    return [f"  {line}" for line in lines]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with their columns aligned."""
    if not rows:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def shortened(names: Sequence[str]) -> str:
    """As many names as fit on a line, at least one and at most four."""
    fitting = (len(", ".join(names[: k + 1])) <= _NAMES_WIDTH for k in range(4))
    shown = names[: max(1, sum(fitting))]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
