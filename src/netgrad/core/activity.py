"""Activity: which values a gradient has to reach, and which operators stand in its way."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from netgrad.core.errors import MissingRule
from netgrad.core.operator import Operator
from netgrad.core.registry import RuleSource
from netgrad.core.versions import NONE, Versions

_PATHS = 16  # how many operators of one message are shown with their path


def influenced(
    operators: Sequence[Operator], versions: Versions, rules: RuleSource, sources: Iterable[int]
) -> bytearray:
    """For each value, 1 if it is one of ``sources`` or they influence it differentiably, else 0."""
    active = bytearray(len(versions.blobs))
    for value in sources:
        active[value] = 1
    for index, op in enumerate(operators):
        reads = versions.reads[index]
        if any(value >= 0 and active[value] for value in reads):
            blocked = rules.blocked_inputs(op)
            if not blocked or any(
                value >= 0 and active[value] and k not in blocked for k, value in enumerate(reads)
            ):
                for value in versions.writes[index]:
                    if value >= 0:
                        active[value] = 1
    return active


def missing_rules(
    operators: Sequence[Operator],
    versions: Versions,
    rules: RuleSource,
    targets: Collection[int],
    active: bytearray | None,
) -> list[MissingRule]:
    """All operators between the differentiated values and ``targets`` that have no rule, in net order.

    Args:
        operators: The forward operators.
        versions: Their values.
        rules: The rules.
        targets: Values at which gradients start.
        active: What `influenced` says, or None if every value is to be differentiated.
    """
    onward = [NONE] * len(versions.blobs)  # the operator through which a value gets its gradient
    needed = bytearray(len(versions.blobs))
    for value in targets:
        needed[value] = 1
    found: list[tuple[int, str]] = []
    for index in range(len(operators) - 1, -1, -1):
        if not any(value >= 0 and needed[value] for value in versions.writes[index]):
            continue
        blocked = rules.blocked_inputs(operators[index])
        flows = [
            value
            for k, value in enumerate(versions.reads[index])
            if value >= 0 and k not in blocked and (active is None or active[value])
        ]
        reason = rules.missing(operators[index]) if flows else None
        if reason is not None:
            found.append((index, reason))
        for value in flows:
            needed[value] = 1
            onward[value] = index
    found.reverse()
    paths = _Paths(operators, versions, rules, onward, needed, active)
    return [
        MissingRule(operators[index], index, reason, paths.through(index) if k < _PATHS else ())
        for k, (index, reason) in enumerate(found)
    ]


class _Paths:
    """Paths through the net for messages; long ones are shown without their middle."""

    def __init__(
        self,
        operators: Sequence[Operator],
        versions: Versions,
        rules: RuleSource,
        onward: Sequence[int],
        needed: bytearray,
        active: bytearray | None,
    ) -> None:
        self._operators = operators
        self._versions = versions
        self._rules = rules
        self._onward = onward
        self._needed = needed
        self._active = active

    def through(self, index: int) -> tuple[str, ...]:
        """Blobs from where the derivative is taken, through operator ``index``, to a target."""
        value = next(v for v in self._versions.writes[index] if v >= 0 and self._needed[v])
        after = [value]
        while self._onward[value] != NONE:
            writes = self._versions.writes[self._onward[value]]
            value = next(v for v in writes if v >= 0 and self._needed[v])
            after.append(value)
        before: list[int] = []
        at = index
        while at != NONE:
            value = self._source(at)
            if value == NONE:
                break
            before.append(value)
            at = self._versions.producers[value]
        return _shortened([self._versions.blobs[v] for v in (*reversed(before), *after)])

    def _source(self, index: int) -> int:
        """An input of operator ``index`` that a gradient has to reach, NONE if there is none."""
        blocked = self._rules.blocked_inputs(self._operators[index])
        for k, value in enumerate(self._versions.reads[index]):
            if value >= 0 and k not in blocked and (self._active is None or self._active[value]):
                return value
        return NONE


def _shortened(names: list[str]) -> tuple[str, ...]:
    return tuple(names) if len(names) <= 9 else (*names[:4], "...", *names[-4:])
