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


_SCALES = (
    "at the scales of the tests sizes jump, or an evaluator takes no other ones; "
    "tests/onnx/rules/cases/resize.py measures them"
)
WITHOUT_DIFFERENCE: dict[tuple[str, int], str] = {("Resize", 2): _SCALES, ("Upsample", 1): _SCALES}
"""Inputs, by operator type and position, where there is no difference to compare with, and why."""


def reason_for(name: str) -> str | None:
    """Why a node test may be refused or not be measurable; None where it may not."""
    return next((reason for pattern, reason in KNOWN.items() if re.fullmatch(pattern, name)), None)


def unexpected(finding: Finding) -> bool:
    """Whether a finding is a fault: wrong, a crash, or refused or not measured without being `KNOWN`."""
    if finding.verdict in (Verdict.WRONG, Verdict.CRASH):
        return True
    excused = finding.verdict not in (Verdict.REFUSED, Verdict.UNMEASURED)
    return not excused and reason_for(finding.name) is None
