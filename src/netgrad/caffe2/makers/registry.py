"""The registry of Caffe2's gradient makers, as a rule source for the core.

A maker is one line of `netgrad.caffe2.makers.notation`, or a function of the operator that returns one.
Makers written in Python by users take and return messages, as in the original, and come second: an operator
type that has a maker here never gets the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from netgrad.caffe2.makers.notation import Line, Maker, Refusal, written
from netgrad.core import Gradient, InvalidArgumentError, Operator
from netgrad.core.registry import RuleResult


@dataclass(frozen=True, slots=True)
class Entry:
    """How the gradient of one operator type is made.

    Attributes:
        maker: The line, or the function that gives it; None if there is none.
        reason: Why there is none; None with a maker, or where gradients silently end.
        blocked: Positions of inputs that never get a gradient.
        partial: Whether the maker does with some output gradients absent.
        sparse: Whether the maker takes sparse output gradients.
        value_keeping: Whether the first output has the value of the first input.
    """

    maker: Maker | str | None
    reason: str | None = None
    blocked: Collection[int] | None = frozenset()
    partial: bool = False
    sparse: bool = False
    value_keeping: bool = False


ENTRIES: dict[str, Entry] = {}


def _add(type_: str, entry: Entry) -> None:
    if type_ in ENTRIES:
        raise InvalidArgumentError(f"there are two gradient makers for {type_}")
    ENTRIES[type_] = entry


def lines(table: dict[str, str], *, blocked: Collection[int] = ()) -> None:
    """Register makers that are one line each.

    Args:
        table: Operator type to line.
        blocked: Positions of inputs that never get a gradient, for all of them.
    """
    for type_, line in table.items():
        _add(type_, Entry(line, blocked=frozenset(blocked)))


def maker(
    *types: str,
    blocked: Collection[int] = (),
    partial: bool = False,
    sparse: bool = False,
    value_keeping: bool = False,
) -> Callable[[Maker], Maker]:
    """Register a function that gives the line for an operator of one of ``types``."""

    def register(function: Maker) -> Maker:
        for type_ in types:
            _add(type_, Entry(function, None, frozenset(blocked), partial, sparse, value_keeping))
        return function

    return register


def no_gradient(*types: str) -> None:
    """Types at which a gradient silently ends."""
    for type_ in types:
        _add(type_, Entry(None, blocked=None, partial=True, sparse=True))


def should_not_do_gradient(*types: str) -> None:
    """Types that no gradient may reach."""
    for type_ in types:
        _add(type_, Entry(None, "gradient forbidden: should not do gradient"))


def not_implemented(*types: str) -> None:
    """Types that have a derivative for which the original has no gradient operator."""
    for type_ in types:
        _add(type_, Entry(None, "gradient not implemented yet"))


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
        """Positions of inputs through which no gradient ever flows."""
        entry = ENTRIES.get(op.type)
        if entry is None:
            return ()
        return range(len(op.inputs)) if entry.blocked is None else entry.blocked

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
        found: Any = ENTRIES[op.type].maker
        code = getattr(found, "__code__", None)
        return f"{code.co_filename}:{code.co_firstlineno}" if code else f"the line {found!r}"

    def gradient(self, op: Operator, grads: Sequence[Gradient | None], wanted: Sequence[bool]) -> RuleResult:
        """What the maker of ``op`` writes.

        Raises:
            Refusal: The maker can't differentiate the operator as it stands.
        """
        found = ENTRIES[op.type].maker
        if found is None:
            raise Refusal(f"{op.type} has no maker")
        line = found if isinstance(found, str) else found(op)
        return written(op, grads, Line(line) if isinstance(line, str) else line)
