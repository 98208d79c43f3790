"""Rows for the operators that update parameters by methods that tune themselves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.caffe2.operator_cases import Array, Blobs, Case

RATE = np.array([-0.1])

_random = np.random.default_rng(29)


def normal(*shape: int) -> Array:
    return _random.normal(size=shape)


def positive(*shape: int) -> Array:
    return _random.uniform(0.3, 2.0, size=shape)


def _halves(*values: float) -> Array:
    return np.array(values, np.float16)


def _adadelta(g: Blobs) -> dict[str, Array]:
    h = 0.9 * g["h"] + 0.1 * g["g"] ** 2
    s = np.sqrt((g["u"] + 0.01) / (h + 0.01)) * g["g"]
    return {"w": g["w"] - 0.1 * s, "h": h, "u": 0.9 * g["u"] + 0.1 * s**2}


def _wngrad(g: Blobs) -> dict[str, Array]:
    shifted = g["b"] + 0.01
    step = -0.1 * g["g"] / shifted
    return {
        "w": g["w"] + step,
        "b": g["b"] + (g["g"] ** 2).sum() / shifted,
        "r": -0.1 / shifted,
        "u": step,
    }


def _storm(g: Blobs) -> dict[str, Array]:
    s = g["s"] + (g["g"] ** 2).sum()
    rate = -0.1 / np.cbrt(0.2 + s)
    alpha = 3.0 * rate**2
    m = g["g"] + (1 - alpha) * (g["m"] - g["g"])
    return {"w": g["w"] + rate * m, "m": m, "s": s}


def _gftrl(g: Blobs) -> dict[str, Array]:
    """Column by column."""
    n, z = g["nz"][..., 0], g["nz"][..., 1]
    after = n + g["g"] ** 2
    z = z + g["g"] - (np.sqrt(after) - np.sqrt(n)) / 0.1 * g["w"]
    w = np.zeros(z.shape)
    for column in range(z.shape[1]):
        norm, low = np.linalg.norm(z[:, column]), 3.0 * np.sqrt(len(z))
        if norm > low:
            divisor = (1.5 + np.sqrt(after[:, column])) / 0.1 + 0.2
            w[:, column] = z[:, column] * (low / norm - 1) / divisor
    return {"w": w, "nz": np.stack([after, z], -1)}


def _adapted(normalized: bool) -> Callable[[Blobs], dict[str, Array]]:
    def formula(g: Blobs) -> dict[str, Array]:
        along = (g["g"] * g["e"]).sum()
        if not normalized:
            return {"lr": g["lr"] - 0.5 * along}
        return {"lr": g["lr"] * (1 - 0.5 * along / np.linalg.norm(g["g"]) / np.linalg.norm(g["e"]))}

    return formula


def _decayed_momentum(g: Blobs) -> dict[str, Array]:
    after = 0.9 * g["m"] + 0.1 * (g["g"] + 0.3 * g["w"])
    step = 1.9 * after - 0.9 * g["m"]
    return {"g": step, "m": after, "w": g["w"] - step}


def _lars(g: Blobs) -> dict[str, Array]:
    ratio = np.linalg.norm(g["g"]) / np.linalg.norm(g["w"])
    return {"y": np.clip(g["t"] / (ratio + g["d"] + 0.5), 0.1, g["h"])}


def _radam(steps: int) -> Callable[[Blobs], dict[str, Array]]:
    def formula(g: Blobs) -> dict[str, Array]:
        w, m, v, u = g["w"].copy(), g["m"].copy(), g["v"].copy(), np.zeros(g["g"].shape)
        t = steps + 1
        longest = 2 / (1 - 0.9) - 1
        length = longest - 2 * t * 0.9**t / (1 - 0.9**t)
        for k, row in enumerate(g["i"]):
            m[row] = 0.8 * m[row] + 0.2 * g["g"][k]
            v[row] = 0.9 * v[row] + 0.1 * g["g"][k] ** 2
            unbiased = m[row] / (1 - 0.8**t)
            if length >= 5:
                top = (length - 4) * (length - 2) * longest
                rectifier = np.sqrt(top / ((longest - 4) * (longest - 2) * length))
                u[k] = rectifier * unbiased * np.sqrt(1 - 0.9**t) / (np.sqrt(v[row]) + 0.01)
            else:
                u[k] = unbiased
            w[row] -= 0.1 * u[k]
        return {"w": w, "m": m, "v": v, "u": u}

    return formula


def _yellow_fin(g: Blobs) -> dict[str, Array]:
    """With beta 0.9, a window of 3 and epsilon 1e-6, as in the paper, in the order of the operator."""
    t, grad, old = int(g["t"][0]), g["g"], g["s"]
    mu, rate = g["mu"][0], g["lr"][0]
    m = mu * g["m"] + rate * grad

    def mean(before: Array, x: Array) -> Array:
        return 0.9 * before + 0.1 * x

    debias = 1 / (1 - 0.9**t)
    square = (grad**2).sum()
    window = g["c"].copy()
    window[(t - 1) % 3] = np.log(square)
    lowest, highest = window[: min(3, t)].min(), window[: min(3, t)].max()
    s = np.array(
        [
            mean(old[0], np.sqrt(square)),
            mean(old[1], square),
            mean(old[2], lowest),
            mean(old[3], highest),
            0.0,
        ]
    )
    s[4] = mean(old[4], s[0] / s[1])
    ga, g2 = mean(g["a"], grad), mean(g["b"], grad**2)
    found = {"w": g["w"] - m, "m": m, "c": window, "a": ga, "b": g2, "s": s, "lr": g["lr"], "mu": g["mu"]}
    if t > 1:
        low, high = np.exp(s[2] * debias), np.exp(s[3] * debias)
        variance = max(s[1] * debias - ((ga * debias) ** 2).sum(), 1e-6)
        distance = s[4] * debias
        p = (distance * low) ** 2 / (2 * variance)
        # the decay is x² where x = y + 1 solves p x = (1 - x)³, that is y³ + p y + p = 0
        (y,) = (root.real for root in np.roots([1, 0, p, p]) if abs(root.imag) < 1e-9)
        ratio = np.sqrt(high / low)
        new = max((y + 1) ** 2, ((ratio - 1) / (ratio + 1)) ** 2)
        found["mu"] = mean(g["mu"], new)
        found["lr"] = mean(g["lr"], (1 - np.sqrt(new)) ** 2 / low)
    return found


def _finned(steps: int) -> Case:
    return Case(
        "YellowFin(w,m,lr,mu,c,a,b,s,g,t)->(w,m,lr,mu,c,a,b,s) {beta=0.9,curv_win_width=3}",
        {
            "w": normal(2, 3),
            "m": normal(2, 3),
            "lr": np.array([0.1]),
            "mu": np.array([0.4]),
            "c": positive(3),
            "a": 0.1 * normal(2, 3),
            "b": positive(2, 3),
            "s": positive(5),
            "g": normal(2, 3),
            "t": np.array([steps], np.int64),
        },
        _yellow_fin,
        (),
    )


ADAPTIVE = [
    Case(
        "Adadelta(w,h,u,g,lr)->(w,h,u) {epsilon=0.01,decay=0.9}",
        {"w": normal(2, 3), "h": positive(2, 3), "u": positive(2, 3), "g": normal(2, 3), "lr": RATE},
        _adadelta,
        (),
    ),
    Case(
        "Wngrad(w,b,g,lr)->(w,b,r,u) {epsilon=0.01}",
        {"w": normal(2, 3), "b": np.array([3.0]), "g": normal(2, 3), "lr": RATE},
        _wngrad,
        (),
    ),
    Case(
        "Storm(w,m,s,g,lr)->(w,m,s) {momentum=3.0,beta=0.2}",
        {"w": normal(2, 3), "m": normal(2, 3), "s": np.array([0.5]), "g": normal(2, 3), "lr": RATE},
        _storm,
        (),
    ),
    Case(
        "GFtrl(w,nz,g)->(w,nz) {alpha=0.1,beta=1.5,lambda1=3.0,lambda2=0.2}",
        {"w": normal(3, 4), "nz": positive(3, 4, 2), "g": normal(3, 4) * [[9, 9, 1, 1]]},
        _gftrl,
        (),
    ),
    *[
        Case(
            f"LearningRateAdaption(lr,g,e)->(lr) {{lr_alpha=0.5,normalized_lr_adaption={int(normalized)}}}",
            {"lr": RATE, "g": normal(2, 3), "e": normal(2, 3)},
            _adapted(normalized),
            (),
        )
        for normalized in (True, False)
    ],
    Case(
        "FP32MomentumSGDUpdate(g,m,lr,w)->(g,m,w) {momentum=0.9,nesterov=1,weight_decay=0.3}",
        {"g": normal(2, 3), "m": normal(2, 3), "lr": -RATE, "w": normal(2, 3)},
        _decayed_momentum,
        (),
    ),
    *[
        Case(
            f"FP16MomentumSGDUpdate(g,m,lr,w)->(g,m,w) {{momentum=0.5,weight_decay=0.5,fp32_update={wide}}}",
            {"g": _halves(1, -2), "m": _halves(4, 2), "lr": np.array([2.0]), "w": _halves(6, -2)},
            lambda g: {"m": np.array([10, -5]), "g": np.array([10, -5]), "w": np.array([-4, 3])},
            (),
        )
        for wide in (0, 1)
    ],
    *[
        Case(
            "WeightScale(w,t)->(w) {stepsize=3,upper_bound_iter=8,scale=0.5}",
            {"w": normal(2, 3), "t": np.array([steps], np.int64)},
            lambda g, factor=factor: {"w": factor * g["w"]},
            (),
        )
        for steps, factor in [(1, 1.0), (2, 0.5), (8, 1.0)]
    ],
    Case(
        "EnsureClipped(w)->(w) {min=-0.5,max=0.5}",
        {"w": normal(4, 3)},
        lambda g: {"w": np.clip(g["w"], -0.5, 0.5)},
        (),
    ),
    Case(
        "EnsureClipped(w,i,g)->(w) {min=0.0}",
        {"w": normal(4, 3), "i": np.array([2, 0, 2], np.int64), "g": normal(3, 3)},
        lambda g: {"w": np.where([[True], [False], [True], [False]], np.maximum(g["w"], 0), g["w"])},
        (),
    ),
    Case(
        "Adam(w,m,v,g,lr,t)->(w,m,v,u) {beta1=0.8,beta2=0.7,epsilon=0.01}",
        {"w": normal(3), "m": normal(3), "v": positive(3), "g": normal(3), "lr": RATE, "t": np.array([3])},
        lambda g: {
            "m": (m := 0.8 * g["m"] + 0.2 * g["g"]),
            "v": (v := 0.7 * g["v"] + 0.3 * g["g"] ** 2),
            "u": (u := np.sqrt(1 - 0.7**4) / (1 - 0.8**4) * m / (np.sqrt(v) + 0.01)),
            "w": g["w"] - 0.1 * u,
        },
        (),
    ),
    *[
        Case(
            "SparseAdam(w,m,v,i,g,lr,t)->(w,m,v,u) {beta1=0.8,beta2=0.9,epsilon=0.01,enableRAdam=1}",
            {
                "w": normal(4, 3),
                "m": normal(4, 3),
                "v": positive(4, 3),
                "i": np.array([2, 0, 2, 3], np.int64),
                "g": normal(4, 3),
                "lr": RATE,
                "t": np.array([steps], np.int64),
            },
            _radam(steps),
            (),
        )
        for steps in (2, 40)
    ],
    Case(
        "Adagrad(w,h,g,lr)->(w,h) {epsilon=0.01,weight_decay=0.5}",
        {"w": normal(4, 3), "g": normal(4, 3), "h": positive(4, 3), "lr": RATE},
        lambda g: {
            "h": (h := g["h"] + (x := g["g"] + 0.5 * g["w"]) ** 2),
            "w": g["w"] - 0.1 * x / (np.sqrt(h) + 0.01),
        },
        (),
    ),
    *[
        Case(
            "Lars(w,g,d,t,h)->(y) {offset=0.5,lr_min=0.1}",
            {
                "w": normal(2, 3),
                "g": normal(2, 3) * size,
                "d": np.array([0.2]),
                "t": np.array([2.0]),
                "h": np.array([0.9]),
            },
            _lars,
            (),
        )
        for size in (1.0, 1e-3, 100.0)
    ],
    *[_finned(steps) for steps in (1, 2, 5)],
]
