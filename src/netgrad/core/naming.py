"""The one place where emitted blobs get their names.

When the sweep is done, `Names.give` walks the tape once and gives each cell its name: the wished one, if
nobody else needs what is stored under it; otherwise the wished one with a numbered suffix. So no emitted
operator overwrites what is still needed, and where names needn't be unique the original's reuse of names
comes out by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from netgrad.core.operator import Gradient, GradientSlice, Operator, set_names
from netgrad.core.tape import GradientRef, Ref, Tape
from netgrad.core.versions import Versions

_FEW = 16


class Names:
    """The names that are taken, and after `give` the names of all cells.

    Args:
        versions: The forward values; no emitted operator writes one of their blobs.
        reserved: Further names that must not be written.
    """

    def __init__(self, versions: Versions, reserved: Collection[str]) -> None:
        self._versions = versions
        self._reserved = set(reserved)
        self._holders: dict[str, int] = {}  # name to the cell stored under it, while names are given
        self._names: list[str] = []
        self._suffixes: dict[str, int] = {}
        self._indexed: tuple[Ref | None, ...] = ()
        self._index: dict[Ref | None, list[int]] = {}

    def fresh(self, wish: str) -> str:
        """``wish``, or what makes it unique; nobody else gets this name."""
        name = self._unused(wish) if self._is_taken(wish) else wish
        self._reserved.add(name)
        return name

    def give(self, tape: Tape, in_place: Callable[[Operator, int, int], bool] | None) -> tuple[Operator, ...]:
        """Name every cell, and return the operators with their final names; the tape is empty then.

        Args:
            tape: The emitted operators.
            in_place: Whether an operator may write an output to the blob that it reads as an input; None if
                no name may be used twice at all.
        """
        blobs, forward = self._versions.blobs, self._versions.last
        last_reads, places = tape.last_reads, tape.places if in_place is not None else {}
        names = self._names = list(tape.wishes)
        holders, reserved = self._holders, self._reserved
        reserved.update(tape.externals)
        named: list[Operator] = []
        for position, (op, reads, writes) in enumerate(tape.drain()):
            inputs = tuple(["" if ref is None else names[ref] if ref >= 0 else blobs[~ref] for ref in reads])
            outputs = []
            for index, cell in enumerate(writes):
                if cell is None:
                    outputs.append("")
                    continue
                name = names[places[cell]] if cell in places else names[cell]
                holder = holders.get(name)
                if holder is None:
                    if name in forward or name in reserved:
                        name = self._unused(name)
                elif in_place is None or last_reads[holder] > 2 * position:
                    name = self._unused(name)
                elif last_reads[holder] == 2 * position:
                    for place in self._places(reads, holder):
                        if not in_place(op, place, index):
                            name = self._unused(name)
                            break
                holders[name] = cell
                names[cell] = name
                outputs.append(name)
            set_names(op, inputs, tuple(outputs))
            named.append(op)
        return tuple(named)

    def of(self, gradient: GradientRef) -> Gradient:
        """The name or slice of names of a gradient, after `give`."""
        if isinstance(gradient, tuple):
            return GradientSlice(self._of(gradient[0]), self._of(gradient[1]))
        return self._of(gradient)

    def held(self, gradient: GradientRef) -> Gradient | None:
        """`of`, or None if the blobs don't hold the gradient any more when all operators have run."""
        if isinstance(gradient, tuple):
            indices, values = self.held(gradient[0]), self.held(gradient[1])
            return None if indices is None or values is None else self.of(gradient)
        if gradient < 0:
            return self._versions.blobs[~gradient]
        name = self._names[gradient]
        return name if self._holders.get(name, gradient) == gradient else None

    def _of(self, ref: Ref) -> str:
        return self._names[ref] if ref >= 0 else self._versions.blobs[~ref]

    def _places(self, reads: tuple[Ref | None, ...], holder: int) -> list[int]:
        """Where in its inputs an operator reads ``holder``."""
        if len(reads) <= _FEW:
            return [place for place, ref in enumerate(reads) if ref == holder]
        if self._indexed is not reads:  # an operator with many inputs is asked once per output
            self._indexed = reads
            self._index = {}
            for place, ref in enumerate(reads):
                self._index.setdefault(ref, []).append(place)
        return self._index[holder]

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
        return name in self._reserved or name in self._versions.last or name in self._holders
