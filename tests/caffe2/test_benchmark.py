"""The benchmark of programs on Caffe2's API runs, quickly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"


def test_programs_report_their_times(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    command = [sys.executable, str(FOLDER / "caffe2.py"), "--quick", "--runs", "1", "--record", str(record)]
    done = subprocess.run([*command, "--programs", "overhead", "building"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = json.loads(record.read_text())["rows"]
    assert {row["program"] for row in rows} == {"overhead", "building"}
    assert all(row["netgrad"]["value"] > 0 and row["ratio"] is None for row in rows)
    assert "tiny net of 3 operators: RunNet" in done.stdout


def test_the_record_is_of_all_programs() -> None:
    rows = json.loads((FOLDER / "results" / "caffe2.json").read_text())["rows"]
    programs = {path.stem for path in (FOLDER / "caffe2_programs").glob("*.py")} - {"measure"}
    assert {row["program"] for row in rows} == programs
    assert all(row["ratio"] > 0 for row in rows)
