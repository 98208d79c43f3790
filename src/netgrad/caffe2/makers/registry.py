"""The registry of Caffe2's gradient makers, as a rule source for the core.

A maker is one line of `netgrad.caffe2.makers.notation`, or a function of the operator that returns one.
Makers written in Python by users take and return messages, as in the original, and come second: an operator
type that has a maker here never gets the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from netgrad.caffe2.makers.in_place import forbidden
from netgrad.caffe2.makers.notation import Line, Maker, Refusal, reached_inputs, uses_gradient, written
from netgrad.caffe2.schemas import schema_problem
from netgrad.core import Gradient, InvalidArgumentError, Operator
from netgrad.core.registry import RuleResult, with_occurrences

NetMaker: TypeAlias = "Callable[[Operator, Sequence[Gradient | None], Makers], RuleResult]"


@dataclass(frozen=True, slots=True)
class Entry:
    """How the gradient of one operator type is made.

    Attributes:
        maker: The line, or the function that gives it; None if there is none.
        reason: Why there is none; None with a maker, or where gradients silently end.
        silent: Whether gradients end here without a word.
        partial: Whether the maker does with some output gradients absent.
        sparse: Whether the maker takes sparse output gradients.
        value_keeping: Whether the first output has the value of the first input.
        counts: Positions of outputs that have no derivative: indices, sizes, masks.
        nets: In place of a line, for operators that hold nets: a function of the operator, its output
            gradients and the rule source for the nets, which gives what a rule of the core gives.
    """

    maker: Maker | str | None
    reason: str | None = None
    silent: bool = False
    partial: bool = False
    sparse: bool = False
    value_keeping: bool = False
    counts: Collection[int] = ()
    nets: NetMaker | None = None


ENTRIES: dict[str, Entry] = {}


def _add(type_: str, entry: Entry) -> None:
    if type_ in ENTRIES:
        raise InvalidArgumentError(f"there are two gradient makers for {type_}")
    ENTRIES[type_] = entry


def lines(table: dict[str, str]) -> None:
    """Register makers that are one line each, by operator type."""
    for type_, line in table.items():
        _add(type_, Entry(line))


def maker(
    *types: str,
    partial: bool = False,
    sparse: bool = False,
    value_keeping: bool = False,
    counts: Collection[int] = (),
) -> Callable[[Maker], Maker]:
    """Register a function that gives the line for an operator of one of ``types``."""

    def register(function: Maker) -> Maker:
        for type_ in types:
            _add(type_, Entry(function, None, False, partial, sparse, value_keeping, counts))
        return function

    return register


def net_maker(type_: str) -> Callable[[NetMaker], NetMaker]:
    """Register a function that differentiates the nets that operators of a type hold."""

    def register(function: NetMaker) -> NetMaker:
        _add(type_, Entry(None, partial=True, nets=function))
        return function

    return register


def no_gradient(*types: str) -> None:
    """Types at which a gradient silently ends."""
    for type_ in types:
        _add(type_, Entry(None, silent=True, partial=True, sparse=True))


def should_not_do_gradient(*types: str) -> None:
    """Types that no gradient may reach."""
    for type_ in types:
        _add(type_, Entry(None, "gradient forbidden: should not do gradient"))


def not_implemented(*types: str) -> None:
    """Types that have a derivative for which the original has no gradient operator."""
    for type_ in types:
        _add(type_, Entry(None, "gradient not implemented yet"))


def ends_gradients(type_: str) -> bool:
    """Whether a gradient silently ends at operators of a type."""
    return type_ in ENTRIES and ENTRIES[type_].silent


class Makers:
    """All makers as the sweep asks for them.

    Attributes:
        asked_always: See `netgrad.core.registry.SpecialOperators`.
        must_be_read: The same.
        value_keeping: The same.
    """

    asked_always: Collection[tuple[str, str]] = frozenset({("", "ZeroGradient")})
    must_be_read: Collection[tuple[str, str]] = frozenset({("", "StopGradient")})

    def __init__(self) -> None:
        self.value_keeping: Collection[tuple[str, str]] = {
            ("", type_) for type_, entry in ENTRIES.items() if entry.value_keeping
        } | {("", "StopGradient")}

    def missing(self, op: Operator) -> str | None:
        """None if there is a maker for ``op``, else the reason why there is none."""
        entry = ENTRIES.get(op.type)
        return "no gradient maker" if entry is None else entry.reason

    def blocked_inputs(self, op: Operator) -> Collection[int]:
        """Positions of inputs for which the maker never gives a gradient."""
        entry = ENTRIES.get(op.type)
        if entry is None or entry.reason is not None:
            return ()
        if entry.nets is not None:
            return ()
        if entry.silent:
            return range(len(op.inputs))
        try:
            reached = reached_inputs(_line(entry, op, list(op.outputs)))
        except Refusal:
            return ()
        return () if reached is None else [at for at in range(len(op.inputs)) if at not in reached]

    def needs_all_output_gradients(self, op: Operator) -> bool:
        """Whether the maker is given zeros for outputs without a gradient."""
        entry = ENTRIES.get(op.type)
        return entry is not None and not entry.partial

    def needs_dense_gradients(self, op: Operator) -> bool:
        """Whether sparse output gradients are made dense for the maker."""
        entry = ENTRIES.get(op.type)
        return entry is not None and not entry.sparse

    def location(self, op: Operator) -> str:
        """Where the maker of ``op`` is written."""
        found: Any = ENTRIES[op.type].nets or ENTRIES[op.type].maker
        code = getattr(found, "__code__", None)
        return f"{code.co_filename}:{code.co_firstlineno}" if code else f"the line {found!r}"

    def gradient(self, op: Operator, grads: Sequence[Gradient | None], wanted: Sequence[bool]) -> RuleResult:
        """What the maker of ``op`` writes.

        Raises:
            Refusal: The maker can't differentiate the operator as it stands.
        """
        if ENTRIES[op.type].silent:
            return [], [None] * len(op.inputs)
        problem = schema_problem(op.type, op.inputs, op.outputs)
        if problem is not None:
            raise Refusal(f"Operator def did not pass schema checking: {problem}")
        nets = ENTRIES[op.type].nets
        if nets is not None:
            return nets(op, grads, self)
        _check_in_place(op)
        op = with_occurrences(op)
        line = _line(ENTRIES[op.type], op, grads)
        counts = ENTRIES[op.type].counts
        lost = [
            at
            for at, grad in enumerate(grads)
            if grad is not None and at not in counts and not uses_gradient(line, at)
        ]
        if lost:
            raise Refusal(f"the gradient of output '{op.outputs[lost[0]]}' would be lost")
        return written(op, grads, line)


def _check_in_place(op: Operator) -> None:
    pair = forbidden(op.type, op.inputs, op.outputs)
    if pair is not None:
        raise Refusal(
            f"the schema of {op.type} does not allow that output {pair[1]} has the name of input {pair[0]}, "
            f"'{op.inputs[pair[0]]}': did not pass schema checking"
        )


def _line(entry: Entry, op: Operator, grads: Sequence[Gradient | None]) -> Line:
    found = entry.maker
    assert found is not None, "asked before"
    line = found if isinstance(found, str) else found(op, grads)
    return Line(line) if isinstance(line, str) else line
