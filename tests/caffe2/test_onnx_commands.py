"""The commands that convert files, as objects of click."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from click.testing import CliRunner
from onnx import TensorProto

from netgrad import caffe2
from netgrad.caffe2.python import core
from netgrad.caffe2.python.onnx import backend
from netgrad.caffe2.python.onnx.bin.conversion import caffe2_to_onnx, onnx_to_caffe2
from netgrad.caffe2.python.onnx.helper import load_caffe2_net

W = np.array([[1, 2], [3, 4]], np.float32)


def test_a_net_as_a_model_and_back(tmp_path: Path) -> None:
    net = core.Net("n")
    net.MatMul(["x", "w"], "y")
    predict, init, model = (str(tmp_path / name) for name in ("predict.pb", "init.pb", "model.onnx"))
    Path(predict).write_bytes(net.Proto().SerializeToString())
    Path(init).write_bytes(caffe2.init_net_of({"w": W}).SerializeToString())
    arguments = [predict, "--caffe2-init-net", init, "-o", model]
    without = CliRunner().invoke(caffe2_to_onnx, arguments)
    assert without.exit_code == 1
    assert "no value info of the inputs x" in str(without.exception)
    info = json.dumps({"x": (TensorProto.FLOAT, (1, 2))})
    done = CliRunner().invoke(caffe2_to_onnx, [*arguments, "--value-info", info])
    assert done.exit_code == 0, done.output
    found = onnx.load(model)
    assert [node.op_type for node in found.graph.node] == ["MatMul"]
    assert [value.name for value in found.graph.input] == ["x", "w"]
    back = str(tmp_path / "back.pb")
    done = CliRunner().invoke(onnx_to_caffe2, [model, "--output", back, "--init-net-output", init])
    assert done.exit_code == 0, done.output
    assert [op.type for op in load_caffe2_net(back).op] == ["MatMul"]
    assert [op.type for op in load_caffe2_net(init).op] == ["GivenTensorFill"]
    x = np.ones((1, 2), np.float32)
    np.testing.assert_allclose(backend.run_model(found, [x]).y, x @ W)


def test_a_net_without_a_name_needs_one(tmp_path: Path) -> None:
    net = core.Net("n")
    net.Relu("x", "y")
    net.Proto().name = ""
    (tmp_path / "net.pb").write_bytes(net.Proto().SerializeToString())
    arguments = [str(tmp_path / "net.pb"), "-o", str(tmp_path / "model.onnx")]
    done = CliRunner().invoke(caffe2_to_onnx, arguments)
    assert done.exit_code == 2
    assert "--caffe2-net-name" in done.output
    info = json.dumps({"x": (TensorProto.FLOAT, (1, 2))})
    arguments += ["--caffe2-net-name", "named", "--value-info", info]
    assert CliRunner().invoke(caffe2_to_onnx, arguments).exit_code == 0
    assert onnx.load(tmp_path / "model.onnx").graph.name == "named"


def test_without_click_the_module_says_what_to_install() -> None:
    code = (
        "import sys\n"
        "sys.modules['click'] = None\n"
        "try:\n"
        "    import netgrad.caffe2.python.onnx.bin.conversion\n"
        "except ImportError as error:\n"
        "    assert \"pip install 'netgrad[caffe2]'\" in str(error), error\n"
        "else:\n"
        "    raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
