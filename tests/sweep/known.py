"""What the sweep cannot examine, or finds refused, and why: anything else is a fault."""

from __future__ import annotations

import re

from tests.sweep.verdict import Finding, Verdict

KNOWN: dict[str, str] = {
    "test_training_dropout.*": "another mask is drawn each time (see tests/onnx/rules/test_dropout.py)",
    "test_ai_onnx_ml_tree_ensemble.*": "trees are refused by name",
    "test_adam_multiple": "the reference evaluator, which alone runs it, computes in float32",
}
"""Patterns of names of node tests that may be refused or not be measurable, with the reason."""


def reason_for(name: str) -> str | None:
    """Why a node test may be refused or not be measurable; None where it may not."""
    return next((reason for pattern, reason in KNOWN.items() if re.fullmatch(pattern, name)), None)


def unexpected(finding: Finding) -> bool:
    """Whether a finding is a fault: wrong, a crash, or refused or not measured without being `KNOWN`."""
    if finding.verdict in (Verdict.WRONG, Verdict.CRASH):
        return True
    excused = finding.verdict not in (Verdict.REFUSED, Verdict.UNMEASURED)
    return not excused and reason_for(finding.name) is None
