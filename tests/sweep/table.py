"""What the sweep found, as a page."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tests.sweep.verdict import Finding, Verdict, counts

PAGE = "docs/reference/node-tests.md"
"""Where the page stands, from the root of the repository."""

_INTRODUCTION = """\
# Node tests of the standard

The onnx package generates a test model for every form of every operator that it thinks worth a test. This
page says what came of differentiating each by every floating-point input, with a random cotangent: the
gradient model passes the checker, runs, and agrees with central differences of the model, or not. Three
times: as written, with a symbol for every dim, and with initializers in place of the inputs. `make sweep`
writes it.

| verdict | meaning |
|---|---|
| agrees | the gradient is right |
| no float path | no floating-point input leads to a floating-point output |
| declared without derivative | netgrad says that there is nothing to differentiate, or zero |
| refused | netgrad says that it has no gradient for this form |
| cannot be measured | no runtime computes the model precisely enough, or it draws random numbers |
| wrong, crash | a fault of netgrad |
"""


def summary(findings: Sequence[Finding]) -> str:
    """Counts as a Markdown table: a row per form."""
    lines = [
        "| form | " + " | ".join(verdict.value for verdict in Verdict) + " |",
        "|---" * (len(Verdict) + 1) + "|",
    ]
    for form, row in counts(findings).items():
        lines.append(f"| {form} | " + " | ".join(str(row[verdict]) for verdict in Verdict) + " |")
    return "\n".join(lines)


def as_page(findings: Sequence[Finding]) -> str:
    """The whole page: counts, then every model that does not agree, with the reason."""
    parts = [_INTRODUCTION, summary(findings), ""]
    for verdict in Verdict:
        listed = _grouped(findings, verdict)
        if verdict is Verdict.AGREES or not listed:
            continue
        parts += [f"## {verdict.value.capitalize()}", "", "| model | forms | reason |", "|---|---|---|"]
        parts += listed
        parts.append("")
    return "\n".join(parts)


def _grouped(findings: Sequence[Finding], verdict: Verdict) -> list[str]:
    """A row for each model and reason, with the forms it holds for."""
    rows: dict[tuple[str, str], list[str]] = {}
    for finding in findings:
        if finding.verdict is verdict:
            rows.setdefault((finding.name, _short(finding.reason)), []).append(finding.form)
    return [f"| {name} | {', '.join(forms)} | {reason} |" for (name, reason), forms in rows.items()]


def _short(reason: str) -> str:
    return textwrap.shorten(reason, 240, placeholder=" ...").replace("|", "\\|")
