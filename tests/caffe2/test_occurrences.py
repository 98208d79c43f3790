"""Rows that are named many times: against a loop over their occurrences in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad import caffe2
from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.python import core

Arrays = dict[str, Any]
SHAPE = (7, 2, 3)


def _net(type_: str, inputs: list[str], outputs: list[str], **arguments: Any) -> NetDef:
    return NetDef(name="rows", op=[core.CreateOperator(type_, inputs, outputs, **arguments)])


def _blobs(rows: list[int], seed: int = 5) -> Arrays:
    random = np.random.default_rng(seed)
    return {
        "w": random.normal(size=SHAPE),
        "m": np.abs(random.normal(size=SHAPE)),
        "i": np.array(rows, np.int64),
        "g": random.normal(size=(len(rows), *SHAPE[1:])),
        "lr": np.array([-0.1]),
        "one": np.array([0.9]),
    }


def _momentum(b: Arrays) -> Arrays:
    w, m, g = b["w"].copy(), b["m"].copy(), b["g"].copy()
    for k, row in enumerate(b["i"]):
        before = m[row].copy()
        m[row] = 0.8 * before - 0.1 * b["g"][k]
        g[k] = 1.8 * m[row] - 0.8 * before
        w[row] -= g[k]
    return {"w": w, "m": m, "g": g}


def _adagrad(b: Arrays) -> Arrays:
    w, m = b["w"].copy(), b["m"].astype(float)
    for k, row in enumerate(b["i"]):
        m[row] += b["g"][k] ** 2
        w[row] -= 0.1 * b["g"][k] / (np.sqrt(m[row]) + 0.01)
    return {"w": w, "m": m}


def _weighted(b: Arrays) -> Arrays:
    """Each occurrence scales its row; then all is added."""
    w = b["w"].copy()
    for row in b["i"]:
        w[row] *= 0.9
    np.add.at(w, b["i"], -0.1 * b["g"])
    return {"w": w}


UPDATES = {
    "SparseMomentumSGDUpdate": (["g", "m", "lr", "w", "i"], ["g", "m", "w"], _momentum),
    "SparseAdagrad": (["w", "m", "i", "g", "lr"], ["w", "m"], _adagrad),
    "ScatterWeightedSum": (["w", "one", "i", "g", "lr"], ["w"], _weighted),
}
ARGUMENTS = {"momentum": 0.8, "nesterov": 1, "epsilon": 0.01}


@pytest.mark.parametrize(
    "rows", [[], [4], [3, 1, 6], [2] * 9, [6, 0, 6, 6, 0, 3, 6, 6, 0, 6], [0, 0], [6, 6, 0]]
)
@pytest.mark.parametrize("type_", UPDATES)
def test_each_occurrence_counts_in_order(type_: str, rows: list[int]) -> None:
    inputs, outputs, formula = UPDATES[type_]
    blobs = _blobs(rows)
    given = {name: value if name == "i" else value.astype(np.float32) for name, value in blobs.items()}
    found = caffe2.run(_net(type_, inputs, outputs, **ARGUMENTS), given, outputs)
    for name, expected in formula(blobs).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-5, err_msg=name)


def test_many_rows_take_no_more_than_their_number() -> None:
    """A matrix of all pairs of these would take 40 GB."""
    rows = np.random.default_rng(1).integers(0, 7, 100_000).tolist()
    blobs = _blobs(rows)
    inputs, outputs, _ = UPDATES["ScatterWeightedSum"]
    given = {name: value if name == "i" else value.astype(np.float32) for name, value in blobs.items()}
    given["one"] = np.ones(1, np.float32)
    found = caffe2.run(_net("ScatterWeightedSum", inputs, outputs), given, outputs)
    expected = blobs["w"].copy()
    np.add.at(expected, blobs["i"], -0.1 * blobs["g"])
    np.testing.assert_allclose(found["w"], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("type_", ["SparseAdagrad", "Adagrad"])
def test_whole_zeros_are_a_history(type_: str) -> None:
    """Public programs start it with ``np.full(shape, 0)``; the original reads these as floats."""
    blobs = {**_blobs(list(range(7))), "m": np.full(SHAPE, 0)}
    inputs = ["w", "m", "i", "g", "lr"] if type_ == "SparseAdagrad" else ["w", "m", "g", "lr"]
    floats = {name: blobs[name].astype(np.float32) for name in ("w", "g", "lr")}
    found = caffe2.run(_net(type_, inputs, ["w", "m"], epsilon=0.01), {**blobs, **floats}, ["w", "m"])
    assert found["m"].dtype == np.float32
    for name, expected in _adagrad(blobs).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-5, err_msg=name)
