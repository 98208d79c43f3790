"""Findings on disk, so that an interrupted sweep can go on where it was."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from tests.sweep.verdict import Finding, Verdict


def recorded(path: Path | None) -> dict[tuple[str, str], Finding]:
    """The findings in a file, by name and form; none where there is no file."""
    if path is None or not path.exists():
        return {}
    found = {}
    for line in path.read_text().splitlines():
        fields = json.loads(line)
        finding = Finding(**{**fields, "verdict": Verdict(fields["verdict"])})
        found[finding.name, finding.form] = finding
    return found


def record(path: Path | None, finding: Finding) -> None:
    """Append a finding to a file, one JSON object a line."""
    if path is not None:
        with path.open("a") as file:
            file.write(json.dumps({**asdict(finding), "verdict": finding.verdict.value}) + "\n")
