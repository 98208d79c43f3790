"""The example scripts run unmodified, and learn what they are to learn."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples" / "caffe2"


def _run(script: str, *arguments: str, folder: Path | None = None) -> str:
    command = [sys.executable, "-m", "netgrad.caffe2", str(EXAMPLES / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_toy_regression_finds_the_truth() -> None:
    found = re.search(r"largest difference: (\S+)", _run("toy_regression.py"))
    assert found
    assert float(found[1]) < 0.05


def test_lenet_learns_the_digits() -> None:
    held_out = re.findall(r"held out (\S+)", _run("digits_lenet.py", "5"))
    assert len(held_out) == 5
    assert float(held_out[-1]) > 0.93


def test_a_sparse_model_learns_its_table() -> None:
    losses = re.findall(r"loss (\S+)", _run("sparse_embedding.py"))
    assert float(losses[-1]) < 0.1


def test_a_recurrent_net_learns_a_text_and_writes_it() -> None:
    printed = _run("char_rnn.py", "6")
    assert float(re.findall(r"loss (\S+)", printed)[-1]) < 0.3
    assert "written: Beautiful is better than " in printed


def test_a_pretrained_pair_predicts(tmp_path: Path) -> None:
    found = re.search(r"sum: (\S+)", _run("pretrained.py", folder=tmp_path))
    assert found
    assert abs(float(found[1]) - 1) < 1e-5
    assert (tmp_path / "tiny_predict_net.pb").is_file()


def test_devices_learn_the_digits_together() -> None:
    printed = _run("data_parallel.py", "5", "2")
    held_out = re.findall(r"held out (\S+)", printed)
    assert len(held_out) == 5
    assert float(held_out[-1]) > 0.93
    assert "largest difference between devices: 0.0\n" in printed


def test_a_job_goes_on_where_it_was(tmp_path: Path) -> None:
    whole = _run("resumable_job.py", str(tmp_path), "4")
    assert float(re.findall(r"held out (\S+)", whole)[0]) > 0.8
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *(f"digits.{epoch}" for epoch in range(5)),
        "model.minidb",
    ]
    assert _run("resumable_job.py", str(tmp_path), "4", "2") == whole
