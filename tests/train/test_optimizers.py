"""Optimizers against plain NumPy, on gradients that are inputs of the model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from netgrad.core.errors import InvalidArgumentError
from netgrad.train import optimizers
from netgrad.train.loop import Trainer
from netgrad.train.optimizers import (
    Transform,
    adam,
    adamw,
    add_decayed_weights,
    chain,
    clip_by_global_norm,
    sgd,
    trace,
)
from netgrad.train.step import training_step
from tests.train.models import given_gradients, rng

Arrays = dict[str, np.ndarray]
STEPS = 5


def start() -> Arrays:
    r = rng(3)
    return {"W": r.normal(size=(3, 2)), "b": r.normal(size=4), "s": np.asarray(0.7)}


def slopes(step: int) -> Arrays:
    r = rng(100 + step)
    return {"W": r.normal(size=(3, 2)), "b": 3.0 * r.normal(size=4), "s": np.asarray(r.normal())}


def run(optimizer: Transform, rate: Callable[[int], float] | None = None, dtype: type = np.float64) -> Arrays:
    first = {name: np.asarray(array, dtype) for name, array in start().items()}
    model = given_gradients(**first)
    step = training_step(model, loss="loss", optimizer=optimizer, trainable=list(first))
    trainer = Trainer(step, threads=1)
    for k in range(STEPS):
        batch = {f"{name}_slope": np.asarray(array, dtype) for name, array in slopes(k).items()}
        trainer.step(batch, learning_rate=None if rate is None else rate(k))
    return trainer.parameters()


def reference_sgd(
    lr: float, momentum: float = 0.0, nesterov: bool = False, decay: float = 0.0, rate=None
) -> Arrays:
    p, buffer = start(), {}
    for k in range(STEPS):
        for name, gradient in slopes(k).items():
            d = gradient + decay * p[name]
            if momentum:
                buffer[name] = d.copy() if k == 0 else momentum * buffer[name] + d
                d = d + momentum * buffer[name] if nesterov else buffer[name]
            p[name] = p[name] - (lr if rate is None else rate(k)) * d
    return p


def reference_adam(lr: float, b1: float, b2: float, eps: float, coupled: float, decoupled: float) -> Arrays:
    p = start()
    m = {name: np.zeros_like(value) for name, value in p.items()}
    v = {name: np.zeros_like(value) for name, value in p.items()}
    for t in range(1, STEPS + 1):
        for name, gradient in slopes(t - 1).items():
            p[name] = p[name] * (1 - lr * decoupled)
            d = gradient + coupled * p[name]
            m[name] = b1 * m[name] + (1 - b1) * d
            v[name] = b2 * v[name] + (1 - b2) * d**2
            corrected_m, corrected_v = m[name] / (1 - b1**t), v[name] / (1 - b2**t)
            p[name] = p[name] - lr * corrected_m / (np.sqrt(corrected_v) + eps)
    return p


def assert_close(got: Arrays, want: Arrays, tolerance: float = 1e-12) -> None:
    assert set(got) == set(want)
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=tolerance, atol=tolerance, err_msg=name)
        assert got[name].shape == array.shape


@pytest.mark.parametrize(
    ("momentum", "nesterov", "decay"),
    [
        (0.0, False, 0.0),
        (0.0, False, 0.2),
        (0.9, False, 0.0),
        (0.8, True, 0.0),
        (0.8, True, 0.1),
        (0.5, False, 0.3),
    ],
)
def test_sgd(momentum: float, nesterov: bool, decay: float) -> None:
    got = run(sgd(0.1, momentum=momentum, nesterov=nesterov, weight_decay=decay))
    assert_close(got, reference_sgd(0.1, momentum, nesterov, decay))


def test_sgd_with_changing_rate() -> None:
    def rate(k: int) -> float:
        return 0.1 / (k + 1)

    assert_close(run(sgd(9.0, momentum=0.9), rate), reference_sgd(0.0, 0.9, rate=rate))


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("epsilon", [1e-8, 0.5])
def test_adam(decay: float, epsilon: float) -> None:
    got = run(adam(0.01, beta1=0.8, beta2=0.99, epsilon=epsilon, weight_decay=decay))
    assert_close(got, reference_adam(0.01, 0.8, 0.99, epsilon, decay, 0.0))


def test_adam_defaults_are_those_of_the_paper() -> None:
    assert_close(run(adam()), reference_adam(1e-3, 0.9, 0.999, 1e-8, 0.0, 0.0))


def test_adamw_decays_beside_the_moments() -> None:
    got = run(adamw(0.05, weight_decay=0.3))
    assert_close(got, reference_adam(0.05, 0.9, 0.999, 1e-8, 0.0, 0.3))
    assert np.abs(got["W"] - run(adam(0.05, weight_decay=0.3))["W"]).max() > 1e-3


def test_adam_bias_correction_holds_in_float32() -> None:
    got = run(adam(0.01), dtype=np.float32)
    assert_close(got, reference_adam(0.01, 0.9, 0.999, 1e-8, 0.0, 0.0), 1e-6)
    assert got["W"].dtype == np.float32


@pytest.mark.parametrize("limit", [0.5, 1e6])
def test_clip_by_global_norm(limit: float) -> None:
    p = start()
    for k in range(STEPS):
        gradient = slopes(k)
        norm = np.sqrt(sum(float((g**2).sum()) for g in gradient.values()))
        for name, g in gradient.items():
            p[name] = p[name] - 0.1 * g * min(1.0, limit / norm)
    assert_close(run(chain(clip_by_global_norm(limit), sgd(0.1))), p)


def test_clipping_zero_gradients_gives_zeros() -> None:
    first = {"W": np.ones((2, 3))}
    step = training_step(
        given_gradients(**first), loss="loss", optimizer=chain(clip_by_global_norm(1.0), sgd(0.1))
    )
    trainer = Trainer(step, threads=1)
    trainer.step({"W_slope": np.zeros((2, 3))})
    np.testing.assert_array_equal(trainer.parameters()["W"], first["W"])


def test_slots_of_one_name_in_a_chain_stay_apart() -> None:
    twice = chain(trace(0.5), trace(0.25), sgd(0.1))
    p = start()
    a = {name: np.zeros_like(v) for name, v in p.items()}
    b = {name: np.zeros_like(v) for name, v in p.items()}
    for k in range(STEPS):
        for name, g in slopes(k).items():
            a[name] = 0.5 * a[name] + g
            b[name] = 0.25 * b[name] + a[name]
            p[name] = p[name] - 0.1 * b[name]
    assert_close(run(twice), p)
    step = training_step(given_gradients(**start()), loss="loss", optimizer=twice)
    assert {"W/momentum", "W/momentum_1"} <= set(step.optimizer_state)


def test_an_own_transform_composes() -> None:
    def update(context, directions, state, parameters):
        return {
            name: optimizers.Direction(context.op.op("Sign", each.total)) for name, each in directions.items()
        }, {}

    sign = Transform("sign", lambda parameter: {}, update)
    p = start()
    for k in range(STEPS):
        for name, g in slopes(k).items():
            p[name] = p[name] - 0.1 * np.sign(g)
    assert_close(run(chain(sign, sgd(0.1))), p)


def test_state_that_an_update_leaves_alone_is_kept() -> None:
    def update(context, directions, state, parameters):
        return dict(directions), {}

    idle = Transform("idle", lambda parameter: {"anchor": parameter + 1.0}, update)
    step = training_step(given_gradients(**start()), loss="loss", optimizer=chain(idle, sgd(0.1)))
    trainer = Trainer(step, threads=1)
    for k in range(2):
        trainer.step({f"{name}_slope": array for name, array in slopes(k).items()})
    np.testing.assert_array_equal(trainer._workspace.get("b/anchor"), start()["b"] + 1.0)


def test_parameters_of_16_bits_are_updated_in_float32() -> None:
    first = np.asarray([[1.0, 2.0, -3.0]], np.float16)
    model = given_gradients(W=first)
    trainer = Trainer(training_step(model, loss="loss", optimizer=sgd(0.5, momentum=0.9)), threads=1)
    assert trainer.training_step.initial["W/momentum"].dtype == np.float32
    slope = np.asarray([[0.1, 0.2, 0.3]], np.float16)
    for _ in range(2):
        trainer.step({"W_slope": slope})
    exact = np.asarray(slope, np.float32)
    after = (np.asarray(first, np.float32) - np.float32(0.5) * exact).astype(np.float16).astype(np.float32)
    after = (after - np.float32(0.5) * np.float32(1.9) * exact).astype(np.float16)
    got = trainer.parameters()["W"]
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, after, rtol=1e-3)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: sgd(-0.1), "lr"),
        (lambda: sgd(float("nan")), "lr"),
        (lambda: sgd(0.1, momentum=1.0), "momentum"),
        (lambda: sgd(0.1, nesterov=True), "nesterov"),
        (lambda: sgd(0.1, weight_decay=-1.0), "weight_decay"),
        (lambda: adam(0.1, beta1=1.0), "beta1"),
        (lambda: adam(0.1, beta2=-0.1), "beta2"),
        (lambda: adamw(0.1, epsilon=-1.0), "epsilon"),
        (lambda: clip_by_global_norm(0.0), "max_norm"),
        (lambda: chain(), "at least one"),
        (lambda: chain(sgd(0.1), adam(0.1)), "2 optimizers"),
    ],
)
def test_wrong_arguments_are_named(make: Callable[[], Transform], named: str) -> None:
    with pytest.raises(InvalidArgumentError, match=named):
        make()


def test_a_transform_alone_is_no_optimizer() -> None:
    with pytest.raises(InvalidArgumentError, match="no learning rate"):
        training_step(given_gradients(**start()), loss="loss", optimizer=add_decayed_weights(0.1))
