"""Names of nets, which are unique in the process, and the numbers of automatic blob names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from netgrad.caffe2.caffe2_pb2 import NetDef

_taken: set[str] = set()
_taken_by_steps: set[str] = set()
_NUMBERED_BLOB = re.compile(r"_blob_(\d)")

prefixes: list[Callable[[], str]] = []
"""What is asked for the prefix of a new net's name, such as that of the net builder which is active."""


def current_prefix() -> str:
    """What new nets have in front of their names; empty for nothing."""
    return "/".join(filter(None, (prefix() for prefix in prefixes)))


def unique_net_name(wish: str | None) -> str:
    """``wish`` behind the prefix, or with ``_1``, ``_2``, ... behind it; names are never given twice."""
    return _unique("/".join(filter(None, (current_prefix(), wish))), _taken)


def unique_step_name(wish: str) -> str:
    """``wish``, or with a number behind it: the names of steps, which have no prefix."""
    return _unique(wish, _taken_by_steps)


def _unique(wish: str, taken: set[str]) -> str:
    name, count = wish, 0
    while name in taken:
        count += 1
        name = f"{wish}_{count}"
    taken.add(name)
    return name


def next_blob_number(proto: NetDef) -> int:
    """One more than the largest number in names like ``net_blob_3``; only the first digit counts."""
    prefix = f"{proto.name}_blob_"
    return 1 + max((_first_digit(blob) for blob in _blobs(proto) if blob.startswith(prefix)), default=-1)


def _first_digit(blob: str) -> int:
    found = _NUMBERED_BLOB.search(blob)
    return int(found[1]) if found else -1


def _blobs(proto: NetDef) -> Iterable[str]:
    for op in proto.op:
        yield from op.input
        yield from op.output
