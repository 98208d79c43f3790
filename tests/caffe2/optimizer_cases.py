"""The table of operators that update parameters, beside that of `tests.caffe2.operator_cases`.

The sparse ones are loops over occurrences here, as they are described.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.caffe2.operator_cases import Array, Blobs, Case, apart, normal, positive

RATE = np.array([-0.1])
INDICES = np.array([2, 0, 2, 2, 3], np.int64)


def _momentum(mu: float, nesterov: bool) -> Any:
    def formula(g: Blobs) -> dict[str, Array]:
        after = mu * g["m"] + 0.1 * g["g"]
        step = (1 + mu) * after - mu * g["m"] if nesterov else after
        return {"g": step, "m": after, "w": g["w"] - step}

    return formula


def _momentum_case(arguments: str, mu: float, nesterov: bool) -> Case:
    return Case(
        f"MomentumSGDUpdate(g,m,lr,w)->(g,m,w) {{{arguments}}}",
        {"g": normal(2, 3), "m": normal(2, 3), "lr": -RATE, "w": normal(2, 3)},
        _momentum(mu, nesterov),
        (),
    )


def _sparse_momentum(nesterov: bool) -> Any:
    def formula(g: Blobs) -> dict[str, Array]:
        m, w, steps = g["m"].copy(), g["w"].copy(), g["g"].copy()
        for k, row in enumerate(g["i"]):
            before = m[row].copy()
            m[row] = 0.9 * before + 0.1 * g["g"][k]
            steps[k] = 1.9 * m[row] - 0.9 * before if nesterov else m[row]
            w[row] -= steps[k]
        return {"g": steps, "m": m, "w": w}

    return formula


def _adam(g: Blobs) -> dict[str, Array]:
    m, v = 0.8 * g["m"] + 0.2 * g["g"], 0.7 * g["v"] + 0.3 * g["g"] ** 2
    rate = -0.1 * np.sqrt(1 - 0.7**4) / (1 - 0.8**4)
    step = m / (np.sqrt(v) + 0.01)
    return {"w": g["w"] + rate * step, "m": m, "v": v}


def _sparse_adam(by_rows: bool) -> Any:
    def formula(g: Blobs) -> dict[str, Array]:
        w, m, v = g["w"].copy(), g["m"].copy(), g["v"].copy()
        rate = -0.1 * np.sqrt(1 - 0.7**4) / (1 - 0.8**4)
        for k, row in enumerate(g["i"]):
            square = (g["g"][k] ** 2).mean() if by_rows else g["g"][k] ** 2
            m[row] = 0.8 * m[row] + 0.2 * g["g"][k]
            v[row] = 0.7 * v[row] + 0.3 * square
            w[row] += rate * m[row] / (np.sqrt(v[row]) + 0.01)
        return {"w": w, "m": m, "v": v}

    return formula


def _sparse_adagrad(by_rows: bool) -> Any:
    def formula(g: Blobs) -> dict[str, Array]:
        w, h = g["w"].copy(), g["h"].copy()
        for k, row in enumerate(g["i"]):
            h[row] += (g["g"][k] ** 2).mean() if by_rows else g["g"][k] ** 2
            w[row] -= 0.1 * g["g"][k] / (np.sqrt(h[row]) + 0.01)
        return {"w": w, "h": h}

    return formula


def _rms_prop(g: Blobs) -> dict[str, Array]:
    s = g["s"] + 0.2 * (g["g"] ** 2 - g["s"])
    m = 0.5 * g["m"] - 0.1 * g["g"] / np.sqrt(s + 0.01)
    return {"o": m, "s": s, "m": m}


def _ftrl(g: Blobs) -> dict[str, Array]:
    n, z = g["nz"][..., 0], g["nz"][..., 1]
    after = n + g["g"] ** 2
    z = z + g["g"] - (np.sqrt(after) - np.sqrt(n)) / 0.1 * g["w"]
    moved = (0.5 * np.sign(z) - z) / ((1.5 + np.sqrt(after)) / 0.1 + 0.2)
    return {"w": np.where(np.abs(z) > 0.5, moved, 0), "nz": np.stack([after, z], -1)}


def _scatter_weighted_sum(g: Blobs) -> dict[str, Array]:
    """All is scaled first, once per occurrence, then added."""
    y = g["y"].copy()
    for row in g["i"]:
        y[row] *= 0.5
    for k, row in enumerate(g["i"]):
        y[row] += 2 * g["a"][k] - g["b"][k]
    return {"y": y}


def _scattered_unscaled(g: Blobs) -> dict[str, Array]:
    y = g["y"].copy()
    np.add.at(y, g["i"], -0.1 * g["a"])
    return {"y": y}


def _lars(g: Blobs) -> dict[str, Array]:
    return {"y": np.array([1 / (np.linalg.norm(g["g"]) / np.linalg.norm(g["w"]) + 0.5)])}


def _table() -> dict[str, Array]:
    return {"w": normal(4, 3), "g": normal(5, 3), "lr": RATE, "i": INDICES, "t": np.array([3], np.int64)}


UPDATES = [
    _momentum_case("momentum=0.9,nesterov=1", 0.9, True),
    _momentum_case("momentum=0.9", 0.9, False),
    _momentum_case("nesterov=1", 0.0, True),
    Case(
        "MomentumSGD(g,m,lr)->(g,m) {momentum=0.9}",
        {"g": normal(2, 3), "m": normal(2, 3), "lr": -RATE},
        lambda g: {"g": 0.9 * g["m"] + 0.1 * g["g"], "m": 0.9 * g["m"] + 0.1 * g["g"]},
        (),
    ),
    *[
        Case(
            f"SparseMomentumSGDUpdate(g,m,lr,w,i)->(g,m,w) {{momentum=0.9,nesterov={nesterov}}}",
            {**_table(), "m": normal(4, 3), "lr": -RATE},
            _sparse_momentum(bool(nesterov)),
            (),
        )
        for nesterov in (0, 1)
    ],
    Case(
        "Adam(w,m,v,g,lr,t)->(w,m,v) {beta1=0.8,beta2=0.7,epsilon=0.01}",
        {**_table(), "g": normal(4, 3), "m": normal(4, 3), "v": positive(4, 3)},
        _adam,
        (),
    ),
    *[
        Case(
            f"{kind}(w,m,v,i,g,lr,t)->(w,m,v) {{beta1=0.8,beta2=0.7,epsilon=0.01}}",
            {**_table(), "m": normal(4, 3), "v": positive(4) if by_rows else positive(4, 3)},
            _sparse_adam(by_rows),
            (),
        )
        for kind, by_rows in [("SparseAdam", False), ("RowWiseSparseAdam", True)]
    ],
    Case(
        "Adagrad(w,h,g,lr)->(w,h,r,u) {epsilon=0.01,decay=0.9}",
        {**_table(), "g": normal(4, 3), "h": positive(4, 3)},
        lambda g: {
            "h": (h := 0.9 * g["h"] + g["g"] ** 2),
            "r": -0.1 / (np.sqrt(h) + 0.01),
            "u": (u := -0.1 * g["g"] / (np.sqrt(h) + 0.01)),
            "w": g["w"] + u,
        },
        (),
    ),
    *[
        Case(
            f"{kind}(w,h,i,g,lr)->(w,h) {{epsilon=0.01}}",
            {**_table(), "h": positive(4) if by_rows else positive(4, 3)},
            _sparse_adagrad(by_rows),
            (),
        )
        for kind, by_rows in [("SparseAdagrad", False), ("RowWiseSparseAdagrad", True)]
    ],
    Case(
        "SparseAdagrad(w,h,i,g,lr)->(w,h) {epsilon=0.01}",
        {"w": normal(4), "h": positive(4), "i": INDICES, "g": normal(5), "lr": RATE},
        _sparse_adagrad(False),
        (),
    ),
    Case(
        "RmsProp(g,s,m,lr)->(o,s,m) {decay=0.8,momentum=0.5,epsilon=0.01}",
        {"g": normal(2, 3), "s": positive(2, 3), "m": normal(2, 3), "lr": RATE},
        _rms_prop,
        (),
    ),
    Case(
        "Ftrl(w,nz,g)->(w,nz) {alpha=0.1,beta=1.5,lambda1=0.5,lambda2=0.2}",
        {"w": normal(4, 3), "nz": positive(4, 3, 2), "g": normal(4, 3)},
        _ftrl,
        (),
    ),
    Case(
        "ScatterWeightedSum(y,h,i,a,t,b,n)->(y)",
        {
            "y": normal(4, 3),
            "h": np.array([0.5]),
            "i": INDICES,
            "a": normal(5, 3),
            "t": np.array([2.0]),
            "b": normal(5, 3),
            "n": np.array([-1.0]),
        },
        _scatter_weighted_sum,
        (),
    ),
    Case(
        "ScatterWeightedSum(y,one,i,a,lr)->(y)",
        {
            "y": normal(4, 2, 3),
            "one": np.ones(1),
            "i": INDICES.astype(np.int32),
            "a": normal(5, 2, 3),
            "lr": RATE,
        },
        _scattered_unscaled,
        (),
    ),
    Case("Lars(w,g)->(y) {offset=0.5}", {"w": normal(2, 3), "g": normal(2, 3)}, _lars, ()),
    Case("Lars(w,g)->(y) {offset=0.5}", {"w": np.zeros(3), "g": normal(3)}, lambda g: {"y": np.ones(1)}, ()),
    Case("Iter(t)->(t)", {"t": np.array([41], np.int64)}, lambda g: {"t": np.array([42])}, ()),
]


def _rate(arguments: str, iteration: int, expected: float) -> Case:
    return Case(
        f'LearningRate(t)->(y) {{base_lr=0.5,policy="{arguments}}}',
        {"t": np.array([iteration], np.int64)},
        lambda g: {"y": np.array(0.5 * expected)},
        (),
    )


_HILL = 'hill",num_iter=10,start_multiplier=0.2,gamma=0.5,power=2.0,end_multiplier=0.1'
_COMPOSITE = (
    'composite",sub_policy_num_iters=[5,5],sub_policy_0_policy="fixed",sub_policy_0_lr_scale=0.25,'
    'sub_policy_1_policy="exp",sub_policy_1_gamma=0.9'
)
_CONSTANT_THEN_LINEAR = (
    'constantThenLinearWarmup",start_warmup_multiplier=0.2,constant_warmup_num_iter=2,'
    "linear_warmup_num_iter=4"
)
_WARM = "start_warmup_multiplier=0.2,constant_warmup_num_iter=2,linear_warmup_num_iter=4"
_COMPOSITE_CYCLICAL = f'compositeCyclical",{_WARM},cyclical_max_lr=1.5'
_COMPOSITE_COSINE = (
    f'compositeCosine",{_WARM},cosine_max_lr=0.5,cosine_min_lr=0.1,cosine_period=10,cosine_lr_shrink=0.5'
)
_PIECES = 'pieceWarmup",m1=0.25,n1=2,m2=3.0,n2=5,m3=2.0'
_COSINE = 'cosine",max_lr=0.5,min_lr=0.1,period=10,lr_shrink=0.5'

RATES = [
    _rate('fixed"', 7, 1.0),
    _rate('step",stepsize=3,gamma=0.5', 7, 0.25),
    _rate('exp",gamma=0.9', 7, 0.9**7),
    _rate('inv",gamma=0.1,power=0.75', 7, 1.7**-0.75),
    _rate('poly",power=2.0,max_iter=10', 7, 0.3**2),
    _rate('alter",active_period=3,inactive_period=2', 7, 1.0),
    _rate('alter",active_period=3,inactive_period=2', 8, 0.0),
    _rate('alter",active_first=0,active_period=3,inactive_period=2', 6, 0.0),
    _rate('alter",active_first=0,active_period=3,inactive_period=2', 7, 1.0),
    _rate('linearWarmup",start_multiplier=0.2,num_iter=10', 7, 0.2 + 0.8 * 0.7),
    _rate('linearWarmup",start_multiplier=0.2,num_iter=10', 10, 1.0),
    _rate('constantWarmup",multiplier=0.25,num_iter=10', 9, 0.25),
    _rate('constantWarmup",multiplier=0.25,num_iter=10', 10, 1.0),
    _rate(_HILL, 5, 0.6),
    _rate(_HILL, 12, 2.0**-2),
    _rate(_HILL, 40, 0.1),
    _rate('gate",multiplier_1=0.5,multiplier_2=2.0,num_iter=3', 2, 0.5),
    _rate('gate",multiplier_1=0.5,multiplier_2=2.0,num_iter=3', 3, 2.0),
    _rate('cyclic",max_lr=1.5,stepsize=4,decay=0.5', 2, 1 + 2 * 0.5),
    _rate('cyclic",max_lr=1.5,stepsize=4,decay=0.5', 12, 1 + 2 * 0.5),
    _rate(_COSINE, 0, 0.5),
    _rate(_COSINE, 5, 0.3),
    _rate(_COSINE, 15, 0.15),
    _rate(f"{_COSINE},t_mult=2.0", 20, 0.15),
    _rate(_PIECES, 1, 0.25),
    _rate(_PIECES, 2, 3.0),
    _rate(_PIECES, 5, 2.0),
    _rate(f"{_COMPOSITE_CYCLICAL},cyclical_step_size=4,cyclical_decay=0.5", 1, 0.2),
    _rate(f"{_COMPOSITE_CYCLICAL},cyclical_step_size=4,cyclical_decay=0.5", 3, 0.4),
    _rate(f"{_COMPOSITE_CYCLICAL},cyclical_step_size=4,cyclical_decay=0.5", 8, 1 + 2 * 0.5),
    _rate(f"{_COMPOSITE_CYCLICAL},cyclical_step_size=4,cyclical_decay=0.5", 18, 1 + 2 * 0.5),
    _rate(_COMPOSITE_COSINE, 3, 0.4),
    _rate(_COMPOSITE_COSINE, 6, 0.5),
    _rate(_COMPOSITE_COSINE, 21, 0.15),
    _rate(_COMPOSITE, 5, 0.25),
    _rate(_COMPOSITE, 6, 0.9**6),
    _rate(_COMPOSITE, 60, 0.9**60),
    _rate(_CONSTANT_THEN_LINEAR, 1, 0.2),
    _rate(_CONSTANT_THEN_LINEAR, 3, 0.4),
    _rate(_CONSTANT_THEN_LINEAR, 7, 1.0),
]

AROUND = [
    Case(
        "Unique(i)->(y,r)",
        {"i": INDICES},
        lambda g: {"y": np.array([0, 2, 3]), "r": np.array([1, 0, 1, 1, 2], np.int32)},
        (),
    ),
    Case(
        "ScatterAssign(x,i,r)->(x)",
        {"x": normal(4, 2, 3), "i": np.array([2, 0], np.int32), "r": np.ones((2, 2, 3))},
        lambda g: {"x": np.where(np.isin(np.arange(4), [0, 2])[:, None, None], 1, g["x"])},
        (),
    ),
    Case("IsEmpty(x)->(y)", {"x": np.zeros((0, 3))}, lambda g: {"y": np.array(True)}, ()),
    Case("HasElements(x,z)->(y)", {"x": np.zeros(0), "z": np.ones(2)}, lambda g: {"y": np.array(True)}, ()),
    Case("HasElements(x)->(y)", {"x": np.zeros((2, 0))}, lambda g: {"y": np.array(False)}, ()),
    *[
        Case(
            "ClipTensorByScaling(x,n)->(y) {threshold=2.0}",
            {"x": normal(3), "n": np.array([size])},
            lambda g: {"y": g["x"] * min(1.0, 2.0 / g["n"][0])},
            (),
        )
        for size in (1.0, 8.0)
    ],
    Case(
        "ClipTensorByScaling(x,n,f)->(y) {threshold=2.0}",
        {"x": normal(3), "n": np.array([8.0]), "f": np.array([3.0])},
        lambda g: {"y": g["x"] * 6 / 8},
        (),
    ),
    Case(
        "OneHot(i,n)->(y)",
        {"i": INDICES, "n": np.array([4], np.int64)},
        lambda g: {"y": np.eye(4)[g["i"]]},
        (),
    ),
    Case("Range(n)->(y)", {"n": np.array([4], np.int32)}, lambda g: {"y": np.arange(4)}, ()),
    Case(
        "Range(a,n,s)->(y)",
        {"a": np.array([1], np.int64), "n": np.array([9], np.int64), "s": np.array([3], np.int64)},
        lambda g: {"y": np.array([1, 4, 7])},
        (),
    ),
    Case(
        "ReplaceNaN(x)->(y) {value=2.0}",
        {"x": np.array([1.0, np.nan])},
        lambda g: {"y": np.array([1.0, 2.0])},
        (),
    ),
    Case(
        "RowWiseArgMax(x)->(y)",
        {"x": apart(3, 4)},
        lambda g: {"y": g["x"].argmax(1)[:, None]},
        (),
    ),
]

OPTIMIZERS = [*UPDATES, *RATES, *AROUND]
