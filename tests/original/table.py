"""What came of the original's tests, as a page."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from tests.original.files import RELEASE
from tests.original.known import EXCLUDED, reason_for
from tests.original.run import Outcome

PAGE = f"docs/reference/caffe2-tests-{RELEASE}.md"
"""Where the page stands, from the root of the repository."""

_INTRODUCTION = f"""\
# Caffe2's own tests, release {RELEASE}

The test files of the Caffe2 in PyTorch {RELEASE}, run with `netgrad.caffe2` in its place. A test counts if it
passes with Caffe2 itself on a CPU. `make original` fetches the files, runs them and writes this page.
"""


def as_page(outcomes: Sequence[Outcome], passing: Mapping[str, Sequence[str]]) -> str:
    """The whole page: counts by file, then every test that passes with the original only, with the reason."""
    rows, failures = [], []
    total = passed = 0
    for outcome in outcomes:
        expected = passing.get(outcome.name, [])
        if not expected:
            continue
        good = [test for test in expected if test in outcome.passed]
        total, passed = total + len(expected), passed + len(good)
        rows.append(f"| {outcome.name} | {len(expected)} | {len(good)} |")
        for test in expected:
            if test not in good:
                why = (
                    reason_for(f"{outcome.name}::{test}", RELEASE)
                    or outcome.failed.get(test)
                    or outcome.fault
                )
                failures.append(f"| {outcome.name} | {test.replace('::', '.')} | {_short(why)} |")
    excluded = [f"| {start} | {reason} |" for start, reason in EXCLUDED.items()]
    parts = [_INTRODUCTION, f"Of {total} tests {passed} pass.", ""]
    if failures:
        parts += ["## Those that don't", "", "| file | test | why |", "|---|---|---|", *failures, ""]
    parts += [
        "## By file",
        "",
        "| file | pass with Caffe2 | of these with netgrad |",
        "|---|---|---|",
        *rows,
        "",
    ]
    parts += ["## Left out", "", "| files | reason |", "|---|---|", *excluded, ""]
    return "\n".join(parts)


def _short(why: str) -> str:
    return textwrap.shorten(why or "did not run", 200, placeholder=" ...").replace("|", "\\|")
