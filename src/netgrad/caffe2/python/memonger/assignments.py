"""Blobs that can share memory, because one is written after the other was last read."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from netgrad.caffe2.caffe2_pb2 import OperatorDef


class LiveRange(NamedTuple):
    """When a blob lives.

    Attributes:
        defined: The first operator that writes it; None: it is given.
        used: The last operator that reads it; None: whoever looks at the net's outputs.
        size: Its bytes, if they are known.
    """

    defined: int | None
    used: int | None
    size: int | None


NamedRange: TypeAlias = tuple[str, LiveRange]
Assignments: TypeAlias = "list[list[NamedRange]]"
"""Each a list of blobs that have the same memory, one after the other."""


class AssignmentAlgorithm(enum.Enum):
    """How blobs are assigned: fast, or with the least memory."""

    GREEDY = 0
    DYNAMIC_PROGRAMMING = 1


def compute_ranges(
    linearized_ops: Sequence[OperatorDef], blob_sizes: Mapping[str, int] | None = None
) -> dict[str, LiveRange]:
    """When the blobs of a list of operators live.

    Raises:
        AssertionError: Sizes are given, but not that of every blob.
    """
    defined: dict[str, int] = {}
    used: dict[str, int] = {}
    blobs: dict[str, None] = {}
    for index, op in enumerate(linearized_ops):
        used.update(dict.fromkeys(op.input, index))
        for blob in op.output:
            defined.setdefault(blob, index)
        blobs.update(dict.fromkeys((*op.input, *op.output)))
    for blob in blobs:
        assert not blob_sizes or blob in blob_sizes, f"the size of blob '{blob}' isn't given"
    return {
        blob: LiveRange(defined.get(blob), used.get(blob), blob_sizes[blob] if blob_sizes else None)
        for blob in blobs
    }


def get_updated_ranges(ranges: Iterable[NamedRange], max_live: int | None = None) -> list[NamedRange]:
    """Ranges with numbers for what is unknown: -1 for given blobs, ``max_live`` for outputs, and size 1."""
    listed = list(ranges)
    if max_live is None:
        max_live = 1 + max(life.used for _, life in listed if life.used is not None)
    found = []
    for name, (defined, used, size) in listed:
        defined, used = -1 if defined is None else defined, max_live if used is None else used
        found.append((name, LiveRange(defined, used, 1 if size is None else size)))
    return found


def is_compatible(
    candidate_range: LiveRange, assignment: Sequence[NamedRange], static_blobs: Collection[str]
) -> bool:
    """Whether a blob may take over the memory of the last one of an assignment."""
    name, last = assignment[-1]
    if name in static_blobs or candidate_range.defined is None or None in (last.defined, last.used):
        return False
    return last.used is not None and candidate_range.defined > last.used


def compute_assignments_greedy(
    ranges_sorted: Iterable[NamedRange], init_assignments: Assignments | None = None
) -> Assignments:
    """Give each blob the free memory whose size is nearest to its own."""
    assignments = init_assignments or []
    known = {name for assignment in assignments for name, _ in assignment}
    for name, life in ranges_sorted:
        if name in known:
            continue
        free = [assignment for assignment in assignments if is_compatible(life, assignment, ())]
        if free:
            size = life.size or 0
            min(free, key=lambda assignment: abs(_size(assignment) - size)).append((name, life))
        else:
            assignments.append([(name, life)])
    return assignments


def compute_assignments_dp(
    ranges_sorted: Sequence[NamedRange], init_assignment: Assignments | None, counter: object = None
) -> Assignments:
    """The assignments that need the least memory of all.

    Blobs come by their last use. What matters of the assignments so far is when each becomes free and how
    large it is; of those that agree in this, one is looked at. There may be very many all the same.

    Args:
        ranges_sorted: Blobs with all numbers known, by their last use.
        init_assignment: Assignments to add to.
        counter: Without effect; the original counts its steps here.
    """
    start = [list(assignment) for assignment in init_assignment or []]
    states = {_state(start, None): start}
    for at, (name, life) in enumerate(ranges_sorted):
        rest = [later.defined for _, later in ranges_sorted[at + 1 :]]
        soonest = min((-1 if defined is None else defined for defined in rest), default=None)
        following: dict[tuple[tuple[float, int], ...], Assignments] = {}
        for assignments in states.values():
            places = [k for k, one in enumerate(assignments) if is_compatible(life, one, ())]
            for place in [*places, None]:
                extended = [*assignments]
                if place is None:
                    extended.append([(name, life)])
                else:
                    extended[place] = [*extended[place], (name, life)]
                following.setdefault(_state(extended, soonest), extended)
        states = following
    return min(states.values(), key=get_memory_usage)


def _state(assignments: Assignments, soonest: int | None) -> tuple[tuple[float, int], ...]:
    """When each assignment becomes free (if it isn't for all that come), and its size."""
    ends = [float("inf") if one[-1][1].used is None else float(one[-1][1].used) for one in assignments]
    free = -1.0 if soonest is None else float(soonest)
    states = ((-1.0 if end < free else end, _size(one)) for end, one in zip(ends, assignments, strict=True))
    return tuple(sorted(states))


def compute_assignments(
    ranges: Mapping[str, LiveRange], static_blobs: Collection[str], algo: AssignmentAlgorithm
) -> Assignments:
    """Assign blobs; those in ``static_blobs`` have their memory for themselves."""
    by_use = sorted(ranges.items(), key=lambda item: (item[1].used is None, item[1].used or 0))
    updated = get_updated_ranges(by_use)
    sharable = [item for item in updated if item[0] not in static_blobs]
    if algo is AssignmentAlgorithm.DYNAMIC_PROGRAMMING:
        found = compute_assignments_dp(sharable, [])
    else:
        found = compute_assignments_greedy(sharable, [])
    return found + [[item] for item in updated if item[0] in static_blobs]


def compute_blob_assignments(assignments: Iterable[Sequence[NamedRange]]) -> dict[str, str]:
    """For each blob that shares memory the name of all that share it, that of the last one."""
    return {
        name: assignment[-1][0] for assignment in assignments if len(assignment) > 1 for name, _ in assignment
    }


def get_memory_usage(assignments: Iterable[Sequence[NamedRange]]) -> int:
    """The sum of the sizes of the largest blobs of all assignments."""
    return sum(map(_size, assignments))


def verify_assignments(assignments: Iterable[Sequence[NamedRange]]) -> None:
    """Check that blobs that share memory don't live at the same time.

    Raises:
        AssertionError: Some do.
    """
    for assignment in assignments:
        for one, (name, later) in itertools.pairwise(assignment):
            assert is_compatible(later, [one], ()), f"'{one[0]}' is needed when '{name}' is there already"


def _size(assignment: Sequence[NamedRange]) -> int:
    return max((life.size or 0 for _, life in assignment), default=0)
