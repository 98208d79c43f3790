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


class _Several:
    """The contributions of a value that has more than one, and what is still to be added.

    What is still to be added is in ``terms``: with the strategy ``sum`` everything. ``wide`` says whether the
    dense terms' sum is in a wider type by now.
    """

    __slots__ = ("folded", "gradients", "partial", "sources", "strategy", "terms", "wide")

    def __init__(self, strategy: str, gradient: GradientRef, source: int) -> None:
        self.strategy = strategy
        self.gradients = [gradient]
        self.sources = [source]
        self.terms = self.gradients if strategy == "sum" else [gradient]
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
        due: The operators that are the first readers of values with more than one contribution.
    """

    def __init__(
        self, versions: Versions, tape: Tape, vocabulary: Vocabulary, adder: Adder, strategy: Strategy
    ) -> None:
        self.totals: list[GradientRef | None] = [None] * (len(versions.blobs) + 1)
        self.order: list[int] = []
        self.folds = strategy in ("fused", "auto")
        self.due: set[int] = set()
        self._versions = versions
        self._tape = tape
        self._words = vocabulary
        self._adder = adder
        self._strategy = strategy
        self._sources = [_UNMET] * len(versions.blobs)  # where the first contribution came from
        self._several: dict[int, _Several] = {}
        self._settled: list[tuple[int, _Several]] = []

    def contribute(
        self, value: int, gradient: GradientRef, source: int, shared: Collection[GradientRef | None] = ()
    ) -> None:
        """Add ``gradient`` to what is known of the gradient of ``value``.

        Args:
            value: The value.
            gradient: Its partial gradient.
            source: The forward operator whose rule gives it, NONE for a start gradient.
            shared: Gradients that the operator gives to several values.
        """
        claims = self._tape.claims
        if isinstance(gradient, int):
            if gradient >= 0 and claims[gradient] == UNCLAIMED:
                claims[gradient] = value
        else:
            for ref in gradient:
                if ref >= 0 and claims[ref] == UNCLAIMED:
                    claims[ref] = value
        if self._sources[value] == _UNMET:
            self._sources[value] = source
            self.totals[value] = gradient
            self.order.append(value)
            return
        first = self.totals[value]
        if first is None:
            several = self._several[value]
        else:
            self.totals[value] = None
            several = self._several[value] = _Several(self._strategy_for(value), first, self._sources[value])
            self.due.add(self._versions.first_readers[value])
        several.gradients.append(gradient)
        several.sources.append(source)
        if several.strategy == "sum":
            return
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
        if several.wide or self._adder.sums_wide(value, len(several.gradients)):
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
        for value in values:
            if value in self._several and self._versions.first_readers[value] == reader:
                several = self._several.pop(value)
                terms = several.terms
                if several.wide:
                    total = terms[several.partial]
                    assert isinstance(total, int), "the partial sum is dense"
                    terms[several.partial] = self._adder.narrowed(total, value, reader)
                self.totals[value] = self._adder.total(terms, value, reader)
                self._settled.append((value, several))

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
        return tuple(self._record(value, several, names) for value, several in self._settled)

    def _record(self, value: int, several: _Several, names: Names) -> Accumulation:
        total = self.total(value)
        return Accumulation(
            self._versions.blobs[value],
            self._versions.number(value),
            tuple(
                Contribution(names.of(gradient), None if source == NONE else source)
                for gradient, source in zip(several.gradients, several.sources, strict=True)
            ),
            "running" if several.strategy == "fused" and not several.folded else several.strategy,
            self._tape.device_of(total if isinstance(total, int) else total[1]),
            names.of(total),
        )

    def _strategy_for(self, value: int) -> str:
        if self._strategy != "auto":
            return self._strategy
        size = self._words.size_in_bytes(self._versions.blobs[value])
        return "sum" if size is None or size < LARGE else "fused"
