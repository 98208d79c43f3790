"""Logs of training, and calls that have to end in time."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from netgrad.caffe2.python.experiment_util import ExternalLogger, ModelTrainerLog
from netgrad.caffe2.python.timeout_guard import CompleteInTimeOrDie, WatcherThread


class _Kept(ExternalLogger):
    def __init__(self) -> None:
        self.arguments: dict[str, Any] = {}
        self.reports: list[dict[str, Any]] = []

    def set_runtime_args(self, runtime_args: dict[str, Any]) -> None:
        self.arguments = runtime_args

    def log(self, log_dict: dict[str, Any]) -> None:
        self.reports.append(log_dict)


def test_a_log_has_a_line_for_each_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept = _Kept()
    log = ModelTrainerLog("digits", argparse.Namespace(batch=32), [kept])
    log.log(64, 2, {"loss": 0.5, "accuracy": 0.9})
    log.log(160, 5, {"accuracy": 0.95, "loss": 0.25})
    (file,) = tmp_path.iterdir()
    assert file.name == log.filename == f"{log.experiment_id}.log"
    lines = file.read_text().splitlines()
    assert lines[0] == "# Namespace(batch=32)"
    names = lines[1].split(",")
    assert names[2:5] == ["input_count", "cumulative_input_count", "cumulative_batch_count"]
    assert names[-2:] == ["accuracy", "loss"]
    assert lines[2].split(",")[2:5] == ["64", "64", "2"]
    assert lines[3].split(",")[2:5] == ["96", "160", "5"]
    assert lines[3].split(",")[-2:] == ["0.95", "0.25"]
    assert (kept.arguments["batch"], kept.arguments["experiment_id"]) == (32, log.experiment_id)
    assert [report["input_count"] for report in kept.reports] == [64, 96]
    with pytest.raises(ValueError, match="columns"):
        log.log(200, 6, {"loss": 0.1})


def test_a_call_that_ends_in_time_goes_on() -> None:
    started = time.monotonic()
    with CompleteInTimeOrDie(60.0):
        found = 1 + 1
    with pytest.raises(ZeroDivisionError), CompleteInTimeOrDie(0.2):
        raise ZeroDivisionError
    time.sleep(0.3)
    assert (found, time.monotonic() - started < 30) == (2, True)
    watcher = WatcherThread(60.0)
    watcher.start()
    watcher.complete()
    watcher.join(10)
    assert not watcher.is_alive()


def test_a_call_that_does_not_end_is_interrupted() -> None:
    script = (
        "import signal, time\n"
        "from netgrad.caffe2.python.timeout_guard import CompleteInTimeOrDie\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # jobs in the background ignore it
        "with CompleteInTimeOrDie(0.1):\n"
        "    time.sleep(60)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode != 0
    assert "KeyboardInterrupt" in done.stderr
    assert "Call did not finish in time" in done.stderr
    assert "thread MainThread" in done.stdout
