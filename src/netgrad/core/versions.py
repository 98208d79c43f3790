"""Versions: every write of a blob makes a new value, and everything else is keyed by value.

A value is one version of one blob. Inside the core a value is a small integer, the position of its entry in
the lists of `Versions`, because a net may have millions of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.core.operator import Operator

NONE = -1
"""Stands for "no such value" or "no such operator" in the lists of integers."""


class Versions:
    """The numbered values of a list of operators.

    A blob that is first met as an input has version 0 there; one that is first met as an output starts at 0.
    Every later write adds one. An operator reads before it writes, so one that works in place reads version
    ``v`` and writes ``v + 1``. The name ``""`` is an absent operand and never a blob.

    Attributes:
        reads: For each operator, the value of each input, NONE for an absent one.
        writes: For each operator, the value of each output, NONE for an absent one.
        blobs: Value to name of its blob.
        producers: Value to the operator that writes it, NONE for an input of the net.
        first_readers: Value to the first operator that reads it, or NONE.
        following: Value to the next version of its blob; the last versions aren't in it.
        preceding: Value to the version before; the first versions aren't in it.
        last: Blob to its last value.
    """

    __slots__ = (
        "_numbers",
        "_operators",
        "blobs",
        "first_readers",
        "following",
        "last",
        "preceding",
        "producers",
        "reads",
        "writes",
    )

    def __init__(self, operators: Sequence[Operator]) -> None:
        self._operators = operators
        self.reads: list[tuple[int, ...]] = []
        self.writes: list[tuple[int, ...]] = []
        self.blobs: list[str] = []
        self.producers: list[int] = []
        self.first_readers: list[int] = []
        self.following: dict[int, int] = {}
        self.preceding: dict[int, int] = {}
        self._numbers: dict[int, int] = {}  # of versions after the first
        self.last: dict[str, int] = {}
        last, blobs, producers, first_readers = self.last, self.blobs, self.producers, self.first_readers
        value_of = last.__getitem__
        for index, op in enumerate(operators):
            try:
                read = tuple(map(value_of, op.inputs))
            except KeyError:  # an operand is left out, or met for the first time
                read = tuple([self._read(blob, index) for blob in op.inputs])
            else:
                for value in read:
                    if first_readers[value] < 0:
                        first_readers[value] = index
            self.reads.append(read)
            written = []
            for blob in op.outputs:
                if not blob:
                    written.append(NONE)
                elif blob in last:
                    written.append(self._add(blob, index))
                else:  # what `_add` does for a new blob
                    last[blob] = value = len(blobs)
                    blobs.append(blob)
                    producers.append(index)
                    first_readers.append(NONE)
                    written.append(value)
            self.writes.append(tuple(written))

    def last_value(self, blob: str) -> int:
        """The last value of ``blob``; a blob that no operator names gets version 0 now."""
        value = self.last.get(blob, NONE)
        return value if value >= 0 else self._add(blob, NONE)

    def value(self, blob: str, version: int | None = None) -> int:
        """The value of one version of ``blob`` (None: the last), NONE if there is no such version."""
        value = self.last.get(blob, NONE)
        while version is not None and value >= 0 and self.number(value) != version:
            value = self.preceding.get(value, NONE)
        return value

    def number(self, value: int) -> int:
        """The version number of ``value``."""
        return self._numbers.get(value, 0)

    def values(self, blob: str) -> list[int]:
        """All values of ``blob``, the newest first."""
        found = []
        value = self.last.get(blob, NONE)
        while value >= 0:
            found.append(value)
            value = self.preceding.get(value, NONE)
        return found

    def readers(self, value: int) -> list[int]:
        """The operators that read ``value``; for messages, since it looks at all of them."""
        return [index for index, reads in enumerate(self.reads) if value in reads]

    def device_of(self, value: int) -> Any:
        """Where a value lies: at its producer, or at its first reader if it is an input of the net."""
        at = self.producers[value]
        if at == NONE:
            at = self.first_readers[value]
        return None if at == NONE else self._operators[at].device

    def _read(self, blob: str, reader: int) -> int:
        if not blob:
            return NONE
        value = self.last_value(blob)
        if self.first_readers[value] < 0:
            self.first_readers[value] = reader
        return value

    def _add(self, blob: str, producer: int) -> int:
        value = len(self.blobs)
        before = self.last.get(blob, NONE)
        if before >= 0:
            self.following[before] = value
            self.preceding[value] = before
            self._numbers[value] = self.number(before) + 1
        self.last[blob] = value
        self.blobs.append(blob)
        self.producers.append(producer)
        self.first_readers.append(NONE)
        return value
