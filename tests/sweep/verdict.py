"""What can come out for one model."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class Verdict(enum.Enum):
    """What came out."""

    AGREES = "agrees"
    NO_PATH = "no float path"
    DECLARED = "declared without derivative"
    REFUSED = "refused"
    UNMEASURED = "cannot be measured"
    WRONG = "wrong"
    CRASH = "crash"


@dataclass(frozen=True)
class Finding:
    """What came out for one model.

    Attributes:
        name: Of the node test.
        form: One of `tests.sweep.models.FORMS`.
        operator: The operator that is tested.
        verdict: What came out.
        reason: Why it is not `Verdict.AGREES`; else how it was measured.
    """

    name: str
    form: str
    operator: str
    verdict: Verdict
    reason: str


class Found(Exception):  # noqa: N818  it is a result, not an error
    """Ends an examination.

    Attributes:
        verdict: What came out.
        reason: Why, in one line.
        names: The inputs by which nothing could be measured.
    """

    def __init__(self, verdict: Verdict, reason: str, names: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.verdict = verdict
        self.reason = " ".join(reason.split())
        self.names = tuple(names)


def counts(findings: Sequence[Finding]) -> Mapping[str, Mapping[Verdict, int]]:
    """How many models of each form got each verdict."""
    table: dict[str, dict[Verdict, int]] = {}
    for finding in findings:
        row = table.setdefault(finding.form, dict.fromkeys(Verdict, 0))
        row[finding.verdict] += 1
    return table
