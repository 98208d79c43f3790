"""The tape of emitted operators, and the one place where emitted blobs get their names.

While the sweep runs, everything that gradient operators write is a *cell*, an integer with a wished name.
When the sweep is done, `Tape.name_all` walks the tape once and gives each cell its name: the wished one, if
nobody else needs what is stored under it; otherwise the wished one with a numbered suffix. So a name made by
a rule is local to that rule, no emitted operator can overwrite what is still needed, and where names needn't
be unique the original's reuse of names comes out by itself.

A *reference* is what an emitted operator reads: a cell (0, 1, ...), a forward value ``v`` as ``~v``, or None
for an absent operand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias

from netgrad.core.operator import Gradient, GradientSlice, Operator
from netgrad.core.versions import NONE, Versions

Ref: TypeAlias = int
GradientRef: TypeAlias = "int | tuple[int, int]"
"""A gradient inside the core: one reference, or those of the indices and the values of a slice."""

FOREVER = 1 << 62
UNCLAIMED = -1
EXTERNAL = -2
_FEW = 16

_OCCURRENCE = re.compile("⟨[0-9]+⟩")


def occurrence(blob: str, position: int) -> str:
    """A name for ``blob`` at one input position, for operators that list it more than once.

    A rule that makes names from input names then makes different ones for the occurrences.
    """
    return f"{blob}⟨{position}⟩"


class Reference(str):
    """A name that knows what it stands for, handed to rules and vocabularies.

    It equals the plain name. Two different blobs of one call may have equal names (an operator that works in
    place); passing the object on says which one is meant.
    """

    __slots__ = ("ref",)
    ref: Ref

    @staticmethod
    def to(ref: Ref, name: str) -> Reference:
        """The name ``name``, standing for ``ref``."""
        self = Reference(name)
        self.ref = ref
        return self


class Scope(dict[str, Ref]):
    """What plain names mean to one rule; most rules use none, so it is filled at the first use."""

    __slots__ = ("_fill",)

    def __init__(self, fill: Callable[[], Mapping[str, Ref]] | None = None) -> None:
        super().__init__()
        self._fill = fill

    def __missing__(self, name: str) -> Ref:
        if self._fill is None:
            raise KeyError(name)
        self.update(self._fill())
        self._fill = None
        return self[name]


NOTHING = Scope()


class UnknownNameError(Exception):
    """An emitted operator reads a name that stands for nothing; the caller knows whom to blame."""

    def __init__(self, name: str, op: Operator) -> None:
        super().__init__(name)
        self.name = name
        self.op = op


class Tape:
    """Emitted operators in order, with what they read and write as references.

    Attributes:
        operators: As they were written, with local names.
        reads: For each operator, the reference of each input, None where absent.
        writes: For each operator, the cell of each output, None where absent.
        origins: For each operator, the forward operator it belongs to, None for start gradients.
        wishes: Cell to wished name.
        names: Cell to name, after `name_all`.
        writers: Cell to the emitted operator that writes it, NONE for blobs of the caller.
        claims: Cell to the value whose gradient it was computed as; UNCLAIMED, or EXTERNAL for blobs of the
            caller, which are nobody's own.
        last_reads: Cell to when it is last needed: ``2 k`` when operator ``k`` reads it, ``2 k + 1`` when
            operator ``k`` writes it and nobody reads it, FOREVER if it must outlive the tape.
        reader: The forward operator that the sweep is at, for messages.
    """

    def __init__(
        self, versions: Versions, reserved: Collection[str], keep: Callable[[int, int, Tape], Ref]
    ) -> None:
        self.operators: list[Operator] = []
        self.reads: list[tuple[Ref | None, ...]] = []
        self.writes: list[tuple[int | None, ...]] = []
        self.origins: list[int | None] = []
        self.wishes: list[str] = []
        self.names: list[str] = []
        self.writers: list[int] = []
        self.claims: list[int] = []
        self.last_reads: list[int] = []
        self.reader = NONE
        self._versions = versions
        self._reserved = set(reserved)
        self._keep = keep
        self._externals: dict[str, int] = {}
        self._devices: dict[int, Any] = {}  # of blobs of the caller
        self._earlier: dict[int, int] = {}  # what a rule stored before under the same local name
        self._beside: dict[int, int] = {}  # the cell whose place a cell takes, if that is free
        self._suffixes: dict[str, int] = {}
        self._indexed: tuple[Ref | None, ...] = ()
        self._index: dict[Ref | None, list[int]] = {}
        self._holders: dict[str, int] = {}  # name to the cell stored under it, while names are given

    # ---- cells --------------------------------------------------------------------------------------

    def external(self, name: str, device: Any) -> Ref:
        """The reference of a blob of the caller on ``device``, which may be a blob of the forward net."""
        if name in self._versions.last:
            return ~self._versions.last[name]
        if name not in self._externals:
            self._externals[name] = self._cell(name, NONE, FOREVER, EXTERNAL)
            self._devices[self._externals[name]] = device
            self._reserved.add(name)
        return self._externals[name]

    def fresh(self, wish: str, device: Any) -> Ref:
        """A cell whose name is fixed now and never used again; somebody else writes it on ``device``."""
        return self.external(self._unused(wish) if self._is_taken(wish) else wish, device)

    def rename(self, cell: int, wish: str) -> None:
        """Wish another name for a cell, and for what its rule stored under the same local name before."""
        while True:
            self.wishes[cell] = wish
            if cell not in self._earlier:
                return
            cell = self._earlier[cell]

    def reference(self, ref: Ref) -> Reference:
        """The name by which a rule or a vocabulary gets to know a reference."""
        if ref < 0:
            return Reference.to(ref, self._versions.blobs[~ref])
        wish = self.wishes[ref]
        # A rule may drop the object and keep the text; then at least no forward blob is meant by it.
        return Reference.to(ref, f"{wish}_" if wish in self._versions.last else wish)

    def gradient(self, gradient: GradientRef) -> Gradient:
        """The same for a whole gradient."""
        if isinstance(gradient, tuple):
            return GradientSlice(self.reference(gradient[0]), self.reference(gradient[1]))
        return self.reference(gradient)

    def device_of(self, ref: Ref) -> Any:
        """Where the blob lies; None where nothing was said."""
        if ref < 0:
            return self._versions.device_of(~ref)
        writer = self.writers[ref]
        return self._devices[ref] if writer == NONE else self.operators[writer].device

    def is_cell_of(self, ref: Ref, value: int) -> bool:
        """Whether ``ref`` was computed as a gradient of ``value``, rather than passed through."""
        return ref >= 0 and self.claims[ref] == value

    def lasting(self, ref: Ref) -> Ref:
        """What still holds the forward value ``ref`` when gradient operators run."""
        if self._versions.following[~ref] < 0:
            return ref
        return self._keep(~ref, self.reader, self)

    def take_place(self, cell: int, of: Ref) -> None:
        """Store ``cell`` where ``of`` is, if ``of`` isn't needed any more then."""
        if of >= 0:
            self._beside[cell] = of

    def protect(self, gradient: GradientRef) -> None:
        """Let a gradient outlive the tape: its blobs are not written again."""
        for ref in gradient if isinstance(gradient, tuple) else (gradient,):
            if ref >= 0:
                self.last_reads[ref] = FOREVER

    # ---- operators ----------------------------------------------------------------------------------

    def append(
        self,
        operators: Iterable[Operator],
        origin: int | None,
        device: Any,
        scope: Scope = NOTHING,
    ) -> dict[str | int, int]:
        """Append the operators of one rule call, or of one phrase of a vocabulary.

        Args:
            operators: Operators with local names.
            origin: The forward operator they belong to.
            device: Where an operator runs that says nothing itself.
            scope: What plain names mean unless the operators write them first.

        Returns:
            Local name to the cell written last under it (for an overwritten reference: that reference).

        Raises:
            UnknownNameError: An operator reads a name that means nothing.
        """
        local: dict[str | int, int] = {}
        following = self._versions.following
        last_reads = self.last_reads
        for op in operators:
            position = len(self.operators)
            reads: list[Ref | None] = []
            for name in op.inputs:
                ref = self.resolve(name, local, scope, op)
                if ref is not None:
                    if ref >= 0:
                        last_reads[ref] = 2 * position
                    elif following[~ref] >= 0:
                        ref = self.lasting(ref)
                reads.append(ref)
            writes: list[int | None] = []
            for name in op.outputs:
                if not name:
                    writes.append(None)
                    continue
                key: str | int = name.ref if type(name) is Reference else name
                wish = _OCCURRENCE.sub("", name) if "⟨" in name else str(name)
                cell = self._cell(wish, position, 2 * position + 1, UNCLAIMED)
                if key in local:
                    self._earlier[cell] = self._beside[cell] = local[key]
                local[key] = cell
                writes.append(cell)
            if op.device is None and device is not None:
                op = Operator(op.type, op.inputs, op.outputs, op.attributes, op.domain, device, op.name)
            self.operators.append(op)
            self.reads.append(tuple(reads))
            self.writes.append(tuple(writes))
            self.origins.append(origin)
        return local

    def resolve(self, name: str, local: Mapping[str | int, int], scope: Scope, op: Operator) -> Ref | None:
        """What ``name`` means after the operators whose names are in ``local``; None for ``""``."""
        if type(name) is Reference:
            return local.get(name.ref, name.ref) if local else name.ref
        if name in local:
            return local[name]
        if not name:
            return None
        try:
            return scope[name]
        except KeyError:
            plain = _OCCURRENCE.sub("", name) if isinstance(name, str) else name
            if plain == name or plain not in scope:
                raise UnknownNameError(name, op) from None
            return scope[plain]

    def replace(self, position: int, op: Operator, ref: Ref) -> None:
        """Let the emitted operator at ``position`` be ``op``, which reads ``ref`` besides."""
        reads = list(self.reads[position])
        reads += [None] * (len(op.inputs) - len(reads))
        reads[max(k for k, name in enumerate(op.inputs) if getattr(name, "ref", None) == ref)] = ref
        self.operators[position] = op
        self.reads[position] = tuple(reads)
        self.last_reads[ref] = max(self.last_reads[ref], 2 * position)

    # ---- names --------------------------------------------------------------------------------------

    def name_all(self, in_place: Callable[[Operator, int, int], bool] | None) -> tuple[Operator, ...]:
        """Name every cell, and return the operators with their final names.

        Args:
            in_place: Whether an operator may write an output to the blob that it reads as an input; None if
                no name may be used twice at all.
        """
        blobs = self._versions.blobs
        names = self.names = list(self.wishes)  # a blob of the caller has the name it wishes
        forward, reserved, wishes = self._versions.last, self._reserved, self.wishes
        holders, beside, last_reads = self._holders, self._beside, self.last_reads
        named: list[Operator] = []
        for position, op in enumerate(self.operators):
            reads = self.reads[position]
            inputs = tuple(["" if ref is None else names[ref] if ref >= 0 else blobs[~ref] for ref in reads])
            outputs = []
            for index, cell in enumerate(self.writes[position]):
                if cell is None:
                    outputs.append("")
                    continue
                name = wishes[cell]
                if cell in beside and in_place is not None:
                    name = names[beside[cell]]
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
            named.append(
                Operator(op.type, inputs, tuple(outputs), op.attributes, op.domain, op.device, op.name)
            )
        return tuple(named)

    def final(self, gradient: GradientRef) -> Gradient:
        """The name or slice of names of a gradient, after `name_all`."""
        if isinstance(gradient, tuple):
            return GradientSlice(self._final(gradient[0]), self._final(gradient[1]))
        return self._final(gradient)

    def held(self, gradient: GradientRef) -> Gradient | None:
        """`final` if the blobs still hold the gradient when all operators have run, else None."""
        if isinstance(gradient, tuple):
            indices, values = self.held(gradient[0]), self.held(gradient[1])
            if not isinstance(indices, str) or not isinstance(values, str):
                return None
            return GradientSlice(indices, values)
        if gradient < 0:
            return self._versions.blobs[~gradient]
        name = self.names[gradient]
        return name if self._holders.get(name, gradient) == gradient else None

    def _final(self, ref: Ref) -> str:
        return self.names[ref] if ref >= 0 else self._versions.blobs[~ref]

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

    def _cell(self, wish: str, writer: int, last_read: int, claim: int) -> int:
        self.wishes.append(wish)
        self.writers.append(writer)
        self.last_reads.append(last_read)
        self.claims.append(claim)
        return len(self.wishes) - 1
