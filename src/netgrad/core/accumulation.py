"""Accumulation: the gradient of a value is the sum of what its readers contribute.

The accumulator has two verbs. `Accumulator.contribute` takes the gradient that one reader (or a start
gradient) gives for a value; `Accumulator.settle`, called at the value's first reader, which the reverse
sweep visits last, adds up what came. The order of contributions is that of the sweep: start gradients, then
the last reader first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from netgrad.core.addition import Adder
from netgrad.core.naming import Names
from netgrad.core.operator import Gradient
from netgrad.core.tape import UNCLAIMED, GradientRef, Tape
from netgrad.core.versions import NONE, Versions
from netgrad.core.vocabulary import Vocabulary

Strategy: TypeAlias = Literal["sum", "running", "fused", "auto"]

_UNMET = -2

LARGE = 1 << 20
"""Bytes from which on ``auto`` doesn't keep all partial gradients of a value until the last has come."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """One partial gradient of a value.

    Attributes:
        gradient: The blob or slice that held it.
        operator: Index of the forward operator whose rule gave it, None for a start gradient.
    """

    gradient: Gradient
    operator: int | None


@dataclass(frozen=True, slots=True)
class Accumulation:
    """A value whose gradient was added up from several contributions.

    Attributes:
        blob: Name of the blob.
        version: Its version.
        contributions: What was added, in order.
        strategy: How: ``"sum"``, ``"running"``, or ``"fused"`` if an operator took an addition over.
        device: Where the sum was computed.
        gradient: The sum.
    """

    blob: str
    version: int
    contributions: tuple[Contribution, ...]
    strategy: str
    device: Any
    gradient: Gradient


class _Running:
    """What is still to be added for a value whose contributions are added as they come.

    ``wide`` says whether the dense terms' sum is in a wider type by now.
    """

    __slots__ = ("folded", "partial", "strategy", "terms", "wide")

    def __init__(self, strategy: str, gradient: GradientRef) -> None:
        self.strategy = strategy
        self.terms = [gradient]
        self.partial = 0 if isinstance(gradient, int) else NONE  # position of the dense terms' sum so far
        self.folded = False
        self.wide = False


class Accumulator:
    """Collects the gradients of values, and has them added.

    Attributes:
        totals: Value to gradient, None where there is none or where contributions still come. There is one
            None more than there are values, so that NONE has no gradient.
        folds: Whether an addition may become part of the operator that computes a contribution.
        order: The values that have a gradient, in the order in which the sweep met them.
        due: For each operator 1 if it is the first reader of a value with more than one contribution, else 0.
    """

    def __init__(
        self, versions: Versions, tape: Tape, vocabulary: Vocabulary, adder: Adder, strategy: Strategy
    ) -> None:
        self.totals: list[GradientRef | None] = [None] * (len(versions.blobs) + 1)
        self.order: list[int] = []
        self.folds = strategy in ("fused", "auto")
        self.due = bytearray(len(versions.reads))
        self._versions = versions
        self._tape = tape
        self._words = vocabulary
        self._adder = adder
        self._strategy = strategy
        self._sources = [_UNMET] * len(versions.blobs)  # where the first contribution came from
        # Of values with more than one contribution all of these, a gradient and its source in turn.
        self._several: dict[int, list[Any]] = {}
        self._running: dict[int, _Running] = {}
        self._settled: list[int] = []

    def contribute(
        self,
        values: Iterable[int],
        gradients: Iterable[GradientRef | None],
        source: int,
        shared: Collection[GradientRef | None] = (),
    ) -> None:
        """Add gradients to what is known of the gradients of values.

        Args:
            values: The values.
            gradients: As many: for each of them its partial gradient, or None if it gets none.
            source: The forward operator whose rule gives them, NONE for start gradients.
            shared: Gradients that the operator gives to several values.
        """
        claims, sources, totals = self._tape.claims, self._sources, self.totals
        for value, gradient in zip(values, gradients):  # noqa: B905 (a check would take as long as the zip)
            if gradient is None:
                continue
            if isinstance(gradient, int):
                if gradient >= 0 and claims[gradient] == UNCLAIMED:
                    claims[gradient] = value
            else:
                for ref in gradient:
                    if ref >= 0 and claims[ref] == UNCLAIMED:
                        claims[ref] = value
            if sources[value] == _UNMET:
                sources[value] = source
                totals[value] = gradient
                self.order.append(value)
                continue
            first = totals[value]
            if first is None:
                several = self._several[value]
                several += (gradient, source)
                if several[-3] == source:
                    self._order(several, value)
            else:
                totals[value] = None
                several = self._several[value] = [first, sources[value], gradient, source]
                if sources[value] == source:
                    self._order(several, value)
                self.due[self._versions.first_readers[value]] = 1
                if self._strategy != "sum":
                    strategy = self._strategy_for(value)
                    if strategy != "sum":
                        self._running[value] = _Running(strategy, first)
            if value in self._running:
                self._add(value, gradient, source, shared)

    def _order(self, several: list[Any], value: int) -> None:
        """Put the last contribution in its place among those of the same operator.

        An operator that reads a blob several times gives what its gradient operators computed in the order in
        which they write it, dense gradients first, and then what it passes through.
        """
        claims, source = self._tape.claims, several[-1]

        def place(gradient: GradientRef) -> tuple[int, int]:
            if isinstance(gradient, tuple):
                return 1, 0
            return (0, gradient) if gradient >= 0 and claims[gradient] == value else (2, 0)

        at = len(several) - 2
        while at >= 2 and several[at - 1] == source and place(several[at - 2]) > place(several[at]):
            several[at - 2], several[at] = several[at], several[at - 2]
            at -= 2

    def _add(
        self, value: int, gradient: GradientRef, source: int, shared: Collection[GradientRef | None]
    ) -> None:
        """Add a further contribution now, if it is dense and not the first dense one."""
        several = self._running[value]
        terms, partial = several.terms, several.partial
        if isinstance(gradient, tuple):
            terms.append(gradient)
            return
        if partial == NONE:
            several.partial = len(terms)
            terms.append(gradient)
            return
        before = terms[partial]
        assert isinstance(before, int), "the partial sum is dense"
        fusing = several.strategy == "fused" and gradient not in shared
        if several.wide or self._adder.sums_wide(value, len(self._several[value]) // 2):
            if not several.wide:
                before = self._adder.widened(before, value, source)
            several.wide = True
            wide = self._adder.widened(gradient, value, source)
            terms[partial] = self._adder.sum([before, wide], value, source)
        elif fusing and self._adder.fold(before, gradient, value):
            terms[partial] = gradient
            several.folded = True
        else:
            terms[partial] = self._adder.sum([before, gradient], value, source)

    def settle(self, values: Iterable[int], reader: int) -> None:
        """Add up what came for each of ``values``, whose first reader is ``reader``."""
        all_several, totals, first_readers = self._several, self.totals, self._versions.first_readers
        for value in values:
            if value in all_several and totals[value] is None and first_readers[value] == reader:
                several = all_several[value]
                terms = self._rest(value, reader) if value in self._running else several[::2]
                totals[value] = self._adder.total(terms, value, reader, several[1])
                self._settled.append(value)

    def _rest(self, value: int, reader: int) -> list[GradientRef]:
        """What is still to be added of contributions that were added as they came."""
        several = self._running[value]
        terms = several.terms
        if several.wide:
            total = terms[several.partial]
            assert isinstance(total, int), "the partial sum is dense"
            terms[several.partial] = self._adder.narrowed(total, value, reader)
        return terms

    def total(self, value: int) -> GradientRef:
        """The complete gradient of a value that has one."""
        total = self.totals[value]
        assert total is not None, "all contributions have come"
        return total

    def give_own(self, value: int) -> None:
        """Copy the gradient of ``value`` to a blob of its own."""
        total = self.total(value)
        wish = f"{self._versions.blobs[value]}_grad"
        origin = self._versions.first_readers[value]
        values = total if isinstance(total, int) else total[1]  # nobody updates the indices of a slice
        copy = self._adder.copied(values, wish, self._versions.device_of(value), origin)
        self._tape.claims[copy] = value
        self.totals[value] = copy if isinstance(total, int) else (total[0], copy)

    def records(self, names: Names) -> tuple[Accumulation, ...]:
        """What was accumulated, in the order of the sums."""
        return tuple(self._record(value, names) for value in self._settled)

    def _record(self, value: int, names: Names) -> Accumulation:
        total = self.total(value)
        several = self._several[value]
        running = self._running.get(value)
        strategy = "sum" if running is None else running.strategy
        return Accumulation(
            self._versions.blobs[value],
            self._versions.number(value),
            tuple(
                Contribution(names.of(gradient), None if source == NONE else source)
                for gradient, source in zip(several[::2], several[1::2], strict=True)
            ),
            "running" if running is not None and strategy == "fused" and not running.folded else strategy,
            self._tape.device_of(total if isinstance(total, int) else total[1]),
            names.of(total),
        )

    def _strategy_for(self, value: int) -> str:
        if self._strategy != "auto":
            return self._strategy
        size = self._words.size_in_bytes(self._versions.blobs[value])
        return "sum" if size is None or size < LARGE else "fused"
