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


@pytest.mark.parametrize(
    ("target", "init"),
    [("net.pb", "init_net.pb"), ("net.pbtxt", "first.pb"), ("net.minidb", None)],
)
def test_an_onnx_model_becomes_nets(folder: Path, target: str, init: str | None) -> None:
    assert _convert("predict.pb", "--init", "init.pb", "--shape", "x=N,2", "-q")[0] == 0
    named = ["--init", init] if init == "first.pb" else []
    status, output = _convert("predict.onnx", "-o", target, *named, "--json")
    assert status == 0, output
    report = json.loads(output)
    assert report["parameters"] == 2
    assert report["inputs"] == ["x"]
    assert report.get("init") == init
    model = caffe2.load(target) if init is None else caffe2.load(init, target)
    x = np.array([[1.0, 2.0]], np.float32)
    found = caffe2.run(model.predict_net, {"x": x, **model.parameters}, ["y"])
    np.testing.assert_allclose(found["y"], [[3, 3, 3]])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("predict.onnx", "-o", "a.pb", "--of", "y"), "are for Caffe2 nets"),
        (("predict.onnx", "-o", "a.minidb", "--init", "b.pb"), "nothing to write"),
        (("absent.onnx", "-o", "a.pb"), "no such file"),
        (("predict.onnx", "-o", "a.pb", "--shape", "z=1"), "no input 'z'"),
    ],
)
def test_a_wrong_call_from_onnx_is_one_line(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    assert _convert("predict.pb", "--init", "init.pb", "--shape", "x=N,2", "-q")[0] == 0
    status, output = _convert(*arguments)
    assert status == 2
    assert said in output
    assert "Traceback" not in output
