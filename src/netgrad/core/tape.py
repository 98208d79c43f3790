"""The tape: what gradient operators read and write, while they have no names yet.

While the sweep runs, everything that a gradient operator writes is a *cell*, an integer with a wished name;
so a name made by a rule is local to that rule. A *reference* is what an operator reads: a cell (1, 2, ...),
a forward value ``v`` as ``~v``, or ABSENT for an operand that is left out.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from netgrad.core.operator import Draft, Gradient, GradientSlice, Operator, draft
from netgrad.core.versions import NONE, Versions

Ref: TypeAlias = int
GradientRef: TypeAlias = "int | tuple[int, int]"
"""A gradient inside the core: one reference, or those of the indices and the values of a slice."""

Local: TypeAlias = "dict[str | int, int]"
"""What the operators of one rule call wrote: local name to cell; an overwritten reference counts as name."""

ABSENT = 0
UNREAD = -1
FOREVER = 1 << 62
UNCLAIMED = -1
EXTERNAL = -2

_OCCURRENCE = re.compile("⟨[0-9]+⟩")


def occurrence(blob: str, position: int) -> str:
    """A name for ``blob`` at one input position, for operators that list it more than once.

    A rule that makes names from input names then makes different ones for the occurrences.
    """
    return f"{blob}⟨{position}⟩"


def without_occurrence(name: str) -> str:
    """``name`` without what `occurrence` added to a name that it was made from."""
    return _OCCURRENCE.sub("", name) if "⟨" in name else name


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


class UnknownNameError(Exception):
    """An emitted operator reads a name that stands for nothing; the caller knows whom to blame."""

    def __init__(self, name: Any, op: Operator) -> None:
        super().__init__(name)
        self.name = name
        self.op = op


def _nothing(name: str, op: Operator) -> Ref:
    raise UnknownNameError(name, op)


class Tape:
    """Emitted operators in order.

    Attributes:
        operators: What was written. Their inputs are references, and the names of their outputs are local to
            whoever wrote them.
        first_cells: For each operator, the cell of its first output; those of the others follow it. An
            output that is left out has a cell with the name ``""``.
        origins: For each operator, the forward operator it belongs to, None for start gradients.
        wishes: Cell to wished name. A blob of the caller has exactly this name.
        claims: Cell to the value whose gradient it was computed as; UNCLAIMED, or EXTERNAL for blobs of the
            caller, which are nobody's own.
        last_reads: Cell to the first cell of the last operator that reads it, UNREAD if there is none,
            FOREVER if it must outlive the tape.
        places: Cell to the cell whose name it takes over if that is free: an earlier step of the same rule,
            or the first operand of a sum.
        devices: Cell to the device that it lies on, where one was said.
        earlier: Cell to the one that its rule stored before under the same local name.
        reader: The forward operator that the sweep is at, for messages.
    """

    def __init__(self, versions: Versions, keep: Callable[[int, int, Tape], Ref]) -> None:
        self.operators: list[Draft] = []
        self.first_cells: list[int] = []
        self.origins: list[int | None] = []
        self.wishes: list[str] = [""]
        self.claims: list[int] = [EXTERNAL]
        self.last_reads: list[int] = [FOREVER]
        self.places: dict[int, int] = {}
        self.externals: dict[str, int] = {}
        self.reader = NONE
        self._versions = versions
        self._keep = keep
        self.devices: dict[int, Any] = {}
        self.earlier: dict[int, int] = {}

    # ---- cells --------------------------------------------------------------------------------------

    def external(self, name: str, device: Any) -> Ref:
        """The reference of a blob of the caller on ``device``, which may be a blob of the forward net."""
        if name in self._versions.last:
            return ~self._versions.last[name]
        if name not in self.externals:
            cell = len(self.wishes)
            self.wishes.append(name)
            self.claims.append(EXTERNAL)
            self.last_reads.append(FOREVER)
            self.externals[name] = cell
            if device is not None:
                self.devices[cell] = device
        return self.externals[name]

    def rename(self, cell: int, wish: str) -> None:
        """Wish another name for a cell, and for what its rule stored under the same local name before."""
        self.wishes[cell] = wish
        while cell in self.earlier:
            cell = self.earlier[cell]
            self.wishes[cell] = wish

    def reference(self, ref: Ref) -> Reference:
        """The name by which a rule or a vocabulary gets to know a reference."""
        if ref < 0:
            name = self._versions.blobs[~ref]
        else:
            name = self.wishes[ref]
            if name in self._versions.last:
                name += "_"  # a rule may keep the text only; then at least it doesn't mean the forward blob
        reference = Reference(name)
        reference.ref = ref
        return reference

    def gradient(self, gradient: GradientRef | None) -> Gradient | None:
        """The same for a whole gradient, or for none."""
        if isinstance(gradient, int):
            return self.reference(gradient)
        if gradient is None:
            return None
        return GradientSlice(self.reference(gradient[0]), self.reference(gradient[1]))

    def device_of(self, ref: Ref) -> Any:
        """Where the blob lies; None where nothing was said."""
        if ref < 0:
            return self._versions.device_of(~ref)
        return self.devices.get(ref)

    def is_own(self, ref: Ref, value: int) -> bool:
        """Whether ``ref`` was computed as a gradient of ``value``, rather than passed through."""
        return ref >= 0 and self.claims[ref] == value

    def protect(self, gradients: Iterable[GradientRef]) -> None:
        """Let gradients outlive the tape: their blobs are not written again."""
        last_reads = self.last_reads
        for gradient in gradients:
            if isinstance(gradient, int):
                if gradient >= 0:
                    last_reads[gradient] = FOREVER
            else:
                self.protect(gradient)

    def lasting(self, ref: Ref) -> Ref:
        """What still holds the forward value ``ref`` when gradient operators run."""
        if ~ref not in self._versions.following:
            return ref
        return self._keep(~ref, self.reader, self)

    # ---- operators ----------------------------------------------------------------------------------

    def append(
        self,
        operators: Iterable[Operator],
        origin: int | None,
        device: Any,
        meaning: Callable[[str, Operator], Ref] = _nothing,
    ) -> Local:
        """Append the operators of one rule call, or of one phrase of a vocabulary.

        Args:
            operators: Operators with local names.
            origin: The forward operator they belong to.
            device: Where an operator runs that says nothing itself.
            meaning: What a plain name means that none of the operators before has written.

        Returns:
            What they wrote.

        Raises:
            UnknownNameError: An operator reads a name that means nothing.
        """
        local: Local = {}
        last_reads, following = self.last_reads, self._versions.following
        wishes, claims = self.wishes, self.claims
        for op in operators:
            first_cell = cell = len(wishes)
            reads: list[Ref] = []
            for name in op.inputs:
                if name.__class__ is Reference:
                    ref = name.ref
                    if ref in local:
                        ref = local[ref]
                elif name in local:
                    ref = local[name]
                elif name == "":
                    reads.append(ABSENT)
                    continue
                else:
                    ref = meaning(name, op)
                if ref >= 0:
                    last_reads[ref] = first_cell
                elif ~ref in following:
                    ref = self.lasting(ref)  # the forward value, or a blob of the caller
                reads.append(ref)
            if len(wishes) > first_cell:  # a value was kept, which has taken this cell
                first_cell = cell = len(wishes)
                for ref in reads:
                    if ref > ABSENT:
                        last_reads[ref] = first_cell
            for name in op.outputs:
                key: str | int = name
                if name.__class__ is Reference:
                    key, name = name.ref, str(name)
                if key in local:
                    self.earlier[cell] = self.places[cell] = local[key]
                if key != "":
                    local[key] = cell
                wishes.append(without_occurrence(name) if "⟨" in name else name)
                claims.append(UNCLAIMED)
                last_reads.append(UNREAD)
                cell += 1
            runs_on = device if op.device is None else op.device
            if runs_on is not None:
                self.devices.update((ref, runs_on) for ref in range(first_cell, cell))
            self.operators.append(draft(op, tuple(reads), runs_on))
            self.first_cells.append(first_cell)
            self.origins.append(origin)
        return local

    def write(self, op: Operator, reads: tuple[Ref, ...], wish: str, origin: int | None) -> Ref:
        """Append an operator with one output that reads cells only; the names in ``op`` mean nothing.

        Returns:
            The cell that it writes.
        """
        last_reads = self.last_reads
        cell = len(self.wishes)
        for ref in reads:
            last_reads[ref] = cell
        self.wishes.append(wish)
        self.claims.append(UNCLAIMED)
        last_reads.append(UNREAD)
        self.operators.append(draft(op, reads, op.device))
        self.first_cells.append(cell)
        self.origins.append(origin)
        return cell

    def named(self, position: int) -> Operator:
        """The emitted operator at ``position``, with references as names."""
        op = self.operators[position]
        first = self.first_cells[position]
        outputs = tuple(self.wishes[first : first + len(op.outputs)])
        inputs = map(self.reference, op.inputs)
        return Operator(op.type, inputs, outputs, op.attributes, op.domain, op.device, op.name)

    def writer(self, cell: int) -> int:
        """The position of the operator that writes ``cell``."""
        return bisect_right(self.first_cells, cell) - 1

    def replace(self, position: int, op: Operator, ref: Ref) -> None:
        """Let the emitted operator at ``position`` be ``op``, which reads ``ref`` besides."""
        reads = list(self.operators[position].inputs)
        reads += [ABSENT] * (len(op.inputs) - len(reads))
        reads[max(k for k, name in enumerate(op.inputs) if getattr(name, "ref", None) == ref)] = ref
        self.operators[position] = draft(op, tuple(reads), op.device)
        if ref >= 0:
            self.last_reads[ref] = max(self.last_reads[ref], self.first_cells[position])
