"""Sums of sequences of which some are zeros but for one tensor.

That is what the gradient of SequenceAt is, and a loop that reads a list adds one of them in every iteration.
Adding to the one tensor takes no arithmetic on the others, which are not even copied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from netgrad.core.operator import Operator
from netgrad.onnx.body import bodies
from netgrad.onnx.names import NameAuthority
from netgrad.onnx.sequences import CAST, SUM, ZEROS

_TERMS = 3  # a sum reads its length, a condition and an empty sequence before its terms


def add_to_single_tensors(
    operators: Sequence[Operator], results: Collection[str], taken: Iterable[str]
) -> list[tuple[Operator, int]]:
    """The operators with short forms of such sums.

    What only a long form needed stays in the list, unread.

    Args:
        operators: Operators in order, each name written once.
        results: Names that somebody reads besides the operators.
        taken: Names besides theirs that are not free.

    Returns:
        The operators, each with the index of the one that it stands for.
    """
    if not any(_has_purpose(op, SUM) for op in operators):
        return [(op, index) for index, op in enumerate(operators)]
    names = NameAuthority([*taken, *(name for op in operators for name in op.outputs)])
    search = _Search(operators, results)
    written: list[tuple[Operator, int]] = []
    for index, op in enumerate(operators):
        dense, single = search.terms(op)
        if not single or len(dense) > 1 or not (dense or single[0].sequence):
            written.append((op, index))
            continue
        total, added = (dense[0], single) if dense else (single[0].sequence, single[1:])
        for number, one in enumerate(added, 1):
            last = number == len(added)
            out = op.outputs[0] if last else names.unique(f"{op.outputs[0]}/{number}")
            written += [(part, index) for part in _addition(total, one, out, names)]
            total = out
    return written


@dataclass(frozen=True)
class _Single:
    """A sequence of zeros but for one tensor: its name, where that is, and the tensor.

    ``to`` is the element type that the tensor is still to be cast to, if any; there is no such sequence then.
    """

    sequence: str
    place: str
    tensor: str
    to: int | None = None


class _Search:
    """Finds out what the terms of sums are; it is shown the operators in their order."""

    def __init__(self, operators: Sequence[Operator], results: Collection[str]) -> None:
        self._results = frozenset(results)
        self._writers = {name: op for op in operators for name in op.outputs if name}
        self._readers: dict[str, list[Operator]] = {}
        self._singles: dict[str, list[_Single]] = {}  # of sequences that are sums of such, or one
        for op in operators:
            for name in op.inputs:
                self._readers.setdefault(name, []).append(op)

    def terms(self, op: Operator) -> tuple[list[str], list[_Single]]:
        """The terms of a sum that are any sequences, and the others; none of either for another operator."""
        if op.type == "SequenceInsert":
            self._look_at(op)
        if _has_purpose(op, CAST):
            self._look_at_cast(op)
        if not _has_purpose(op, SUM):
            return [], []
        dense: list[str] = []
        single: list[_Single] = []
        for name in op.inputs[_TERMS:]:
            if name in self._singles and self._is_only_read_by(name, op):
                single += self._singles[name]
            else:
                dense.append(name)
        if not dense:
            self._singles[op.outputs[0]] = single
        return dense, single

    def _look_at_cast(self, op: Operator) -> None:
        """Note a cast of what was noted: the tensors can be cast instead, by themselves."""
        name, empty = op.inputs[_TERMS], self._writers.get(op.inputs[_TERMS - 1])
        if empty is not None and name in self._singles and self._is_only_read_by(name, op):
            to = int(empty.attributes["dtype"])
            self._singles[op.outputs[0]] = [replace(one, sequence="", to=to) for one in self._singles[name]]

    def _is_only_read_by(self, name: str, reader: Operator) -> bool:
        others = (op for op in self._readers[name] if op is not reader and op.type != "SequenceLength")
        return name not in self._results and next(others, None) is None

    def _look_at(self, insert: Operator) -> None:
        """Note a tensor that is put among zeros, see `netgrad.onnx.sequences.replaced`."""
        rest, tensor, *places = insert.inputs
        erase = self._writers.get(rest)
        if not places or erase is None or erase.type != "SequenceErase" or list(erase.inputs[1:]) != places:
            return
        zeros = self._writers.get(erase.inputs[0])
        if zeros is not None and _has_purpose(zeros, ZEROS):
            self._singles[insert.outputs[0]] = [_Single(insert.outputs[0], places[0], tensor)]


def _has_purpose(op: Operator, purpose: str) -> bool:
    return op.type == "Loop" and any(body.purpose == purpose for body in bodies(op))


def _addition(total: str, one: _Single, out: str, names: NameAuthority) -> list[Operator]:
    """``out`` = ``total`` with ``one``'s tensor added to its own at that place."""
    old, new, rest, wide = (names.unique(f"{out}/{what}") for what in ("old", "new", "rest", "wide"))
    tensor = one.tensor if one.to is None else wide
    casts = [] if one.to is None else [Operator("Cast", (one.tensor,), (wide,), {"to": one.to})]
    return [
        *casts,
        Operator("SequenceAt", (total, one.place), (old,)),
        Operator("Add", (old, tensor), (new,)),
        Operator("SequenceErase", (total, one.place), (rest,)),
        Operator("SequenceInsert", (rest, new, one.place), (out,)),
    ]
