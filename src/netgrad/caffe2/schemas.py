"""How many inputs and outputs operators have, and which of their outputs have to be an input.

The table is that of the last released original, by operator type: ``operator_counts.tsv``. Types that aren't
in it take any number, and so do those that took other numbers before (``Expand``, ``Lars``), and
``CopyRowsToTensorGradient``, which here reads more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Counts:
    """Which numbers are permitted.

    Attributes:
        text: As in the table.
        least: The smallest one.
        most: The largest one, or None where there is no bound.
        step: How far they lie apart.
        several: They themselves, where they follow no rule.
    """

    text: str
    least: int
    most: int | None
    step: int = 1
    several: tuple[int, ...] = ()

    @staticmethod
    def of(text: str) -> Counts:
        """The numbers that a text of the table means."""
        if "," in text:
            several = tuple(map(int, text.split(",")))
            return Counts(text, several[0], several[-1], 1, several)
        span, _, step = text.partition("/")
        least, dash, most = span.partition("-")
        bound = int(most) if most else None
        return Counts(text, int(least), bound if dash else int(least), int(step or 1))

    def allows(self, count: int) -> bool:
        """Whether a number is permitted."""
        if self.several:
            return count in self.several
        inside = count >= self.least and (self.most is None or count <= self.most)
        return inside and (count - self.least) % self.step == 0

    def __str__(self) -> str:
        if self.several:
            return " or ".join(map(str, self.several))
        if self.most is None:
            steps = "" if self.step == 1 else f" in steps of {self.step}"
            return f"{self.least} or more{steps}"
        return str(self.least) if self.least == self.most else f"{self.least} to {self.most}"


@dataclass(frozen=True, slots=True)
class Schema:
    """What the original says of an operator type.

    Attributes:
        inputs: How many inputs it takes.
        outputs: How many outputs it has.
        in_place: Pairs of an input and the output that has to be the same blob.
    """

    inputs: Counts
    outputs: Counts
    in_place: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(inputs: str, outputs: str, in_place: Sequence[str] = ()) -> Schema:
        """That of a line of the table."""
        pairs = (text.split(">") for text in in_place)
        return Schema(Counts.of(inputs), Counts.of(outputs), tuple((int(i), int(o)) for i, o in pairs))


@cache
def _schemas() -> dict[str, Schema]:
    found = {}
    for line in files("netgrad.caffe2").joinpath("operator_counts.tsv").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            type_, inputs, outputs, *pairs = line.split("\t")
            found[type_] = Schema.of(inputs, outputs, pairs[0].split(",") if pairs else ())
    return found


def schema_of(type_: str) -> Schema | None:
    """That of an operator type, or None where nothing is known."""
    return _schemas().get(type_)


def schema_problem(type_: str, inputs: Sequence[str], outputs: Sequence[str] | None = None) -> str | None:
    """Why an operator can't be one of its type, or None; without ``outputs`` only its inputs are counted."""
    schema = _schemas().get(type_)
    if schema is None:
        return None
    if not schema.inputs.allows(len(inputs)):
        return f"Input size {len(inputs)} is not what {type_} takes, which is {schema.inputs}"
    if outputs is not None and not schema.outputs.allows(len(outputs)):
        return f"Output size {len(outputs)} is not what {type_} has, which is {schema.outputs}"
    return None


def in_place_problem(type_: str, inputs: Sequence[str], outputs: Sequence[str]) -> str | None:
    """Why an operator does not work in place where its type has to, or None."""
    schema = _schemas().get(type_)
    for read, written in schema.in_place if schema is not None else ():
        if read < len(inputs) and written < len(outputs) and inputs[read] != outputs[written]:
            return (
                f"{type_} works in place: output {written} has to be input {read}, which is {inputs[read]!r}"
            )
    return None
