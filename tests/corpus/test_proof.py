"""The proof holds for a right gradient, and for no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import netgrad
from netgrad.onnx.rules.choices import choices_of
from netgrad.onnx.rules.declaration import declarations
from tests.corpus import proof

MODEL = """<ir_version: 10, opset_import: ["": 18]>
    net (float[n, 3] x, bool c) => (float[n, 2] y)
    <float[3, 2] w = {0.1, -0.2, 0.3, 0.4, -0.5, 0.6}, float[2] b = {0.3, -0.1},
     float[3, 2] v = {0.6, 0.5, -0.4, 0.3, 0.2, -0.1}>
    { y = If (c) <
        then_branch = one () => (float[n, 2] p) { h = MatMul(x, w)  a = Add(h, b)  p = Tanh(a) },
        else_branch = two () => (float[n, 2] r) { g = MatMul(x, v)  r = Sigmoid(g) }
      > }"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "net.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), file)
    return file


def points() -> list[dict[str, Any]]:
    x = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    return [{"x": x, "c": np.array(True)}, {"x": x, "c": np.array(False)}]


def test_a_right_gradient(path: Path) -> None:
    found = proof.prove("net", path, points())
    assert found.problems == []
    assert (found.opset, found.shipped, found.prepared) == (18, 6, 6)
    assert found.gradient > found.shipped
    assert found.inputs is not None
    assert found.weights is not None
    assert found.inputs[0] == 1
    assert found.weights[0] == 3
    assert max(found.inputs[1], found.weights[1]) < 1e-8
    assert found.still == []


def test_weights_that_no_point_reaches_are_named(path: Path) -> None:
    assert proof.prove("net", path, points()[:1]).still == ["v"]


@pytest.mark.parametrize("branch", [0, 1])
def test_a_gradient_that_is_wrong_by_a_hundredth(
    path: Path, branch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = ("Tanh", "Sigmoid")[branch]
    declared = declarations()["", kind]
    choices = choices_of({kind: lambda op, dy: declared.function(op, dy) * 1.01})
    original = proof.differentiate
    monkeypatch.setattr(proof, "differentiate", lambda *a, **k: original(*a, **k, choices=choices))
    found = proof.prove("net", path, points())
    assert found.problems
    assert all("measured" in problem for problem in found.problems)


def test_a_model_that_computes_something_else(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = path.with_name("other.onnx")
    netgrad.save(onnx.parser.parse_model(MODEL.replace("Sigmoid", "Softplus")), other)
    original = proof.differentiate
    monkeypatch.setattr(proof, "differentiate", lambda source, **k: original(other, **k))
    assert any("another 'y'" in problem for problem in proof.prove("net", path, points()).problems)
