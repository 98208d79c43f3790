"""Rows for layers whose weights are two factors, pruned, sparse or packed."""

from __future__ import annotations

import numpy as np

from tests.caffe2.operator_cases import Array, Blobs, Case

_random = np.random.default_rng(51)


def normal(*shape: int) -> Array:
    return _random.normal(size=shape)


def factors(g: Blobs) -> dict[str, Array]:
    """A layer with the weights U V^T."""
    rows = g["x"].reshape(len(g["x"]), -1) if g["x"].ndim > 1 else g["x"]
    return {"y": rows @ (g["u"] @ g["v"].T).T + g["b"]}


FACTORS = {"u": normal(5, 2), "v": normal(4, 2), "b": normal(5)}

# The matrix with 1, -2 / none / 3, 4, 5 in its rows, of 4 columns.
SPARSE = {
    "values": np.array([1.0, -2.0, 3.0, 4.0, 5.0]),
    "starts": np.array([0, 2, 2, 5], np.int32),
    "columns": np.array([0, 3, 1, 2, 3], np.int32),
}
DENSE = np.array([[1.0, 0, 0, -2], [0, 0, 0, 0], [0, 3, 4, 5]])

PRUNED = {
    "w": normal(2, 4),
    "m": np.array([[1.0, 0, 1, 1], [1, 1, 0, 1]]),
    "b": normal(2),
    "sum": np.zeros((2, 4)),
    "places": np.zeros((2, 4)),
    "least": np.array([1e-5]),
    "share": np.array([0.05]),
}

COMPRESSED = [
    Case("FC_Decomp(x,u,v,b)->(y)", {"x": normal(3, 4), **FACTORS}, factors, ("x", "u", "v", "b")),
    Case("FC_Decomp(x,u,v,b)->(y)", {"x": normal(3, 2, 2), **FACTORS}, factors, ("x", "u", "v", "b")),
    Case("FC_Decomp(x,u,v,b)->(y)", {"x": normal(4), **FACTORS}, factors, ("x", "u", "v", "b")),
    Case("FC_Decomp(x,u,v,b)->(y)", {"x": normal(3, 4), **FACTORS}, factors, ("u",)),
    *(
        Case(
            "FC_Prune(x,w,m,b,sum,places,least,share)->(y,left)",
            {"x": normal(*shape), **PRUNED},
            lambda g: {"y": g["x"] @ g["w"].T + g["b"], "left": np.array(0.75)},
            (),
        )
        for shape in ((3, 4), (4,))
    ),
    Case(
        "FC_Sparse(x,values,starts,columns,b)->(y)",
        {"x": normal(4, 2), "b": normal(3), **SPARSE},
        lambda g: {"y": DENSE @ g["x"] + g["b"][:, None]},
        (),
    ),
    Case(
        "PackedFC(x,w,b)->(y)",
        {"x": normal(3, 2, 2), "w": normal(2, 4), "b": normal(2)},
        lambda g: {"y": g["x"].reshape(3, 4) @ g["w"].T + g["b"]},
        (),
    ),
]
