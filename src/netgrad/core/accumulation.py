"""Accumulation: the gradient of a value is the sum of what its readers contribute.

The accumulator has two verbs. `Accumulator.contribute` takes the gradient that one reader (or a start
gradient) gives for a value; `Accumulator.settle`, called at the value's first reader, which the reverse
sweep visits last, adds up what came. The order of contributions is that of the sweep: start gradients, then
the last reader first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from netgrad.core.errors import AccumulationError
from netgrad.core.naming import GradientRef, Ref, Tape
from netgrad.core.operator import Gradient, GradientSlice, Operator
from netgrad.core.versions import NONE, Versions
from netgrad.core.vocabulary import DeviceVocabulary, SparseVocabulary, Vocabulary

Strategy: TypeAlias = Literal["sum", "running", "fused", "auto"]

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
    """The contributions of a value that has more than one: all of them, and what is still to be added."""

    __slots__ = ("base", "device", "folded", "history", "renamed", "strategy", "terms")

    def __init__(self, strategy: str) -> None:
        self.history: list[tuple[GradientRef, int]] = []
        self.terms: list[tuple[GradientRef, Any]] = []  # with its device
        self.strategy = strategy
        self.folded = False
        self.base: str | None = None  # name of the first computed contribution; the sum gets it
        self.renamed = 0
        self.device: Any = None


class Accumulator:
    """Collects the gradients of values, and writes the operators that add them.

    Attributes:
        totals: Value to gradient, for values with one contribution and for settled ones.
        settled: The values that had several contributions, in the order in which they were settled.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        versions: Versions,
        tape: Tape,
        vocabulary: Vocabulary,
        strategy: Strategy,
        unique_names: bool,
    ) -> None:
        self.totals: dict[int, GradientRef] = {}
        self.settled: list[tuple[int, _Several]] = []
        self._operators = operators
        self._versions = versions
        self._tape = tape
        self._words = vocabulary
        self._strategy = strategy
        self._unique_names = unique_names
        self._sources: dict[int, int] = {}
        self._several: dict[int, _Several] = {}

    def contribute(self, value: int, gradient: GradientRef, source: int, sole: bool = True) -> None:
        """Add ``gradient`` to what is known of the gradient of ``value``.

        Args:
            value: The value.
            gradient: Its partial gradient.
            source: The forward operator whose rule gives it, NONE for a start gradient.
            sole: Whether no other value gets the same gradient from this operator.
        """
        if value not in self._sources:
            self._sources[value] = source
            self.totals[value] = gradient
            for ref in (gradient,) if isinstance(gradient, int) else gradient:
                self._tape.claim(ref, value)
            return
        several = self._several.get(value)
        if several is None:
            several = self._several[value] = _Several(self._strategy_for(value))
            self._take(several, value, self.totals.pop(value), self._sources[value], sole=False)
        for ref in (gradient,) if isinstance(gradient, int) else gradient:
            self._tape.claim(ref, value)
        self._take(several, value, gradient, source, sole)

    def settle(self, values: Iterable[int], reader: int) -> None:
        """Add up what came for each of ``values``, whose first reader is ``reader``."""
        if not self._several:
            return
        for value in values:
            if self._versions.first_readers[value] == reader and value in self._several:
                several = self._several.pop(value)
                self._reduce(several, value, reader)
                self.totals[value] = several.terms[0][0]
                self.settled.append((value, several))

    def order(self) -> Iterable[int]:
        """The values that have a gradient, in the order in which the sweep met them."""
        return self._sources

    def own_copy(self, value: int, ref: Ref) -> Ref:
        """A copy of ``ref`` for ``value`` alone."""
        wish = f"{self._versions.blobs[value]}_grad"
        copy = self._copied(ref, wish, self.device_of_value(value), self._versions.first_readers[value])
        self._tape.claims[copy] = value
        return copy

    def records(self) -> tuple[Accumulation, ...]:
        """What was accumulated, with final names."""
        final = self._tape.final
        return tuple(
            Accumulation(
                self._versions.blobs[value],
                self._versions.numbers[value],
                tuple(
                    Contribution(final(gradient), None if source == NONE else source)
                    for gradient, source in several.history
                ),
                "running" if several.strategy == "fused" and not several.folded else several.strategy,
                several.device,
                final(self.totals[value]),
            )
            for value, several in self.settled
        )

    # ---- contributions ------------------------------------------------------------------------------

    def _strategy_for(self, value: int) -> str:
        if self._strategy != "auto":
            return self._strategy
        size = self._words.size_in_bytes(self._versions.blobs[value])
        return "sum" if size is None or size < LARGE else "fused"

    def _take(self, several: _Several, value: int, gradient: GradientRef, source: int, sole: bool) -> None:
        several.history.append((gradient, source))
        device = self._device_of(gradient, value, source)
        if several.base is None:
            several.base = self._base(gradient, value)
        partial = next((k for k, term in enumerate(several.terms) if isinstance(term[0], int)), NONE)
        if several.strategy != "sum" and isinstance(gradient, int) and partial != NONE:
            previous, previous_device = several.terms[partial]
            assert isinstance(previous, int), "the partial sum is dense"
            same = self._same_device(previous_device, device)
            if (
                several.strategy == "fused"
                and sole
                and same
                and self._fold(several, value, previous, gradient)
            ):
                several.terms[partial] = (gradient, device)
                return
            waiting = several.terms
            several.terms = [waiting[partial], (gradient, device)]
            self._sum(several, value, source)
            waiting[partial] = several.terms[0]
            several.terms = waiting
            return
        several.terms.append((gradient, device))

    def _base(self, gradient: GradientRef, value: int) -> str | None:
        """The name that the sum of the contributions gets if ``gradient`` is the first computed one."""
        tape = self._tape
        if isinstance(gradient, int):
            return tape.wishes[gradient] if tape.is_cell_of(gradient, value) else None
        for ref, ending in zip(gradient, ("_indices", "_values"), strict=True):
            if tape.is_cell_of(ref, value):
                return tape.wishes[ref].removesuffix(ending)
        return None

    def _fold(self, several: _Several, value: int, partial: Ref, cell: Ref) -> bool:
        """Let the operator that computes ``cell`` add ``partial`` itself, if it can."""
        tape = self._tape
        if not tape.is_cell_of(cell, value) or tape.last_reads[cell] != 2 * tape.writers[cell] + 1:
            return False
        position = tape.writers[cell]
        name = tape.reference(partial)
        folded = self._words.fold(tape.operators[position], tape.writes[position].index(cell), name)
        if folded is None:
            return False
        if self._unique_names and tape.is_cell_of(partial, value):
            self._rename(several, partial)
        tape.replace(position, folded, partial)
        several.folded = True
        return True

    # ---- addition -----------------------------------------------------------------------------------

    def _reduce(self, several: _Several, value: int, reader: int) -> None:
        """Bring the terms down to one: slices are joined, then made dense if they meet dense terms."""
        slices = [k for k, (gradient, _) in enumerate(several.terms) if not isinstance(gradient, int)]
        if slices:
            joined = self._join([several.terms[k] for k in slices], several, value, reader)
            mixed = len(slices) < len(several.terms)
            if mixed:
                joined = self._densify(joined, several, value, reader)
            several.terms = [
                joined if k == slices[0] else term
                for k, term in enumerate(several.terms)
                if k == slices[0] or k not in slices
            ]
        if len(several.terms) > 1:
            self._sum(several, value, reader)
        several.device = several.terms[0][1]

    def _sum(self, several: _Several, value: int, origin: int) -> None:
        """Replace the terms, all dense, by their sum."""
        tape = self._tape
        terms = self._on_one_device(several, value, origin)
        base = several.base or f"{self._versions.blobs[value]}_grad"
        own = [k for k, ref in enumerate(terms) if tape.is_cell_of(ref, value) and ref not in terms[:k]]
        # The first computed term keeps its name, so that the sum can be stored where it is.
        for k in own if self._unique_names else own[1:]:
            self._rename(several, terms[k])
        if own:
            # A sum may work in place on its first operand only.
            terms[0], terms[own[0]] = terms[own[0]], terms[0]
        device = several.terms[0][1]
        names = [tape.reference(ref) for ref in terms]
        local = tape.append(self._words.sum(names, base, device), _origin(origin), device, {})
        total = local[base]
        tape.claims[total] = value
        several.terms = [(total, device)]

    def _join(
        self, slices: Sequence[tuple[GradientRef, Any]], several: _Several, value: int, origin: int
    ) -> tuple[GradientRef, Any]:
        """One slice with the rows of all."""
        if len(slices) == 1:
            return slices[0]
        tape = self._tape
        words = self._sparse_words(several, value)
        device = self._common_device(slices, value)
        counts = [0, 0]
        seen: set[int] = set()
        parts = []
        for gradient, at in slices:
            assert isinstance(gradient, tuple), "a slice has two references"
            for half, ref in enumerate(gradient):
                if tape.is_cell_of(ref, value) and ref not in seen:
                    seen.add(ref)
                    tape.rename(ref, f"_{tape.wishes[ref]}_autosplit_{counts[half]}")
                    counts[half] += 1
            moved = [self._moved(ref, at, device, origin) for ref in gradient]
            parts.append(GradientSlice(*map(tape.reference, moved)))
        base = several.base or f"{self._versions.blobs[value]}_grad"
        operators, joined = words.concat_slices(parts, base, device)
        local = tape.append(operators, _origin(origin), device, {})
        cells = (local[joined.indices], local[joined.values])
        for cell in cells:
            tape.claims[cell] = value
        return cells, device

    def _densify(
        self, term: tuple[GradientRef, Any], several: _Several, value: int, origin: int
    ) -> tuple[GradientRef, Any]:
        """A slice as a dense gradient."""
        tape = self._tape
        gradient, device = term
        part = tape.gradient(gradient)
        assert isinstance(part, GradientSlice), "a slice is made dense once"
        base = several.base or f"{self._versions.blobs[value]}_grad"
        out = f"{base}_dense"
        like = tape.reference(~value)
        words = self._sparse_words(several, value)
        local = tape.append(words.slice_to_dense(part, like, out, device), _origin(origin), device, {})
        return local[out], device

    def _rename(self, several: _Several, cell: Ref) -> None:
        self._tape.rename(cell, f"_{self._tape.wishes[cell]}_autosplit_{several.renamed}")
        several.renamed += 1

    def _sparse_words(self, several: _Several, value: int) -> SparseVocabulary:
        if isinstance(self._words, SparseVocabulary):
            return self._words
        raise AccumulationError(
            "they are sparse, and the dialect has no operators that add sparse gradients",
            self._versions.blobs[value],
            self._versions.numbers[value],
            [self._operators[source] for _, source in several.history if source != NONE],
        )

    # ---- devices ------------------------------------------------------------------------------------

    def device_of_value(self, value: int) -> Any:
        """Where the value lies: at its producer, or at its first reader if it is an input of the net."""
        at = self._versions.producers[value]
        if at == NONE:
            at = self._versions.first_readers[value]
        return None if at == NONE else self._operators[at].device

    def _device_of(self, gradient: GradientRef, value: int, source: int) -> Any:
        """Where a contribution lies."""
        ref = gradient if isinstance(gradient, int) else gradient[1]
        if self._tape.is_cell_of(ref, value):
            return self._tape.operators[self._tape.writers[ref]].device
        return self.device_of_value(value) if source == NONE else self._operators[source].device

    def _same_device(self, first: Any, second: Any) -> bool:
        if isinstance(self._words, DeviceVocabulary):
            return self._words.same_device(first, second)
        return bool(first == second)

    def _common_device(self, terms: Sequence[tuple[GradientRef, Any]], value: int) -> Any:
        """The device of all terms if it is one, else the device of the value."""
        first = terms[0][1]
        if all(self._same_device(device, first) for _, device in terms):
            return first
        return self.device_of_value(value)

    def _on_one_device(self, several: _Several, value: int, origin: int) -> list[Ref]:
        """The terms as references on one device, copied there where needed."""
        device = self._common_device(several.terms, value)
        terms = []
        for k, (gradient, at) in enumerate(several.terms):
            assert isinstance(gradient, int), "only dense gradients are summed"
            terms.append(self._moved(gradient, at, device, origin))
            several.terms[k] = (gradient, device)
        return terms

    def _moved(self, ref: Ref, at: Any, device: Any, origin: int) -> Ref:
        if self._same_device(at, device):
            return ref
        return self._copied(ref, f"{self._tape.reference(ref)}_copy", device, origin)

    def _copied(self, ref: Ref, wish: str, device: Any, origin: int) -> Ref:
        """A copy of ``ref`` on ``device``."""
        words = self._words.copy(self._tape.reference(ref), wish, device)
        return self._tape.append(words, _origin(origin), device, {})[wish]


def _origin(source: int) -> int | None:
    return None if source == NONE else source
