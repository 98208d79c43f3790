"""One test file of the original, run in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.original.files import ROOT
from tests.original.plugin import TESTS

_HERE = Path(__file__).parents[2]
_ONE_TEST = 120
_ONE_FILE = 1200


@dataclass
class Outcome:
    """What came of the tests of a file.

    Attributes:
        name: The file, below the folder of the original's Python modules.
        passed: Tests that passed, as ``class::test``.
        skipped: Those that skipped themselves.
        failed: Those that failed, with the message.
        fault: Why nothing ran, if so.
    """

    name: str
    passed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    fault: str = ""


def run(name: str, interpreter: str | None = None, tests: Sequence[str] = ()) -> Outcome:
    """Run a test file with netgrad in the original's place.

    Args:
        name: The file, below the folder of the original's Python modules.
        interpreter: A Python that has the original itself, which is to run instead.
        tests: The tests to run, as ``class::test``; without any, all.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copy(ROOT / name, folder))
        report = Path(folder) / "report.xml"
        (Path(folder) / "pytest.ini").write_text("[pytest]\n")
        command = [interpreter or sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider"]
        command += [f"--timeout={_ONE_TEST}", f"--junitxml={report}", copy.name]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        if interpreter is None:
            command += ["-p", "tests.original.plugin"]
            if tests:
                wanted = Path(folder) / "tests.txt"
                wanted.write_text("\n".join(tests))
                environment[TESTS] = str(wanted)
            environment["PYTHONPATH"] = f"{_HERE / 'src'}{os.pathsep}{_HERE}"
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_ONE_FILE
            )
        except subprocess.TimeoutExpired:
            return Outcome(name, fault=f"it takes more than {_ONE_FILE} seconds")
        if not report.is_file():
            return Outcome(name, fault=_last_line(done.stdout + done.stderr))
        return read(name, report)


def read(name: str, report: Path) -> Outcome:
    outcome = Outcome(name)
    for case in ElementTree.parse(report).iter("testcase"):
        test = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        fault = next((part for part in case if part.tag in ("failure", "error")), None)
        if fault is not None:
            outcome.failed[test] = fault.get("message") or _last_line(fault.text or "")
        elif case.find("skipped") is not None:
            outcome.skipped.append(test)
        else:
            outcome.passed.append(test)
    return outcome


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
