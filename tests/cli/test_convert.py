"""`netgrad convert`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

import netgrad
from netgrad import caffe2
from netgrad.cli.app import app


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    net = caffe2.parse_net('op { type: "FC" input: "x" input: "w" input: "b" output: "y" }')
    parameters = {"w": np.ones((3, 2), np.float32), "b": np.zeros(3, np.float32)}
    caffe2.save(caffe2.SavedModel(net, caffe2.init_net_of(parameters)), "init.pb", "predict.pb")
    return tmp_path


def _convert(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["convert", *arguments])
    return result.exit_code, result.output


def test_a_pair_of_nets_becomes_a_model(folder: Path) -> None:
    status, output = _convert("predict.pb", "--init", "init.pb", "--shape", "x=N,2", "--json")
    assert status == 0
    assert json.loads(output)["parameters"] == 2
    model = onnx.load(folder / "predict.onnx")
    onnx.checker.check_model(model, full_check=True)
    x = np.array([[1.0, 2.0]], np.float32)
    np.testing.assert_allclose(netgrad.run(model, {"x": x})["y"], [[3, 3, 3]])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("predict.pb", "--init", "init.pb"), "shape of x"),
        (("predict.pb", "--init", "absent.pb"), "absent.pb"),
        (("predict.pb", "--init", "init.pb", "--shape", "x"), "NAME=VALUE"),
        (("predict.pb", "--init", "init.pb", "--shape", "x=1,2", "--of", "z"), "no blob z"),
    ],
)
def test_a_wrong_call_is_one_line(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    status, output = _convert(*arguments)
    assert status == 2
    assert said in output
    assert "Traceback" not in output
    assert not (folder / "predict.onnx").exists()
