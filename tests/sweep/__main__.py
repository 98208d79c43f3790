"""Sweep over the node tests of the standard: `python -m tests.sweep` (or `make sweep`)."""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

from tests.sweep.known import unexpected
from tests.sweep.models import FORMS, node_tests
from tests.sweep.pool import sweep
from tests.sweep.record import record, recorded
from tests.sweep.table import PAGE, as_page, summary
from tests.sweep.verdict import Finding, Verdict


def main() -> int:
    """Examine every node test in every form, write the table, and say whether all is well."""
    parser = argparse.ArgumentParser(prog="python -m tests.sweep", description=main.__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="names of node tests; writes no table")
    parser.add_argument("--form", choices=FORMS, action="append", help="one form; writes no table")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=float, default=120.0, metavar="SECONDS", help="for one model")
    parser.add_argument("--quiet", action="store_true", help="the counts only")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="records findings, and skips those in it")
    arguments = parser.parse_args()
    names = [name for name in node_tests() if re.search(arguments.only, name)]
    forms = arguments.form or FORMS

    def progress(finding: Finding) -> None:
        record(arguments.resume, finding)
        if not arguments.quiet and finding.verdict not in (Verdict.AGREES, Verdict.NO_PATH):
            title = f"{finding.name} ({finding.form}): {finding.verdict.value}"
            print(f"{title}: {finding.reason[:400]}", flush=True)

    started = time.monotonic()
    tasks = [(name, form) for form in forms for name in names]
    known = recorded(arguments.resume)
    pending = [task for task in tasks if task not in known]
    fresh = sweep(pending, workers=arguments.workers, limit=arguments.limit, progress=progress)
    by_task = {**known, **{(finding.name, finding.form): finding for finding in fresh}}
    findings = [by_task[task] for task in tasks]
    print(summary(findings))
    print(f"{len(findings)} models in {time.monotonic() - started:.0f} seconds")
    if not arguments.only and not arguments.form:
        page = Path(__file__).parents[2] / PAGE
        page.write_text(as_page(findings))
        print(f"wrote {PAGE}")
    faults = [finding for finding in findings if unexpected(finding)]
    for finding in faults:
        print(f"fault: {finding.name} ({finding.form}): {finding.verdict.value}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
