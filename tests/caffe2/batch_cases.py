"""Rows for batch normalization over several batches, its sums and gradients, and for summaries."""

from __future__ import annotations

import numpy as np

from tests.caffe2.operator_cases import Array, Blobs, Case, normal, positive

BLOBS = {"x": normal(3, 2, 2, 2), "z": normal(3, 2, 2, 2), "s": normal(2), "b": normal(2)}
RUNNING = {"m": normal(2), "v": positive(2)}
SLOPES = {"dy": normal(3, 2, 2, 2), "dz": normal(3, 2, 2, 2)}


def _over_both(g: Blobs) -> dict[str, Array]:
    """The normalization of ``x`` with the moments of ``x`` and ``z`` together."""
    both = np.concatenate([g["x"], g["z"]])
    mean, var = both.mean((0, 2, 3)), both.var((0, 2, 3))
    normalized = (both - mean[:, None, None]) / np.sqrt(var + 1e-5)[:, None, None]
    y = normalized * g["s"][:, None, None] + g["b"][:, None, None]
    return {
        "y": y[:3],
        "yz": y[3:],
        "sm": mean,
        "si": 1 / np.sqrt(var + 1e-5),
        "mean": mean,
        "var": both.var((0, 2, 3), ddof=1),
    }


def _values(g: Blobs) -> dict[str, Array]:
    found = _over_both(g)
    return {
        "y": found["y"],
        "m": 0.8 * g["m"] + 0.2 * found["mean"],
        "v": 0.8 * g["v"] + 0.2 * found["var"],
        "sm": found["sm"],
        "si": found["si"],
    }


def _slopes(g: Blobs, name: str) -> Array:
    """Central differences of sum(dy * y) + sum(dz * yz), the loss over both batches."""
    slopes = np.zeros(g[name].shape)
    for index in np.ndindex(slopes.shape):
        losses = []
        for step in (1e-6, -1e-6):
            moved = g[name].copy()
            moved[index] += step
            found = _over_both({**g, name: moved})
            losses.append((found["y"] * g["dy"]).sum() + (found["yz"] * g["dz"]).sum())
        slopes[index] = (losses[0] - losses[1]) / 2e-6
    return slopes


def _shares(g: Blobs) -> dict[str, Array]:
    """Each of two batches gives half of the gradients of scale and bias, and its own by ``x``."""
    return {"dx": _slopes(g, "x"), "ds": _slopes(g, "s") / 2, "db": _slopes(g, "b") / 2}


def _sums(g: Blobs) -> dict[str, Array]:
    return {"sums": g["x"].sum((0, 2, 3)), "squares": (g["x"] ** 2).sum((0, 2, 3))}


_SAVED = {name: _over_both(BLOBS)[name] for name in ("sm", "si")}


def _summary(g: Blobs) -> dict[str, Array]:
    x = g["x"]
    return {"y": np.array([x.min(), x.max(), x.mean(), x.std(ddof=1) if x.size > 1 else 0])}


BATCHES = [
    Case("ChannelStats(x)->(sums,squares)", {"x": BLOBS["x"]}, _sums, ()),
    Case(
        'ChannelStats(n)->(sums,squares) {order="NHWC"}',
        {"n": normal(3, 2, 2, 4)},
        lambda g: {"sums": g["n"].sum((0, 1, 2)), "squares": (g["n"] ** 2).sum((0, 1, 2))},
        (),
    ),
    Case(
        "ChannelStats(x)->(xs,xq); ChannelStats(z)->(zs,zq); Sum(xs,zs)->(sums); Sum(xq,zq)->(squares);"
        "SpatialBN(x,s,b,m,v,sums,squares)->(y,m,v,sm,si) {num_batches=2,momentum=0.8}",
        {**BLOBS, **RUNNING},
        _values,
        (),
    ),
    Case(
        "ChannelBackpropStats(x,sm,si,dy)->(xs,xb); ChannelBackpropStats(z,sm,si,dz)->(zs,zb);"
        "Sum(xs,zs)->(all_s); Sum(xb,zb)->(all_b);"
        "SpatialBNGradient(x,s,dy,sm,si,all_s,all_b)->(dx,ds,db) {num_batches=2}",
        {**BLOBS, **SLOPES, **_SAVED},
        _shares,
        (),
    ),
    Case("Summarize(x)->(y) {to_file=0}", {"x": normal(3, 4)}, _summary, ()),
    Case("Summarize(x)->(y)", {"x": normal(1)}, _summary, ()),
    Case(
        "NormalizeL1(x)->(y)",
        {"x": np.concatenate([normal(2, 3), np.zeros((1, 3))])},
        lambda g: {"y": g["x"] / np.maximum(np.abs(g["x"]).sum(1, keepdims=True), 1e-30)},
        (),
    ),
    Case(
        "NormalizeL1(x)->(y) {axis=0}",
        {"x": normal(2, 3)},
        lambda g: {"y": g["x"] / np.abs(g["x"]).sum(0)},
        (),
    ),
]
