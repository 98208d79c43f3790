"""Forward values that a later operator overwrites before the backward pass reads them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from netgrad.core.errors import OverwrittenBlobError
from netgrad.core.naming import Names
from netgrad.core.operator import Operator
from netgrad.core.tape import Ref, Tape
from netgrad.core.versions import NONE, Versions
from netgrad.core.vocabulary import Vocabulary

_HISTORY = 8  # writes of a blob that a message lists


class Keeper:
    """Refuses to read overwritten values, or keeps them by a copy just before they are overwritten.

    A copy rather than another name for the value itself: the forward net stays as it is for everybody who
    reads its blobs while it runs, and operators that only work in place go on doing so.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        versions: Versions,
        vocabulary: Vocabulary,
        value_keeping: Collection[tuple[str, str]],
        names: Names,
        *,
        keep: bool,
    ) -> None:
        self._operators = operators
        self._versions = versions
        self._words = vocabulary
        self._value_keeping = value_keeping
        self._names = names
        self._keep = keep
        self._kept: dict[int, Ref] = {}
        self._copies: dict[int, list[Operator]] = {}

    def forward(self, value: int, reader: int, tape: Tape) -> Ref:
        """What holds the overwritten ``value`` when the gradient operators of ``reader`` run.

        Raises:
            OverwrittenBlobError: Nothing does.
        """
        value = self._newest_equal(value)
        if value not in self._versions.following:
            return ~value
        writer = self._versions.producers[self._versions.following[value]]
        if not self._keep or writer == self._versions.producers[value]:  # nothing comes between two outputs
            raise self._overwritten(value, reader)
        if value not in self._kept:
            blob = self._versions.blobs[value]
            device = self._versions.device_of(value)
            name = self._names.fresh(f"{blob}_kept")
            cell = tape.external(name, device)
            copies = self._words.copy(blob, name, device)
            self._copies.setdefault(writer, []).extend(copies)
            self._kept[value] = cell
        return self._kept[value]

    def _newest_equal(self, value: int) -> int:
        """The newest version of the blob that has the same value as ``value``."""
        versions = self._versions
        while value in versions.following:
            writer = versions.producers[versions.following[value]]
            op = self._operators[writer]
            if (op.domain, op.type) not in self._value_keeping or (
                versions.reads[writer][:1] != (value,)
                or versions.writes[writer][0] != versions.following[value]
            ):
                break
            value = versions.following[value]
        return value

    def changed_forward(self) -> tuple[Operator, ...]:
        """The forward operators with the copies between them."""
        if not self._copies:
            return tuple(self._operators)
        changed: list[Operator] = []
        for index, op in enumerate(self._operators):
            changed.extend(self._copies.get(index, ()))
            changed.append(op)
        return tuple(changed)

    def _overwritten(self, value: int, reader: int) -> OverwrittenBlobError:
        versions = self._versions
        blob = versions.blobs[value]
        last = versions.last[blob]
        history: list[str] = []
        at = value
        while at != NONE and len(history) < _HISTORY:
            if versions.producers[at] != NONE:
                history.append(
                    f"version {versions.number(at)} is written by {self._operators[versions.producers[at]]}"
                )
            at = versions.following.get(at, NONE)
        return OverwrittenBlobError(
            blob,
            versions.number(value),
            versions.number(last),
            self._operators[reader],
            self._operators[versions.producers[versions.following[value]]],
            history,
            kept=self._keep,
        )
