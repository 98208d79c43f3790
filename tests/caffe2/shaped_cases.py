"""Rows for functions given piece by piece, encodings of positions and padded sequences."""

from __future__ import annotations

import numpy as np

from tests.caffe2.operator_cases import Array, Blobs, Case

_random = np.random.default_rng(43)

BOUNDS = np.array([-1.0, 0.0, 0.5, -2.0, -1.0, 2.0])
SLOPES = np.array([2.0, -1.0, 0.5, 3.0])
INTERCEPTS = np.array([1.0, 0.0, -1.0, 2.0])


def pieces(x: Array, bounds: Array, slopes: Array, intercepts: Array) -> Array:
    """Element by element; outside as at the nearest bound."""
    found = np.zeros(x.shape)
    for index, element in np.ndenumerate(x):
        if element <= bounds[0]:
            found[index] = slopes[0] * bounds[0] + intercepts[0]
        elif element >= bounds[-1]:
            found[index] = slopes[-1] * bounds[-1] + intercepts[-1]
        else:
            at = max(k for k in range(len(slopes)) if bounds[k] < element)
            found[index] = slopes[at] * element + intercepts[at]
    return found


def by_columns(g: Blobs) -> dict[str, Array]:
    columns = [
        pieces(
            g["x"][:, k], BOUNDS[3 * k : 3 * k + 3], SLOPES[2 * k : 2 * k + 2], INTERCEPTS[2 * k : 2 * k + 2]
        )
        for k in (0, 1)
    ]
    return {"y": np.stack(columns, 1)}


def binary(g: Blobs) -> dict[str, Array]:
    last = pieces(g["x"][..., -1], BOUNDS[:3], SLOPES[:2], INTERCEPTS[:2])
    return {"y": np.stack([1 - last, last], 1)}


def waves(g: Blobs) -> dict[str, Array]:
    found = np.zeros((*g["x"].shape, 5))
    for i in range(5):
        found[..., i] = 0.5 * (np.cos if i % 2 else np.sin)(g["x"] / 10 ** (i / 5))
    return {"y": found}


SHAPED = [
    Case(
        "StumpFunc(x)->(y) {threshold=0.5,low_value=-1.0,high_value=2.0}",
        {"x": np.array([0.4, 0.5, 0.6])},
        lambda g: {"y": np.array([-1.0, -1.0, 2.0])},
        (),
    ),
    Case(
        "PiecewiseLinearTransform(x,b,s,i)->(y)",
        {"x": _random.normal(scale=2, size=(9, 2)), "b": BOUNDS, "s": SLOPES, "i": INTERCEPTS},
        by_columns,
        (),
    ),
    Case(
        "PiecewiseLinearTransform(x)->(y) "
        "{bounds=[-1.0,0.0,0.5],slopes=[2.0,-1.0],intercepts=[1.0,0.0],binary=1}",
        {"x": np.array([[0.1, -3.0], [0.2, -1.0], [0.3, 0.0], [0.4, 0.25], [0.5, 0.5], [0.6, 7.0]])},
        binary,
        (),
    ),
    Case(
        "PiecewiseLinearTransform(x)->(y) "
        "{bounds=[-1.0,0.0,0.5],slopes=[2.0,-1.0],intercepts=[1.0,0.0],binary=1}",
        {"x": np.array([-3.0, -0.5, 0.25])},
        lambda g: {"y": pieces(g["x"], BOUNDS[:3], SLOPES[:2], INTERCEPTS[:2])},
        (),
    ),
    Case(
        "SinusoidPositionEncoding(x)->(y) {embedding_size=5,alpha=10.0,amplitude=0.5}",
        {"x": np.array([[0, 0], [1, 1], [7, 7]], np.int32)},
        waves,
        (),
    ),
    Case(
        "VariableLengthSequencePadding(x,n)->(x)",
        {"x": _random.normal(size=(4, 2, 3)), "n": np.array([3, 1], np.int32)},
        lambda g: {"x": g["x"] * (np.arange(4)[:, None] < g["n"])[:, :, None]},
        (),
    ),
    Case(
        "Tile(x,n,a)->(y)",
        {"x": _random.normal(size=(2, 3)), "n": np.array([3], np.int32), "a": np.array([-1], np.int32)},
        lambda g: {"y": np.tile(g["x"], (1, 3))},
    ),
    Case(
        "Tile(x,n)->(y) {axis=1}",
        {"x": _random.normal(size=(2, 3, 2)), "n": np.array([2], np.int32)},
        lambda g: {"y": np.tile(g["x"], (1, 2, 1))},
    ),
    Case(
        "NumpyTile(x,n)->(y)",
        {"x": _random.normal(size=(2, 3)), "n": np.array([2, 3], np.int32)},
        lambda g: {"y": np.tile(g["x"], (2, 3))},
        (),
    ),
    Case(
        "TopK(x,k)->(y,i)",
        {"x": np.array([[0.3, 0.1, 0.7], [0.2, 0.9, 0.4]]), "k": np.array([2], np.int64)},
        lambda g: {"y": np.array([[0.7, 0.3], [0.9, 0.4]]), "i": np.array([[2, 0], [1, 2]])},
        (),
    ),
    Case(
        "TopK(x,k)->(y,i) {axis=0}",
        {"x": np.array([[0.3], [0.1]]), "k": np.array([3], np.int64)},
        lambda g: {"y": np.array([[*g["x"][0]], [*g["x"][1]], [0]]), "i": np.array([[0], [1], [-1]])},
    ),
    Case(
        "Slice(x,s,e)->(y)",
        {
            "x": _random.normal(size=(4, 5)),
            "s": np.array([1, -3], np.int32),
            "e": np.array([-2, -1], np.int32),
        },
        lambda g: {"y": g["x"][1:3, 3:]},  # a bound b below zero is dim + 1 + b
        (),
    ),
    Case(
        "Where(c,x,z)->(y) {enable_broadcast=1}",
        {"c": np.array([True, False]), "x": np.ones((2, 3)), "z": np.zeros((2, 3))},
        lambda g: {"y": np.array([[1, 1, 1], [0, 0, 0]])},
        (),
    ),
    Case(
        "PackSegments(n,x)->(y,m) {max_length=2}",
        {"n": np.array([3, 0, 1], np.int32), "x": _random.normal(size=(4, 2))},
        lambda g: {
            "y": np.stack([g["x"][:2], np.zeros((2, 2)), np.stack([g["x"][3], np.zeros(2)])]),
            "m": np.array([[True, True], [False, False], [True, False]]),
        },
    ),
    Case(
        "UnpackSegments(n,x)->(y) {max_length=2}",
        {"n": np.array([3, 0, 1], np.int32), "x": _random.normal(size=(3, 2, 2))},
        lambda g: {"y": np.concatenate([g["x"][0], g["x"][2, :1]])},
    ),
    Case(
        "Bucketize(x)->(y) {boundaries=[0.5,2.0]}",
        {"x": np.array([[0.4, 0.5], [0.6, 3.0]])},
        lambda g: {"y": np.array([[0, 0], [1, 2]])},
        (),
    ),
    Case(
        "LengthsSplit(n)->(y) {n_split=3}",
        {"n": np.array([9, 4, 5, 1], np.int32)},
        lambda g: {"y": np.array([3, 3, 3, 2, 1, 1, 2, 2, 1, 1, 0, 0])},
        (),
    ),
    Case(
        "SquareRootDivide(x,s)->(y)",
        {"x": _random.normal(size=(3, 2)), "s": np.array([4, 0, 9], np.int32)},
        lambda g: {"y": g["x"] / [[2], [1], [3]]},
    ),
]
