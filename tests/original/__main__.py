"""Run the original's test files: `python -m tests.original` (or `make original`)."""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.original.files import RELEASE, FetchError, fetch, listed
from tests.original.known import reason_for
from tests.original.plugin import EXAMPLES
from tests.original.run import Outcome, run
from tests.original.table import PAGE, as_page

PASSING = Path(__file__).with_name(f"passing-{RELEASE}.json")
"""Which tests pass with the original: file to ``class::test``."""


def main() -> int:
    """Run the original's test files with netgrad in its place, and say which tests fail that pass there."""
    parser = argparse.ArgumentParser(prog="python -m tests.original", description=main.__doc__)
    parser.add_argument("files", nargs="*", metavar="PATTERN", help="of test files; writes no page")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--record", metavar="PYTHON", help="an interpreter with the original, of which to record what passes"
    )
    parser.add_argument("--examples", type=int, metavar="N", help="drawn per test, where it says no number")
    arguments = parser.parse_args()
    if arguments.examples:
        os.environ[EXAMPLES] = str(arguments.examples)
    try:
        fetch()
    except FetchError as error:
        print(error, file=sys.stderr)
        return 2
    passing: dict[str, list[str]] = json.loads(PASSING.read_text()) if PASSING.is_file() else {}
    patterns = arguments.files or ["*"]
    names = [name for name in listed() if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    with ThreadPoolExecutor(arguments.workers) as executor:
        outcomes = executor.map(lambda name: run(name, arguments.record, passing.get(name, [])), names)
        if arguments.record:
            _record(outcomes)
            return 0
        return _judge(outcomes, passing, write=not arguments.files)


def _record(outcomes: Iterator[Outcome]) -> None:
    passing = {outcome.name: sorted(outcome.passed) for outcome in outcomes if outcome.passed}
    known = json.loads(PASSING.read_text()) if PASSING.is_file() else {}
    PASSING.write_text(json.dumps({**known, **passing}, indent=1, sort_keys=True) + "\n")
    print(f"{sum(map(len, passing.values()))} tests of {len(passing)} files pass with the original")


def _judge(outcomes: Iterator[Outcome], passing: Mapping[str, Sequence[str]], write: bool) -> int:
    found, faults = [], 0
    for outcome in outcomes:
        found.append(outcome)
        expected = passing.get(outcome.name, [])
        passed = sum(test in outcome.passed for test in expected)
        print(f"{outcome.name}: {passed} of {len(expected)}  {outcome.fault}", flush=True)
        for test in expected:
            reason = reason_for(f"{outcome.name}::{test}", RELEASE)
            if test not in outcome.passed and reason is None:
                faults += 1
                print(f"  fault: {test}: {outcome.failed.get(test, 'did not run')[:300]}", flush=True)
    if write:
        page = Path(__file__).parents[2] / PAGE
        page.write_text(as_page(found, passing))
        print(f"wrote {PAGE}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
