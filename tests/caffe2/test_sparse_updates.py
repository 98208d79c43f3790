"""Updates of rows that run in Python: against loops over occurrences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, workspace

_random = np.random.default_rng(17)
ROWS = np.array([2, 0, 2, 3, 2])

Arrays = dict[str, Any]


def _blobs(**more: Any) -> Arrays:
    table = _random.normal(size=(4, 3))
    return {"w": table, "i": ROWS, "g": _random.normal(size=(5, 3)), "lr": np.array([-0.1]), **more}


def _adadelta(b: Arrays) -> Arrays:
    w, h, u = b["w"].copy(), b["h"].copy(), b["u"].copy()
    for k, row in enumerate(ROWS):
        h[row] = 0.9 * h[row] + 0.1 * b["g"][k] ** 2
        step = np.sqrt((u[row] + 0.01) / (h[row] + 0.01)) * b["g"][k]
        w[row] -= 0.1 * step
        u[row] = 0.9 * u[row] + 0.1 * step**2
    return {"w": w, "h": h, "u": u}


def _wngrad(b: Arrays) -> Arrays:
    w = b["w"].copy()
    np.add.at(w, ROWS, -0.1 * b["g"] / (b["b"] + 0.01))
    return {"w": w, "b": b["b"] + (b["g"] ** 2).sum() / b["b"]}


def _storm(b: Arrays) -> Arrays:
    w, m = b["w"].copy(), b["m"].copy()
    s = b["s"] + (b["g"] ** 2).sum()
    rate = -0.1 / np.cbrt(0.2 + s)
    for k, row in enumerate(ROWS):
        m[row] += 3 * rate**2 * (b["g"][k] - m[row])
        w[row] += rate * m[row]
    return {"w": w, "m": m, "s": s}


def _adagrad(by_rows: bool, counted: bool) -> Callable[[Arrays], Arrays]:
    def formula(b: Arrays) -> Arrays:
        w, h = b["w"].copy(), b["h"].copy()
        for k, row in enumerate(ROWS):
            often = 8 / b["c"][row] if counted and b["c"][row] else 1
            slope = b["g"][k] + 0.5 * often * w[row]
            h[row] += (slope**2).mean() if by_rows else slope**2
            w[row] -= 0.1 * slope / (np.sqrt(h[row]) + 0.01)
        return {"w": w, "h": h}

    return formula


def _smart(b: Arrays) -> Arrays:
    """The moments decay as if every iteration had come, and the parameter moves by those that didn't."""
    w, m, v, last = b["w"].copy(), b["m"].copy(), b["v"].copy(), b["last"].copy()
    for k, row in enumerate(ROWS):
        missed = np.zeros(3)
        for _ in range(9 - last[row]):
            m[row], v[row] = 0.8 * m[row], 0.7 * v[row]
            missed += m[row]
        # of the steps that were missed the last one is this one
        missed -= m[row] if last[row] < 9 else 0
        m[row] += 0.2 * b["g"][k]
        v[row] += 0.3 * b["g"][k] ** 2
        w[row] -= 0.1 * (m[row] + missed) / (np.sqrt(v[row]) + 0.01)
        last[row] = 9
    return {"w": w, "m": m, "v": v, "last": last}


def _counted(b: Arrays) -> Arrays:
    """Half of a count is forgotten in four iterations."""
    p, c = b["p"].copy(), b["c"].copy()
    for row in ROWS:
        c[row] = 1 + c[row] * 0.5 ** ((10 - p.flat[row]) / 4)
        p[row] = 10
    return {"p": p, "c": c}


CASES: list[tuple[str, str, dict[str, Any], Arrays, Callable[[Arrays], Arrays]]] = [
    (
        "SparseAdadelta",
        "w h u i g lr",
        {"epsilon": 0.01, "decay": 0.9},
        _blobs(h=_random.uniform(size=(4, 3)), u=_random.uniform(size=(4, 3))),
        _adadelta,
    ),
    ("SparseWngrad", "w b i g lr", {"epsilon": 0.01}, _blobs(b=np.array([3.0])), _wngrad),
    (
        "SparseStorm",
        "w m s g i lr",
        {"momentum": 3.0, "beta": 0.2},
        _blobs(m=_random.normal(size=(4, 3)), s=np.array([0.5])),
        _storm,
    ),
    (
        "SparseAdagrad",
        "w h i g lr",
        {"epsilon": 0.01, "weight_decay": 0.5},
        _blobs(h=_random.uniform(size=(4, 3))),
        _adagrad(False, False),
    ),
    (
        "RowWiseSparseAdagrad",
        "w h i g lr",
        {"epsilon": 0.01, "weight_decay": 0.5},
        _blobs(h=_random.uniform(size=4)),
        _adagrad(True, False),
    ),
    (
        "RowWiseSparseAdagrad",
        "w h i g lr c",
        {"epsilon": 0.01, "weight_decay": 0.5, "counter_halflife": 8},
        _blobs(h=_random.uniform(size=4), c=np.array([2.0, 0.0, 4.0, 0.0])),
        _adagrad(True, True),
    ),
    (
        "SmartDecaySparseAdam",
        "w m v last i g lr t",
        {"beta1": 0.8, "beta2": 0.7, "epsilon": 0.01},
        _blobs(
            m=_random.normal(size=(4, 3)),
            v=_random.uniform(size=(4, 3)),
            last=np.array([8, 0, 5, 7]),
            t=np.array([8]),
        ),
        _smart,
    ),
    (
        "RowWiseCounter",
        "p c i t",
        {"counter_halflife": 4},
        {"p": np.array([2, 0, 6, 8]), "c": np.array([1.0, 2, 3, 0]), "i": ROWS, "t": np.array([10])},
        _counted,
    ),
    (
        "RowWiseCounter",
        "p c i t",
        {"counter_halflife": 4},
        {"p": np.array([[2], [0], [6], [8]]), "c": np.array([1.0, 2, 3, 0]), "i": ROWS, "t": np.array([10])},
        _counted,
    ),
]


@pytest.mark.parametrize(("type_", "inputs", "arguments", "blobs", "formula"), CASES)
def test_rows(
    type_: str,
    inputs: str,
    arguments: dict[str, Any],
    blobs: Arrays,
    formula: Callable[[Arrays], Arrays],
) -> None:
    for name, array in blobs.items():
        workspace.FeedBlob(name, array)
    expected = formula(blobs)
    workspace.RunOperatorOnce(core.CreateOperator(type_, inputs.split(), list(expected), **arguments))
    for name, value in expected.items():
        np.testing.assert_allclose(workspace.FetchBlob(name), value, rtol=1e-6, err_msg=name)


def test_a_row_that_is_not_there() -> None:
    for name, array in _blobs(h=np.ones((4, 3)), u=np.ones((4, 3))).items():
        workspace.FeedBlob(name, array)
    workspace.FeedBlob("i", np.array([0, 1, 2, 3, 4]))
    op = core.CreateOperator("SparseAdadelta", ["w", "h", "u", "i", "g", "lr"], ["w", "h", "u"])
    with pytest.raises(RuntimeError, match="there is no row 4: the parameter has 4"):
        workspace.RunOperatorOnce(op)
