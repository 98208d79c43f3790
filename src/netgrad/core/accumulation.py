"""Accumulation: the gradient of a value is the sum of what its readers contribute.

The accumulator has two verbs. `Accumulator.contribute` takes the gradient that one reader (or a start
gradient) gives for a value; `Accumulator.settle`, called at the value's first reader, which the reverse
sweep visits last, adds up what came. The order of contributions is that of the sweep: start gradients, then
the last reader first.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from netgrad.core.errors import AccumulationError
from netgrad.core.naming import UNCLAIMED, GradientRef, Ref, Tape
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

    __slots__ = ("base", "folded", "history", "partial", "renamed", "strategy", "terms")

    def __init__(self, strategy: str) -> None:
        self.history: list[tuple[GradientRef, int]] = []
        self.terms: list[GradientRef] = []
        self.strategy = strategy
        self.partial = NONE  # where in the terms the sum of the dense ones so far is
        self.folded = False
        self.base: str | None = None  # name of the first computed contribution; the sum gets it
        self.renamed = 0


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
        self._same_device: Callable[[Any, Any], bool] = (
            vocabulary.same_device if isinstance(vocabulary, DeviceVocabulary) else operator.eq
        )
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
            self._claim(gradient, value)
            return
        several = self._several.get(value)
        if several is None:
            several = self._several[value] = _Several(self._strategy_for(value))
            self._take(several, value, self.totals.pop(value), self._sources[value], sole=False)
        self._claim(gradient, value)
        self._take(several, value, gradient, source, sole)

    def settle(self, values: Iterable[int], reader: int) -> None:
        """Add up what came for each of ``values``, whose first reader is ``reader``."""
        if not self._several:
            return
        for value in values:
            if self._versions.first_readers[value] == reader and value in self._several:
                several = self._several.pop(value)
                self.totals[value] = self._reduce(several, value, reader)
                self.settled.append((value, several))

    def order(self) -> Iterable[int]:
        """The values that have a gradient, in the order in which the sweep met them."""
        return self._sources

    def own_copy(self, value: int, ref: Ref) -> Ref:
        """A copy of ``ref`` for ``value`` alone."""
        wish = f"{self._versions.blobs[value]}_grad"
        copy = self._copied(ref, wish, self._versions.device_of(value), self._versions.first_readers[value])
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
                self._tape.device_of(_values(self.totals[value])),
                final(self.totals[value]),
            )
            for value, several in self.settled
        )

    def _claim(self, gradient: GradientRef, value: int) -> None:
        claims = self._tape.claims
        for ref in (gradient,) if isinstance(gradient, int) else gradient:
            if ref >= 0 and claims[ref] == UNCLAIMED:
                claims[ref] = value

    # ---- contributions ------------------------------------------------------------------------------

    def _strategy_for(self, value: int) -> str:
        if self._strategy != "auto":
            return self._strategy
        size = self._words.size_in_bytes(self._versions.blobs[value])
        return "sum" if size is None or size < LARGE else "fused"

    def _take(self, several: _Several, value: int, gradient: GradientRef, source: int, sole: bool) -> None:
        several.history.append((gradient, source))
        if several.base is None:
            several.base = self._base(gradient, value)
        terms, partial = several.terms, several.partial
        if several.strategy == "sum" or isinstance(gradient, tuple):
            terms.append(gradient)
        elif partial == NONE:
            several.partial = len(terms)
            terms.append(gradient)
        elif several.strategy == "fused" and sole and self._fold(several, value, terms[partial], gradient):
            terms[partial] = gradient
        else:
            terms[partial] = self._sum([terms[partial], gradient], several, value, source)

    def _base(self, gradient: GradientRef, value: int) -> str | None:
        """The name that the sum of the contributions gets if ``gradient`` is the first computed one."""
        tape = self._tape
        if isinstance(gradient, int):
            return tape.wishes[gradient] if tape.is_cell_of(gradient, value) else None
        for ref, ending in zip(gradient, ("_indices", "_values"), strict=True):
            if tape.is_cell_of(ref, value):
                return tape.wishes[ref].removesuffix(ending)
        return None

    def _fold(self, several: _Several, value: int, partial: GradientRef, cell: Ref) -> bool:
        """Let the operator that computes ``cell`` add ``partial`` itself, if it can."""
        tape = self._tape
        assert isinstance(partial, int), "the partial sum is dense"
        if not tape.is_cell_of(cell, value) or tape.last_reads[cell] != 2 * tape.writers[cell] + 1:
            return False
        position = tape.writers[cell]
        if partial >= 0 and tape.writers[partial] >= position:
            return False
        if not self._same_device(tape.device_of(partial), tape.device_of(cell)):
            return False
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

    def _reduce(self, several: _Several, value: int, reader: int) -> GradientRef:
        """The sum of the terms; slices are joined, and made dense if they meet dense terms."""
        slices = [term for term in several.terms if isinstance(term, tuple)]
        if not slices:
            return self._summed(several.terms, several, value, reader)
        joined = self._join(slices, several, value, reader) if len(slices) > 1 else slices[0]
        if len(slices) == len(several.terms):
            return joined
        dense = self.densified(joined, value, reader, self._base_name(several, value))
        first = several.terms.index(slices[0])
        terms = [term for term in several.terms if isinstance(term, int)]
        return self._summed([*terms[:first], dense, *terms[first:]], several, value, reader)

    def _summed(
        self, terms: Sequence[GradientRef], several: _Several, value: int, origin: int
    ) -> GradientRef:
        return terms[0] if len(terms) == 1 else self._sum(terms, several, value, origin)

    def _sum(self, addends: Sequence[GradientRef], several: _Several, value: int, origin: int) -> Ref:
        """The sum of dense terms."""
        tape = self._tape
        refs = [ref for ref in addends if isinstance(ref, int)]
        assert len(refs) == len(addends), "only dense gradients are summed"
        device, same = self._common_device(refs, value)
        seen: set[Ref] = set()
        own: list[int] = []
        for k, ref in enumerate(refs):
            if ref not in seen and tape.is_cell_of(ref, value):
                own.append(k)
            seen.add(ref)
        # The first computed term keeps its name, so that the sum can be stored where it is.
        for k in own if self._unique_names else own[1:]:
            self._rename(several, refs[k])
        terms = refs if same else [self._moved(ref, device, origin) for ref in refs]
        if own:
            # A sum may work in place on its first operand only.
            terms[0], terms[own[0]] = terms[own[0]], terms[0]
        base = self._base_name(several, value)
        names = [tape.reference(ref) for ref in terms]
        total = tape.append(self._words.sum(names, base, device), _origin(origin), device)[base]
        tape.claims[total] = value
        if own and tape.is_cell_of(terms[0], value):
            tape.take_place(total, terms[0])
        return total

    def _join(
        self, slices: Sequence[tuple[Ref, Ref]], several: _Several, value: int, origin: int
    ) -> tuple[Ref, Ref]:
        """One slice with the rows of all."""
        tape = self._tape
        words = self._sparse_words(value)
        device, _ = self._common_device([values for _, values in slices], value)
        counts = [0, 0]
        seen: set[Ref] = set()
        for part in slices:
            for half, ref in enumerate(part):
                if tape.is_cell_of(ref, value) and ref not in seen:
                    seen.add(ref)
                    tape.rename(ref, f"_{tape.wishes[ref]}_autosplit_{counts[half]}")
                    counts[half] += 1
        moved = [
            tape.gradient((self._moved(i, device, origin), self._moved(v, device, origin))) for i, v in slices
        ]
        parts = [part for part in moved if isinstance(part, GradientSlice)]
        operators, joined = words.concat_slices(parts, self._base_name(several, value), device)
        local = tape.append(operators, _origin(origin), device)
        cells = (local[joined.indices], local[joined.values])
        for cell in cells:
            tape.claims[cell] = value
        return cells

    def densified(self, part_refs: tuple[Ref, Ref], value: int, origin: int, base: str) -> Ref:
        """A slice as a dense gradient."""
        tape = self._tape
        part = tape.gradient(part_refs)
        assert isinstance(part, GradientSlice), "a slice has two references"
        out = f"{base}_dense"
        device = tape.device_of(part_refs[1])
        words = self._sparse_words(value)
        operators = words.slice_to_dense(part, tape.reference(~value), out, device)
        return tape.append(operators, _origin(origin), device)[out]

    def _base_name(self, several: _Several, value: int) -> str:
        return several.base or f"{self._versions.blobs[value]}_grad"

    def _rename(self, several: _Several, cell: Ref) -> None:
        self._tape.rename(cell, f"_{self._tape.wishes[cell]}_autosplit_{several.renamed}")
        several.renamed += 1

    def _sparse_words(self, value: int) -> SparseVocabulary:
        if isinstance(self._words, SparseVocabulary):
            return self._words
        raise AccumulationError(
            "they are sparse, and the dialect has no operators that add sparse gradients",
            self._versions.blobs[value],
            self._versions.numbers[value],
            [self._operators[reader] for reader in self._versions.readers(value)],
        )

    # ---- devices ------------------------------------------------------------------------------------

    def _common_device(self, refs: Sequence[Ref], value: int) -> tuple[Any, bool]:
        """The device of all of ``refs`` and True, or the device of the value if theirs differ."""
        first = self._tape.device_of(refs[0])
        for ref in refs:
            device = self._tape.device_of(ref)
            if device is not first and not self._same_device(device, first):
                return self._versions.device_of(value), False
        return first, True

    def _moved(self, ref: Ref, device: Any, origin: int) -> Ref:
        """``ref`` itself if it lies on ``device``, else a copy there."""
        if self._same_device(self._tape.device_of(ref), device):
            return ref
        return self._copied(ref, f"{self._tape.reference(ref)}_copy", device, origin)

    def _copied(self, ref: Ref, wish: str, device: Any, origin: int) -> Ref:
        words = self._words.copy(self._tape.reference(ref), wish, device)
        return self._tape.append(words, _origin(origin), device)[wish]


def _values(gradient: GradientRef) -> Ref:
    """The reference of a dense gradient, or that of the values of a slice."""
    return gradient if isinstance(gradient, int) else gradient[1]


def _origin(source: int) -> int | None:
    return None if source == NONE else source
