"""Caffe2 nets where the command takes a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

import netgrad
from netgrad import caffe2
from netgrad.cli.app import app
from netgrad.cli.nets import is_net

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
W = RNG.normal(size=(3, 3)).astype(np.float32)
B = RNG.normal(size=3).astype(np.float32)
X = RNG.normal(size=(5, 3)).astype(np.float32)

NET = """
    name: "twice" external_input: "x" external_input: "w" external_input: "b" external_output: "loss"
    op { type: "FC" input: "x" input: "w" input: "b" output: "h" name: "" }
    op { type: "Relu" input: "h" output: "h" name: "" }
    op { type: "FC" input: "h" input: "w" input: "b" output: "y" name: "" }
    op { type: "AveragedLoss" input: "y" output: "loss" name: "" }
"""
PAIR = ("predict.pb", "--init", "init.pb")


def formula() -> tuple[Array, dict[str, Array]]:
    """The loss and its gradients, by hand: w and b are used twice."""
    before = X @ W.T + B
    h = np.maximum(before, 0)
    y = h @ W.T + B
    dy = np.full_like(y, 1 / y.size)
    dh = (dy @ W) * (before > 0)
    return y.mean(), {"w": dy.T @ h + dh.T @ X, "b": dy.sum(0) + dh.sum(0), "x": dh @ W}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    model = caffe2.SavedModel(caffe2.parse_net(NET), caffe2.init_net_of({"w": W, "b": B}))
    caffe2.save(model, "init.pb", "predict.pb")
    caffe2.save(model, "init.pbtxt", "predict.pbtxt")
    caffe2.save_predictor(model, "model.minidb")
    np.save("x.npy", X)
    return tmp_path


def invoke(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


# ---- grad --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "written"),
    [
        (("predict.pb", "--init", "init.pb"), "predict_grad.pb"),
        (("predict.pbtxt", "--init", "init.pbtxt"), "predict_grad.pbtxt"),
        (("model.minidb",), "model_grad.minidb"),
        (("model.minidb", "-o", "named.pb"), "named.pb"),
    ],
    ids=["binary", "text", "predictor", "net of a predictor"],
)
def test_the_gradient_of_a_net_is_a_net(folder: Path, model: tuple[str, ...], written: str) -> None:
    status, _, told = invoke("grad", *model)
    assert status == 0, told
    assert "4 operators forward" in told
    assert "new outputs: w_grad, b_grad" in told
    again = caffe2.load(written) if written.endswith(".minidb") else caffe2.load("init.pb", written)
    types = [op.type for op in again.predict_net.op if op.is_gradient_op]
    assert types == ["AveragedLossGradient", "FCGradient", "ReluGradient", "FCGradient"]
    assert again.outputs == ["loss", "w_grad", "b_grad"]
    assert again.inputs == ["x"]
    loss, gradients = formula()
    found = caffe2.run(again.predict_net, {"x": X, **again.parameters})
    np.testing.assert_allclose(found["loss"], loss, rtol=1e-5)
    for name in ("w", "b"):
        np.testing.assert_allclose(found[f"{name}_grad"], gradients[name], rtol=1e-4, atol=1e-6)


def test_the_gradient_of_a_net_runs_in_a_workspace(folder: Path) -> None:
    assert invoke("grad", *PAIR, "--wrt", "x")[0] == 0
    workspace = caffe2.workspace
    workspace.ResetWorkspace()
    workspace.RunNetOnce(caffe2.read_net("init.pb"))
    workspace.FeedBlob("x", X)
    workspace.RunNetOnce(caffe2.read_net("predict_grad.pb"))
    np.testing.assert_allclose(workspace.FetchBlob("x_grad"), formula()[1]["x"], rtol=1e-4, atol=1e-6)
    workspace.ResetWorkspace()


def test_the_gradient_of_a_net_as_an_onnx_model(folder: Path) -> None:
    status, _, told = invoke("grad", *PAIR, "--shape", "x=N,3", "-o", "grad.onnx")
    assert status == 0, told
    onnx.checker.check_model(onnx.load("grad.onnx"), full_check=True)
    found = netgrad.run("grad.onnx", {"x": X})
    for name in ("w", "b"):
        np.testing.assert_allclose(found[f"{name}_grad"], formula()[1][name], rtol=1e-4, atol=1e-6)


def test_a_start_gradient_is_an_input_of_the_net(folder: Path) -> None:
    status, out, _ = invoke("grad", *PAIR, "--wrt", "b", "--cotangent", "input", "--json")
    assert status == 0
    report = json.loads(out)
    assert report["cotangents"] == {"loss": "loss_grad"}
    assert report["gradients"] == {"b": "b_grad"}
    again = caffe2.load("init.pb", report["file"])
    assert again.inputs == ["x", "loss_grad"]
    given = {"x": X, "loss_grad": np.array(3.0, np.float32), **again.parameters}
    found = caffe2.run(again.predict_net, given, ["b_grad"])["b_grad"]
    np.testing.assert_allclose(found, 3 * formula()[1]["b"], rtol=1e-4)


def test_rows_and_what_has_no_influence(folder: Path) -> None:
    net = caffe2.parse_net("""
        op { type: "Gather" input: "table" input: "rows" output: "y" }
        op { type: "FC" input: "y" input: "w" input: "b" output: "unused" }
    """)
    init = caffe2.init_net_of({"table": np.ones((4, 3), np.float32), "w": W, "b": B})
    caffe2.save(caffe2.SavedModel(net, init), "init.pb", "rows.pb")
    status, out, told = invoke(
        "grad", "rows.pb", "--init", "init.pb", "--of", "y", "--wrt", "table,w", "--json"
    )
    assert status == 0, told
    assert "'w' does not influence the target" in told
    report = json.loads(out)
    slices = report["gradients"]["table"]
    again = caffe2.load("init.pb", "rows_grad.pb")
    found = caffe2.run(again.predict_net, {"rows": np.array([2, 2], np.int32), **again.parameters})
    assert slices["indices"] == "rows"
    np.testing.assert_array_equal(found[slices["values"]], np.ones((2, 3)))
    np.testing.assert_array_equal(found[report["gradients"]["w"]], np.zeros((3, 3)))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("grad", *PAIR, "--of", "nothing"), "no blob 'nothing'"),
        (("grad", *PAIR, "--wrt", "h"), "'h' is no input and no parameter"),
        (("grad", *PAIR, "--accumulation", "fused"), "for ONNX models"),
        (("grad", *PAIR, "--stop", "Relu"), "for ONNX models"),
        (("grad", *PAIR, "-o", "out.onnx"), "shape of x"),
        (("inspect", *PAIR, "--stop", "Relu"), "for ONNX models"),
        (("check", "predict.pb", "--init", "absent.pb"), "absent.pb"),
        (("check", *PAIR), "shape of x"),
        (("run", *PAIR, "--shape", "x"), "NAME=VALUE"),
        (("inspect", "model.onnx", "--shape", "x=1"), "is an ONNX model"),
    ],
)
def test_a_wrong_call_is_one_line(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    (folder / "model.onnx").write_bytes(b"")
    status, out, told = invoke(*arguments)
    assert status == 2, out
    assert said in told
    assert "Traceback" not in told
    assert not (folder / "out.onnx").exists()


# ---- the other verbs ---------------------------------------------------------------------------------


def test_inspect_says_what_each_operator_has(folder: Path) -> None:
    status, out, _ = invoke("inspect", *PAIR, "--json")
    assert status == 0
    report = json.loads(out)
    assert report["differentiable"]
    assert report["wrt"] == ["w", "b"]
    assert [(one["type"], one["gradient"], one["writes"], one["runs"]) for one in report["operators"]] == [
        ("FC", "maker", ["FCGradient"], "onnx"),
        ("Relu", "maker", ["ReluGradient"], "onnx"),
        ("FC", "maker", ["FCGradient"], "onnx"),
        ("AveragedLoss", "maker", ["AveragedLossGradient"], "onnx"),
    ]
    assert all(one["active"] for one in report["operators"])
    assert {one["value"]: one["contributions"] for one in report["accumulations"]} == {"w": 2, "b": 2}
    assert {one["name"]: one["shape"] for one in report["parameters"]} == {"w": [3, 3], "b": [3]}
    text = invoke("inspect", "model.minidb")[1]
    assert "gradients accumulate at 2 values" in text
    assert "ReluGradient" in text


def test_inspect_says_why_there_is_no_gradient(folder: Path) -> None:
    caffe2.save_net(
        caffe2.parse_net("""
            op { type: "Print" input: "x" }
            op { type: "ArgMax" input: "x" output: "k" }
            op { type: "Bernoulli" input: "x" output: "y" }
        """),
        "odd.pbtxt",
    )
    report = json.loads(invoke("inspect", "odd.pbtxt", "--of", "y", "--json")[1])
    assert not report["differentiable"]
    assert "Bernoulli" in report["problem"]
    printing, argmax, unknown = report["operators"]
    assert (printing["runs"], printing["gradient"], printing["active"]) == ("python", "none", False)
    assert (argmax["runs"], argmax["gradient"]) == ("onnx", "ends")
    assert (unknown["runs"], unknown["gradient"]) == ("not", "none")
    assert "no gradient" in invoke("inspect", "odd.pbtxt", "--of", "y")[1]


def test_inspect_with_shapes_is_that_of_the_onnx_model(folder: Path) -> None:
    report = json.loads(invoke("inspect", *PAIR, "--shape", "x=N,3", "--json")[1])
    assert report["nodes"]["gradient"] > report["nodes"]["given"]


def test_run_takes_the_shapes_of_what_is_given(folder: Path) -> None:
    status, out, told = invoke("run", *PAIR, "--input", "x=x.npy", "--json")
    assert status == 0, told
    loss = json.loads(out)["outputs"]["loss"]["values"]
    np.testing.assert_allclose(loss, formula()[0], rtol=1e-5)


def test_check_holds_the_onnx_form_against_central_differences(folder: Path) -> None:
    status, out, told = invoke("check", "model.minidb", "--shape", "x=4,3", "--json")
    assert status == 0, told
    assert {one["name"] for one in json.loads(out)["entries"]} == {"w", "b"}


def test_train_begins_with_the_parameters_of_the_net(folder: Path) -> None:
    np.savez("data.npz", x=np.repeat(X, 8, axis=0))
    status, out, told = invoke(
        "train", *PAIR, "--data", "data.npz", "--loss", "loss", "--epochs", "2", "--json"
    )
    assert status == 0, told
    assert (folder / "predict_trained.onnx").exists()
    first, last = (epoch["training"]["loss"] for epoch in json.loads(out)["epochs"])
    assert last < first


@pytest.mark.parametrize("name", ["model.pb", "model.pbtxt"])
def test_an_onnx_model_with_such_an_ending_is_one(folder: Path, name: str) -> None:
    model = netgrad.caffe2.to_onnx(caffe2.load("model.minidb"), {"x": ["N", 3]})
    onnx.save(model, name, format="textproto" if name.endswith("txt") else "protobuf")
    assert not is_net(name, None)
    assert is_net("predict.pb", None)
    assert is_net("predict.pbtxt", None)
    status, _, told = invoke("inspect", name)
    assert status == 0, told
