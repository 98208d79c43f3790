"""The one place where emitted blobs get their names.

When the sweep is done, `Names.give` walks the tape once and gives each cell its name: the wished one, if
nobody else needs what is stored under it; otherwise the wished one with a numbered suffix. So no emitted
operator overwrites what is still needed, and where names needn't be unique the original's reuse of names
comes out by itself. Most wishes are nobody else's; those are found at once, and need no more looking at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from netgrad.core.operator import Gradient, GradientSlice, Operator
from netgrad.core.tape import ABSENT, GradientRef, Ref, Tape
from netgrad.core.versions import Versions

_FEW = 16
_NO_CELL = 1 << 62


class Names:
    """The names that are taken, and after `give` the names of all cells.

    Args:
        versions: The forward values; no emitted operator writes one of their blobs.
        reserved: Further names that must not be written.
    """

    def __init__(self, versions: Versions, reserved: Collection[str]) -> None:
        self._versions = versions
        self._reserved = set(reserved)
        # Name to the cell stored under it, of names that have been given with care. Cell 0, which is none,
        # never gives one up.
        self._holders: dict[str, int] = {}
        self._wished: set[str] = set()
        self._names: list[str] = []
        self._suffixes: dict[str, int] = {}
        self._indexed: tuple[Ref, ...] = ()
        self._index: dict[Ref, list[int]] = {}

    def fresh(self, wish: str) -> str:
        """``wish``, or what makes it unique; nobody else gets this name."""
        name = self._unused(wish) if self._is_taken(wish) else wish
        self._reserved.add(name)
        return name

    def give(self, tape: Tape, in_place: Callable[[Any, int, int], bool] | None) -> tuple[Operator, ...]:
        """Name every cell, and return the operators with their final names, which the tape has too then.

        Args:
            tape: The emitted operators.
            in_place: Whether an operator may write an output to the blob that it reads as an input; None if
                no name may be used twice at all.
        """
        last_reads, places = tape.last_reads, tape.places if in_place is not None else {}
        # One list for all references, since ``~value`` counts from the end: cells, then values backwards.
        names = self._names = tape.wishes + self._versions.blobs[::-1]
        name_of = names.__getitem__
        careful = iter(self._with_care(tape, places))
        next_careful = next(careful, _NO_CELL)
        holders = self._holders
        named: Any = tape.operators
        for op, first_cell in zip(named, tape.first_cells, strict=True):
            reads = op.inputs
            op.inputs = tuple(map(name_of, reads))
            end = first_cell + len(op.outputs)
            if next_careful < end:
                for cell in range(first_cell, end):
                    name, holder = names[cell], None
                    if cell in places:
                        holder = places[cell]
                        name = names[holder]
                    if name in holders:
                        holder = holders[name]
                    if holder is not None:
                        if in_place is None or last_reads[holder] > first_cell or holder >= first_cell:
                            name = self._unused(name)
                        elif last_reads[holder] == first_cell:
                            for place in self._places(reads, holder):
                                if not in_place(op, place, cell - first_cell):
                                    name = self._unused(name)
                                    break
                    if name:
                        holders[name] = cell
                        names[cell] = name
                while next_careful < end:
                    next_careful = next(careful, _NO_CELL)
            op.outputs = tuple(names[first_cell:end])
            op.__class__ = Operator
        self._wished = set()
        return tuple(named)

    def _with_care(self, tape: Tape, places: Mapping[int, int]) -> list[int]:
        """The cells that take over a name, or whose wished name isn't theirs alone."""
        self._reserved.update(tape.externals)
        wishes = tape.wishes.copy()
        for cell in places:
            wishes[cell] = ""
        self._wished = set(wishes)
        self._wished.discard("")
        contested = [
            name
            for taken in (self._versions.last, self._reserved)
            for name in self._wished.intersection(taken)
        ]
        self._holders = dict.fromkeys(contested, ABSENT)
        if len(self._wished) < len(wishes) - wishes.count(""):
            contested += [name for name, count in Counter(wishes).items() if name and count > 1]
        if not contested:
            return sorted(places)
        several = set(contested)
        return sorted([*places, *(cell for cell, wish in enumerate(wishes) if wish in several)])

    def of(self, gradient: GradientRef) -> Gradient:
        """The name or slice of names of a gradient, after `give`."""
        if isinstance(gradient, tuple):
            return GradientSlice(self._names[gradient[0]], self._names[gradient[1]])
        return self._names[gradient]

    def of_each(self, gradients: Sequence[GradientRef]) -> list[Gradient]:
        """`of` for each of ``gradients``."""
        if tuple in map(type, gradients):
            return [self.of(gradient) for gradient in gradients]
        only_refs: Any = gradients
        return list(map(self._names.__getitem__, only_refs))

    def held(self, gradient: GradientRef) -> Gradient | None:
        """`of`, or None if the blobs don't hold the gradient any more when all operators have run."""
        if isinstance(gradient, tuple):
            indices, values = self.held(gradient[0]), self.held(gradient[1])
            return None if indices is None or values is None else self.of(gradient)
        name = self._names[gradient]
        return name if gradient < 0 or self._holders.get(name, ABSENT) in (gradient, ABSENT) else None

    def _places(self, reads: tuple[Ref, ...], holder: int) -> Sequence[int]:
        """Where in its inputs an operator reads ``holder``."""
        if len(reads) <= _FEW:
            if reads.count(holder) == 1:
                return (reads.index(holder),)
            return [place for place, ref in enumerate(reads) if ref == holder]
        if self._indexed is not reads:  # an operator with many inputs is asked once per output
            self._indexed = reads
            self._index = {}
            for place, ref in enumerate(reads):
                self._index.setdefault(ref, []).append(place)
        return self._index.get(holder, ())

    def _unused(self, wish: str) -> str:
        count = self._suffixes.get(wish, 0)
        while True:
            count += 1
            name = f"{wish}_{count}"
            if not self._is_taken(name):
                break
        self._suffixes[wish] = count
        self._reserved.add(name)
        return name

    def _is_taken(self, name: str) -> bool:
        taken = name in self._reserved or name in self._versions.last
        return taken or name in self._wished or name in self._holders
