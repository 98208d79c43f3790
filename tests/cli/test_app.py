"""The command line as a user meets it: what is written, what is said where, and the exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from typer.testing import CliRunner

import netgrad
from netgrad.cli.app import app

VERBS = ["grad", "train", "check", "inspect", "run", "lower", "demo"]


def cli(*arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "netgrad.cli.app", *arguments], input=stdin, capture_output=True, timeout=120
    )


def invoke(*arguments: str) -> tuple[int, str, str]:
    """The command in this process: exit status, stdout, stderr."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def linear(tmp_path: Path) -> Path:
    """scores = tanh(x W) + b"""
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18]>\n'
        "linear (float[batch, 3] x) => (float[batch, 2] scores) "
        "{ h = MatMul(x, W)  t = Tanh(h)  scores = Add(t, b) }"
    )
    rng = np.random.default_rng(0)
    model.graph.initializer.append(numpy_helper.from_array(rng.normal(size=(3, 2)).astype(np.float32), "W"))
    model.graph.initializer.append(numpy_helper.from_array(rng.normal(size=2).astype(np.float32), "b"))
    path = tmp_path / "linear.onnx"
    onnx.save(model, path)
    return path


@pytest.fixture
def rounded(tmp_path: Path) -> Path:
    """y = round(x) + sign(x W)"""
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18]>\n'
        "rounded (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] W = {1, 2, 3, 4}> "
        "{ r = Round(x)  h = MatMul(x, W)  s = Sign(h)  y = Add(r, s) }"
    )
    for node in model.graph.node:
        node.name = f"the_{node.op_type.lower()}"
    path = tmp_path / "rounded.onnx"
    onnx.save(model, path)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Points of two classes, labels by the sign of a sum."""
    x = np.random.default_rng(1).normal(size=(96, 3)).astype(np.float32)
    path = tmp_path / "data.npz"
    np.savez(path, x=x, labels=(x.sum(axis=1) > 0).astype(np.int64))
    return path


# ---- help --------------------------------------------------------------------------------------------


def test_version() -> None:
    assert invoke("--version") == (0, f"netgrad {netgrad.__version__}\n", "")


def test_help_lists_the_verbs() -> None:
    status, out, _ = invoke("--help")
    assert status == 0
    assert all(verb in out for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_every_verb_has_an_example(verb: str) -> None:
    status, out, _ = invoke(verb, "--help")
    assert status == 0
    assert "xample:" in out
    assert f"netgrad {verb} " in out


# ---- grad --------------------------------------------------------------------------------------------


def test_grad_writes_beside_the_model(linear: Path) -> None:
    status, out, err = invoke("grad", str(linear))
    assert status == 0
    assert out == ""
    written = linear.with_name("linear_grad.onnx")
    assert f"written to {written}" in err
    assert "new outputs: W_grad, b_grad" in err
    assert [value.name for value in onnx.load(written).graph.output] == ["scores", "W_grad", "b_grad"]


def test_grad_reads_stdin_and_writes_stdout(linear: Path) -> None:
    done = cli("grad", "-", "--wrt", "x,W", "--of", "scores", "-o", "-", "-q", stdin=linear.read_bytes())
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    model = onnx.load_model_from_string(done.stdout)
    assert [value.name for value in model.graph.output] == ["scores", "x_grad", "W_grad"]


def test_grad_json(linear: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "out.onnx")
    status, out, _ = invoke("grad", str(linear), "--cotangent", "input", "-o", target, "--json")
    assert status == 0
    report = json.loads(out)
    assert report["version"] == 1
    assert report["file"] == target
    assert report["gradients"] == {"W": "W_grad", "b": "b_grad"}
    assert report["cotangents"] == {"scores": "scores_grad"}
    assert report["operators"]["forward"] == 3


# ---- lower -------------------------------------------------------------------------------------------


@pytest.fixture
def descent(tmp_path: Path) -> Path:
    """A model with a Gradient node."""
    model = parser.parse_model("""
        <ir_version: 10, opset_import: ["": 18, "ai.onnx.preview.training": 1]>
        descent (float[3] x) => (float[3] slope) {
            y = Mul(x, x)
            slope = ai.onnx.preview.training.Gradient <xs = ["x"], y = "y"> (x)
        }
    """)
    path = tmp_path / "descent.onnx"
    onnx.save(model, path)
    return path


def test_lower_writes_beside_the_model(descent: Path) -> None:
    status, out, err = invoke("lower", str(descent))
    assert status == 0
    assert out == ""
    written = descent.with_name("descent_lowered.onnx")
    assert "wrote the backward pass of 1 Gradient nodes" in err
    assert f"written to {written}" in err
    x = np.array([1.0, -2.0, 0.5], np.float32)
    np.testing.assert_array_equal(netgrad.run(written, {"x": x})["slope"], 2 * x)


def test_lower_json(descent: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "out.onnx")
    status, out, _ = invoke("lower", str(descent), "-o", target, "--json")
    assert status == 0
    report = json.loads(out)
    assert report["file"] == target
    assert report["operators"] == len(onnx.load(target).graph.node)
    assert any("Gradient" in line for line in report["prepared"])


# ---- run, check, inspect -----------------------------------------------------------------------------


def test_run_writes_and_shows(linear: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 3), np.float32))
    status, out, _ = invoke("run", str(linear), "--input", f"x={tmp_path / 'x.npy'}")
    assert status == 0
    assert "scores  float32[1, 2]" in out
    target = tmp_path / "out.npz"
    status, out, err = invoke("run", str(linear), "-i", f"x={tmp_path / 'x.npy'}", "-o", str(target))
    assert (status, out) == (0, "")
    assert f"written to {target}" in err
    bias = numpy_helper.to_array(onnx.load(linear).graph.initializer[1])
    np.testing.assert_array_equal(np.load(target)["scores"], bias[None])


def test_check_says_yes(linear: Path) -> None:
    status, out, _ = invoke("check", str(linear), "--json")
    assert status == 0
    assert json.loads(out)["ok"] is True


def test_check_says_no(linear: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from netgrad.onnx.rules import declaration

    key = ("", "Tanh")
    right = declaration.declarations()[key]

    def off_by_a_thousandth(op, dy):
        return right.function(op, dy * 1.001)

    wrong = declaration.Declaration("Tanh", "", declaration.Kind.RULE, function=off_by_a_thousandth)
    monkeypatch.setitem(declaration._DECLARATIONS, key, wrong)
    status, out, _ = invoke("check", str(linear), "--wrt", "W")
    assert status == 1
    assert "Tanh" in out


def test_inspect_json(linear: Path) -> None:
    status, out, _ = invoke("inspect", str(linear), "--json")
    assert status == 0
    assert json.loads(out)["version"] == 1
    status, out, _ = invoke("inspect", str(linear))
    assert status == 0
    assert "MatMul" in out


# ---- wrong calls and files ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["grad", "{model}", "--wrt", "w"],
            "`wrt` names 'w', which the model does not have; did you mean 'W'?",
        ),
        (["grad", "{model}", "--of", "score"], "did you mean 'scores'?"),
        (["grad", "{model}", "--cotangent", "twos"], "--cotangent is 'twos'; it can be ones or input"),
        (["grad", "{model}", "--accumulation", "all"], "--accumulation is 'all'"),
        (["grad", "{folder}/nothing.onnx"], "there is no such file"),
        (["grad", "{folder}"], "it is a folder"),
        (["grad", "{garbage}"], "cannot read"),
        (["grad", "{model}", "-o", "{folder}/no/such/folder.onnx"], "cannot write"),
        (["run", "{model}"], "input 'x' (float32[batch, 3]) is missing"),
        (["run", "{model}", "--input", "x={folder}/nothing.npy"], "there is no file"),
        (["run", "{model}", "--input", "x={garbage}"], "is no readable .npy or .npz file"),
        (["check", "{foreign}", "--wrt", "x"], "my.dom::Warp"),
        (["train", "{model}", "--data", "{garbage}"], "is no readable .npy or .npz file"),
        (["train", "{model}", "--data", "{data}", "--optimizer", "adams"], "did you mean 'adam'?"),
        (["train", "{model}", "--data", "{data}", "--momentum", "0.9"], "belong to --optimizer sgd"),
        (["train", "{model}", "--data", "{data}", "--labels", "y"], "has no array 'y'"),
        (["train", "{model}", "--data", "{data}", "--loss", "score"], "score"),
        (["train", "{model}", "--data", "{data}", "--epochs", "0"], "`epochs` is 0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_call_is_one_clear_line_and_status_2(
    arguments: list[str], message: str, linear: Path, data: Path, tmp_path: Path
) -> None:
    garbage = tmp_path / "garbage.onnx"
    garbage.write_bytes(b"this is no model" * 9)
    foreign = tmp_path / "foreign.onnx"
    onnx.save(
        parser.parse_model(
            '<ir_version: 10, opset_import: ["": 18, "my.dom": 1]>\n'
            "foreign (float[3] x) => (float[3] y) { y = my.dom.Warp(x) }"
        ),
        foreign,
    )
    before = sorted(tmp_path.iterdir())
    places = {"model": linear, "folder": tmp_path, "garbage": garbage, "foreign": foreign, "data": data}
    status, out, err = invoke(*(argument.format(**places) for argument in arguments))
    assert status == 2
    assert out == ""
    assert err.startswith("error: ")
    assert message in err
    assert "Traceback" not in err
    assert sorted(tmp_path.iterdir()) == before, "something was written"


def test_an_unknown_option_has_status_2(linear: Path) -> None:
    assert invoke("grad", str(linear), "--with-respect-to", "x")[0] == 2


@pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="this system has no /dev/full to stand for a full disk"
)
def test_a_full_disk(linear: Path) -> None:
    done = cli("grad", str(linear), "-o", "/dev/full")
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: cannot write '/dev/full': No space left")
    assert len(done.stderr.splitlines()) == 1


# ---- train -------------------------------------------------------------------------------------------


def test_train_writes_a_trained_model(linear: Path, data: Path, tmp_path: Path) -> None:
    target, step = tmp_path / "trained.onnx", tmp_path / "step.onnx"
    status, out, err = invoke(
        *("train", str(linear), "--data", str(data), "--epochs", "15", "--lr", "0.05", "--json"),
        *("--validation", str(data), "-o", str(target), "--step-model", str(step)),
    )
    assert status == 0, err
    report = json.loads(out)
    assert report["steps"] == 45
    assert len(report["epochs"]) == 15
    assert report["epochs"][-1]["validation"]["accuracy"] > 0.9
    assert report["epochs"][-1]["training"]["loss"] < report["epochs"][0]["training"]["loss"]
    x, labels = (np.load(data)[name] for name in ("x", "labels"))
    scores = netgrad.run(target, {"x": x})["scores"]
    assert (scores.argmax(axis=1) == labels).mean() > 0.9
    assert [node.op_type for node in onnx.load(target).graph.node] == ["MatMul", "Tanh", "Add"]
    assert "netgrad.training_step" in {entry.key for entry in onnx.load(step).metadata_props}


def test_a_killed_training_continues_to_the_same_weights(linear: Path, data: Path, tmp_path: Path) -> None:
    whole, resumed = tmp_path / "whole.onnx", tmp_path / "resumed.onnx"
    checkpoint = tmp_path / "run.safetensors"
    common = ("train", str(linear), "--data", str(data), "--epochs", "40", "-q")
    assert cli(*common, "-o", str(whole)).returncode == 0
    again = (*common, "-o", str(resumed), "--checkpoint", str(checkpoint), "--every", "1")
    process = subprocess.Popen([sys.executable, "-m", "netgrad.cli.app", *again])
    give_up = time.monotonic() + 60
    while not checkpoint.exists() and time.monotonic() < give_up:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not resumed.exists(), "the killed run must not have been finished"
    done = cli(*again)
    assert done.returncode == 0, done.stderr
    assert whole.read_bytes() == resumed.read_bytes()


# ---- demo --------------------------------------------------------------------------------------------


def test_demo(tmp_path: Path) -> None:
    status, out, err = invoke("demo", "--output", str(tmp_path / "made"), "--quiet")
    assert status == 0, out + err
    assert "central differences: right" in out
    assert "edges_on" in out, "the accumulation at the skip connection is listed"
    made = {path.name for path in (tmp_path / "made").iterdir()}
    assert made == {
        "learning_curve.png",
        "model.onnx",
        "model_grad.onnx",
        "trained.onnx",
        "training_step.onnx",
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--straight-through", "all"], [[1 + 3, 1 + 7]]),
        (["--straight-through", "the_round"], [[1, 1]]),
        (["--straight-through", "Sign"], [[3, 7]]),
        (["--straight-through", "all", "--stop", "MatMul"], [[1, 1]]),
        (["--straight-through", "all", "--stop", "the_round,the_sign"], [[0, 0]]),
    ],
)
def test_stopped_and_straight_through(rounded: Path, options: list[str], expected: list[list[int]]) -> None:
    status, _, messages = invoke("grad", str(rounded), "--wrt", "x", *options)
    assert status == 0, messages
    gradient = rounded.with_name("rounded_grad.onnx")
    result = netgrad.run(gradient, {"x": np.float32([[0.4, 1.2]])})
    np.testing.assert_array_equal(result["x_grad"], expected)


def test_inspect_shows_what_was_chosen(rounded: Path) -> None:
    status, text, _ = invoke(
        "inspect", str(rounded), "--wrt", "x", "--straight-through", "Round", "--stop", "the_sign"
    )
    assert status == 0
    lines = {line.split()[0]: line for line in text.splitlines() if line}
    assert lines["Round"].endswith("straight-through")
    assert lines["Sign"].endswith("stopped")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--stop", "Rund"], "names 'Rund', which is neither a node nor an operator type"),
        (["--stop", "Sign", "--straight-through", "Sign"], "'Sign' is named by --stop and by --straight"),
    ],
)
def test_wrong_choices(rounded: Path, options: list[str], message: str) -> None:
    status, _, messages = invoke("grad", str(rounded), "--wrt", "x", *options)
    assert status == 2
    assert message in messages


def test_training_passes_rounding(tmp_path: Path) -> None:
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18]>\n'
        "quantised (float[batch, 1] x) => (float[batch, 1] y) "
        "<float[1, 1] W = {0.1}, float s = {0.0625}, int8 z = {0}> "
        "{ q = QuantizeLinear(W, s, z)  d = DequantizeLinear(q, s, z)  y = MatMul(x, d) }"
    )
    onnx.save(model, tmp_path / "quantised.onnx")
    x = np.random.default_rng(0).normal(size=(64, 1)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, targets=2 * x)
    status, text, messages = invoke(
        *("train", str(tmp_path / "quantised.onnx"), "--data", str(tmp_path / "data.npz"), "--json"),
        *("--loss", "mean-squared-error", "--lr", "0.05", "--epochs", "40", "--trainable", "W"),
        *("--straight-through", "QuantizeLinear"),
    )
    assert status == 0, messages
    losses = [epoch["training"]["loss"] for epoch in json.loads(text)["epochs"]]
    assert losses[-1] < 0.01 * losses[0]
