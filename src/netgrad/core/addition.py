"""The operators that add gradients: sums, joined slices, copies between devices."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from netgrad.core.errors import AccumulationError
from netgrad.core.operator import GradientSlice, Operator
from netgrad.core.tape import EXTERNAL, UNREAD, GradientRef, Ref, Tape
from netgrad.core.versions import NONE, Versions
from netgrad.core.vocabulary import (
    DeviceVocabulary,
    SparseVocabulary,
    StructuredVocabulary,
    UniformVocabulary,
    Vocabulary,
    WideVocabulary,
)


class Adder:
    """Writes additions on the tape, in the words of a dialect and with the names of the original.

    Terms are in the order in which they came. A term is a value's own if it was computed as its gradient;
    the name of the first own term is the base name, which the sum gets.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        versions: Versions,
        tape: Tape,
        vocabulary: Vocabulary,
        unique_names: bool,
    ) -> None:
        self._operators = operators
        self._versions = versions
        self._tape = tape
        self._words = vocabulary
        self._structured = vocabulary if isinstance(vocabulary, StructuredVocabulary) else None
        self._unique_names = unique_names
        self._wide_words = vocabulary if isinstance(vocabulary, WideVocabulary) else None
        self._patterns = _Patterns(vocabulary)
        self._no_devices = all(op.device is None for op in operators)
        self._same_device: Callable[[Any, Any], bool] = (
            vocabulary.same_device if isinstance(vocabulary, DeviceVocabulary) else operator.eq
        )

    def total(self, terms: Sequence[GradientRef], value: int, origin: int, first: int = NONE) -> GradientRef:
        """The sum of ``terms``; slices are joined, and made dense if they meet dense terms.

        Args:
            terms: What is added.
            value: The value whose gradient they are.
            origin: The operator that the additions belong to.
            first: The operator that has given the first term.
        """
        if len(terms) > 1 and self._wide_words is None and tuple not in map(type, terms):
            only_refs: Any = terms
            return self.sum(only_refs, value, origin, None, first)
        base = None
        dense = [term for term in terms if isinstance(term, int)]
        if len(dense) < len(terms):
            base = self._base(terms, value)
            slices = [term for term in terms if isinstance(term, tuple)]
            joined = self._join(slices, value, origin, base, first) if len(slices) > 1 else slices[0]
            if not dense:
                return joined
            dense.insert(terms.index(slices[0]), self.densified(joined, value, origin, base))
        if self._wide_words is not None and self.sums_wide(value, len(dense)):
            wide = [self.widened(ref, value, origin, k) for k, ref in enumerate(dense)]
            return self.narrowed(self.sum(wide, value, origin), value, origin)
        return dense[0] if len(dense) == 1 else self.sum(dense, value, origin, base, first)

    def sum(
        self, refs: Sequence[Ref], value: int, origin: int, base: str | None = None, first: int = NONE
    ) -> Ref:
        """The sum of two or more dense terms, called ``base``; see `total`."""
        tape = self._tape
        claims, wishes = tape.claims, tape.wishes
        ours: dict[Ref, None] = {}
        for ref in refs:
            if ref >= 0 and claims[ref] == value:
                ours[ref] = None
        own = list(ours)
        base = base or (wishes[own[0]] if own else f"{self._versions.blobs[value]}_grad")
        # The first own term keeps its name, so that the sum can take its place.
        for k, ref in enumerate(own if self._unique_names else own[1:]):
            wish = f"_{wishes[ref]}_autosplit_{k}"
            if ref in tape.earlier:
                tape.rename(ref, wish)
            else:  # what `rename` does, without a call
                wishes[ref] = wish
        if not tape.devices and self._no_devices:
            pattern = self._patterns[len(refs)] if len(own) == len(refs) else None
            if pattern is not None:  # the usual case, fast
                total = tape.write(pattern, tuple(refs), base, _origin(origin))
                claims[total] = value
                tape.places[total] = own[0]
                return total
            device, same = None, True
        else:
            device, same = self._common_device(refs, value, first)
        terms = list(refs) if same else [self._moved(ref, device, origin) for ref in refs]
        if own:
            # A sum may work in place on its first operand only.
            place = refs.index(own[0])
            terms[0], terms[place] = terms[place], terms[0]
        total = self._phrased(terms, value, origin, base, device)
        claims[total] = value
        if own and terms[0] == own[0]:
            tape.places[total] = terms[0]
        return total

    def _phrased(self, terms: Sequence[Ref], value: int, origin: int, base: str, device: Any) -> Ref:
        """The sum of ``terms`` in the words of the dialect."""
        tape = self._tape
        named = list(map(tape.reference, terms))
        if self._structured is None:
            words = self._words.sum(named, base, device)
        else:
            words = self._structured.sum_like(self._versions.blobs[value], named, base, device)
        return tape.append(words, _origin(origin), device)[base]

    def sums_wide(self, value: int, count: int) -> bool:
        """Whether ``count`` gradients of ``value`` are added in a wider type."""
        words = self._wide_words
        return words is not None and words.sums_wide(self._versions.blobs[value], count)

    def widened(self, ref: Ref, value: int, origin: int, number: int = 0) -> Ref:
        """``ref`` in the wider type, as term ``number`` of a sum for ``value``."""
        tape, words = self._tape, self._wide_words
        assert words is not None, "the dialect sums wide"
        base = f"{self._versions.blobs[value]}_grad"
        if self._unique_names and tape.is_own(ref, value):
            tape.rename(ref, f"_{base}_autosplit_{number}")
        wish = f"{base}_wide"
        device = tape.device_of(ref)
        operators = words.widened(tape.reference(ref), wish, device)
        return tape.append(operators, _origin(origin), device)[wish]

    def narrowed(self, total: Ref, value: int, origin: int) -> Ref:
        """A sum in the wider type as the gradient of ``value``."""
        tape, words = self._tape, self._wide_words
        assert words is not None, "the dialect sums wide"
        wish = f"{self._versions.blobs[value]}_grad"
        tape.rename(total, f"{wish}_sum")
        device = tape.device_of(total)
        operators = words.narrowed(tape.reference(total), tape.reference(~value), wish, device)
        cell = tape.append(operators, _origin(origin), device)[wish]
        tape.claims[cell] = value
        return cell

    def fold(self, partial: Ref, cell: Ref, value: int) -> bool:
        """Let the operator that computes ``cell``, a gradient of ``value``, add ``partial`` itself.

        Returns:
            Whether that was possible: nobody has read ``cell``, ``partial`` is there before (and wasn't read
            since), on the same device, and the operator has an accumulator input.
        """
        tape = self._tape
        if not tape.is_own(cell, value) or tape.last_reads[cell] != UNREAD:
            return False
        position = tape.writer(cell)
        first_cell = tape.first_cells[position]
        late = partial >= 0 and max(partial, tape.last_reads[partial]) >= first_cell
        if late and tape.claims[partial] != EXTERNAL:
            return False
        if not self._same_device(tape.device_of(partial), tape.device_of(cell)):
            return False
        name = tape.reference(partial)
        folded = self._words.fold(tape.named(position), cell - first_cell, name)
        if folded is None:
            return False
        if self._unique_names and tape.is_own(partial, value):
            tape.rename(partial, f"_{tape.wishes[partial]}_autosplit_0")
        tape.replace(position, folded, partial)
        return True

    def densified(self, part: tuple[Ref, Ref], value: int, origin: int, base: str) -> Ref:
        """A slice as a dense gradient of ``value``."""
        tape = self._tape
        slice_ = GradientSlice(tape.reference(part[0]), tape.reference(part[1]))
        out = f"{base}_dense"
        device = tape.device_of(part[1])
        words = self._sparse_words(value).slice_to_dense(slice_, tape.reference(~value), out, device)
        return tape.append(words, _origin(origin), device)[out]

    def copied(self, ref: Ref, wish: str, device: Any, origin: int) -> Ref:
        """A copy of ``ref`` on ``device``."""
        words = self._words.copy(self._tape.reference(ref), wish, device)
        return self._tape.append(words, _origin(origin), device)[wish]

    def _base(self, terms: Sequence[GradientRef], value: int) -> str:
        tape = self._tape
        for term in terms:
            parts = ((term, ""),) if isinstance(term, int) else ((term[0], "_indices"), (term[1], "_values"))
            for ref, ending in parts:
                if tape.is_own(ref, value):
                    return tape.wishes[ref].removesuffix(ending)
        return f"{self._versions.blobs[value]}_grad"

    def _join(
        self, slices: Sequence[tuple[Ref, Ref]], value: int, origin: int, base: str, first: int
    ) -> tuple[Ref, Ref]:
        """One slice with the rows of all."""
        tape = self._tape
        words = self._sparse_words(value)
        device, _ = self._common_device([values for _, values in slices], value, first)
        counts = [0, 0]
        seen: set[Ref] = set()
        for part in slices:
            for half, ref in enumerate(part):
                if tape.is_own(ref, value) and ref not in seen:
                    seen.add(ref)
                    tape.rename(ref, f"_{tape.wishes[ref]}_autosplit_{counts[half]}")
                    counts[half] += 1
        moved = [[self._moved(ref, device, origin) for ref in part] for part in slices]
        parts = [GradientSlice(tape.reference(i), tape.reference(v)) for i, v in moved]
        operators, joined = words.concat_slices(parts, base, device)
        local = tape.append(operators, _origin(origin), device)
        cells = (local[joined.indices], local[joined.values])
        for cell in cells:
            tape.claims[cell] = value
        return cells

    def _common_device(self, refs: Sequence[Ref], value: int, giver: int) -> tuple[Any, bool]:
        """The device of all of ``refs`` and True, or the device of the value if theirs differ.

        Where the first one was passed on by its giver, the device is called as that operator calls it.
        """
        first = self._tape.device_of(refs[0])
        for ref in refs:
            device = self._tape.device_of(ref)
            if device is not first and not self._same_device(device, first):
                return self._versions.device_of(value), False
        if giver != NONE and not self._tape.is_own(refs[0], value):
            own = self._operators[giver].device
            if own is not None and self._same_device(own, first):
                return own, True
        return first, True

    def _moved(self, ref: Ref, device: Any, origin: int) -> Ref:
        """``ref`` itself if it lies on ``device``, else a copy there."""
        if self._same_device(self._tape.device_of(ref), device):
            return ref
        return self.copied(ref, f"{self._tape.reference(ref)}_copy", device, origin)

    def _sparse_words(self, value: int) -> SparseVocabulary:
        if isinstance(self._words, SparseVocabulary):
            return self._words
        raise AccumulationError(
            "they are sparse, and the dialect has no operators that add sparse gradients",
            self._versions.blobs[value],
            self._versions.number(value),
            [self._operators[reader] for reader in self._versions.readers(value)],
        )


class _Patterns(dict[int, "Operator | None"]):
    """Number of terms to the operator that adds them; None if it takes several, or more than the terms.

    Also None where not all sums of equally many terms are alike.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._words = vocabulary
        self._alike = (
            isinstance(vocabulary, UniformVocabulary)
            and vocabulary.sums_alike
            and not isinstance(vocabulary, StructuredVocabulary)
        )

    def __missing__(self, count: int) -> Operator | None:
        pattern = None
        if self._alike:
            terms, out = [f"term_{k}" for k in range(count)], "sum"
            words = self._words.sum(terms, out, None)
            plain = len(words) == 1 and words[0].outputs == (out,) and words[0].device is None
            pattern = words[0] if plain and words[0].inputs == tuple(terms) else None
        self[count] = pattern
        return pattern


def _origin(source: int) -> int | None:
    return None if source == NONE else source
