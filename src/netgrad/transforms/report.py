"""What a gradient check found, to read and as data."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import Any


class Verdict(enum.Enum):
    """Whether a gradient and its measurement agree."""

    AGREE = "agree"
    KINK = "kink"
    """The objective has a corner at the point, and the gradient lies between the slopes on its two sides."""
    UNCLEAR = "unclear"
    """The measurement is too rough to tell."""
    DISAGREE = "disagree"


@dataclass(frozen=True)
class Worst:
    """The element at which gradient and measurement differ most.

    Attributes:
        index: Its index.
        gradient: What the gradient model gives.
        measured: What central differences give.
        error: The difference relative to the gradient's size.
    """

    index: tuple[int, ...]
    gradient: float
    measured: float
    error: float


@dataclass(frozen=True)
class Entry:
    """The result for one name.

    Attributes:
        name: The name in ``wrt``.
        shape: Its shape.
        dtype: Its element type.
        verdict: Whether the gradient is right.
        error: The largest difference, relative to the gradient's size.
        elements: How many elements were measured one by one.
        worst: The worst of them, if any was measured.
        note: What else is wrong, or nothing.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    verdict: Verdict
    error: float
    elements: int
    worst: Worst | None
    note: str


@dataclass(frozen=True)
class Culprit:
    """An operator whose gradient is wrong by itself.

    Attributes:
        type: Operator type.
        node: Name of the node.
        rule: The rule, as ``function (file:line)``; empty where there is none.
        input: Name of the input whose gradient is wrong.
        position: Its position.
        error: The difference relative to the gradient's size.
        worst: The worst element of the operator's own gradient, if elements were measured.
    """

    type: str
    node: str
    rule: str
    input: str
    position: int
    error: float
    worst: Worst | None

    def __str__(self) -> str:
        """One line."""
        rule = f", rule {self.rule}" if self.rule else ""
        where = f"input {self.position} ('{self.input}')"
        text = f"{self.type} node '{self.node}': gradient of {where} is off by {self.error:.2g}{rule}"
        if self.worst is not None:
            worst = self.worst
            text += f"; at {list(worst.index)} {worst.gradient:.6g} instead of {worst.measured:.6g}"
        return text


@dataclass(frozen=True)
class CheckReport:
    """What `netgrad.check` found.

    Attributes:
        of: The targets.
        entries: One result for each name in ``wrt``.
        culprits: Operators whose own gradient is wrong, in the order of the graph.
        note: What the search for culprits says besides.
        precision: The type that the model was measured in.
        engine: What ran the model.
        gradient_precision: The type that the gradient was computed in.
        tolerance: The relative difference that was allowed.
    """

    of: tuple[str, ...]
    entries: tuple[Entry, ...]
    culprits: tuple[Culprit, ...]
    note: str
    precision: str
    engine: str
    gradient_precision: str
    tolerance: float

    @property
    def ok(self) -> bool:
        """Whether every gradient agrees with its measurement (or the objective has a corner there)."""
        return all(entry.verdict in (Verdict.AGREE, Verdict.KINK) for entry in self.entries)

    def __str__(self) -> str:
        """A table with a line for each name, then the culprits."""
        rows = [("wrt", "type", "verdict", "difference", "worst element")]
        for entry in self.entries:
            dims = ", ".join(map(str, entry.shape))
            rows.append(
                (
                    entry.name,
                    f"{entry.dtype}[{dims}]",
                    entry.verdict.value,
                    f"{entry.error:.1e}" if entry.error else "-",
                    entry.note or _describe(entry.worst, entry.verdict),
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = [
            "  ".join(
                [*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]
            ).rstrip()
            for row in rows
        ]
        counts = {verdict: sum(entry.verdict is verdict for entry in self.entries) for verdict in Verdict}
        summary = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count)
        lines.append(
            f"gradient of {', '.join(self.of)}: {summary} (tolerance {self.tolerance:.0e}; measured in "
            f"{self.precision} by {self.engine}, gradient in {self.gradient_precision})"
        )
        lines += [f"culprit: {culprit}" for culprit in self.culprits]
        if self.note:
            lines.append(self.note)
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data for JSON; infinite differences are None."""
        return {
            "ok": self.ok,
            "of": list(self.of),
            "tolerance": self.tolerance,
            "precision": self.precision,
            "engine": self.engine,
            "gradient_precision": self.gradient_precision,
            "entries": [_plain(asdict(entry)) for entry in self.entries],
            "culprits": [_plain(asdict(culprit)) for culprit in self.culprits],
            "note": self.note,
        }


def _describe(worst: Worst | None, verdict: Verdict) -> str:
    if worst is None or verdict in (Verdict.AGREE, Verdict.KINK):
        return ""
    return f"{list(worst.index)}: {worst.gradient:.6g}, measured {worst.measured:.6g}"


def _plain(value: Any) -> Any:
    """JSON has neither tuples, enumerations nor infinity."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Verdict):
        return value.value
    if isinstance(value, float) and not (float("-inf") < value < float("inf")):
        return None
    return value
