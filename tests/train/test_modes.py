"""Training form and inference form: BatchNormalization with carried statistics, Dropout with hashed masks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from netgrad.core.errors import InvalidModelError
from netgrad.runtime.session import Session
from netgrad.train import losses
from netgrad.train.loop import Trainer
from netgrad.train.optimizers import sgd
from netgrad.train.step import training_step
from tests.train.models import build, dropped, normalised, rng

Arrays = dict[str, np.ndarray]
MSE = losses.mean_squared_error("y")


def batch(seed: int, n: int = 6) -> Arrays:
    r = rng(seed)
    return {"x": r.normal(size=(n, 3)), "targets": r.normal(size=(n, 3))}


def forward(p: Arrays, x: np.ndarray, *, training: bool, second: str = "2") -> tuple[np.ndarray, Arrays]:
    """The model of `normalised` in NumPy: y and the statistics of the two layers."""
    statistics: Arrays = {}

    def normalise(a: np.ndarray, k: str, own: str) -> np.ndarray:
        mean, var = (a.mean(0), a.var(0)) if training else (p[f"m{own}"], p[f"v{own}"])
        statistics[f"m{own}"], statistics[f"v{own}"] = mean, var
        return p[f"g{k}"] * (a - mean) / np.sqrt(var + 2.0**-10) + p[f"b{k}"]

    t = np.tanh(normalise(x @ p["W"], "1", "1"))
    return normalise(t, "2", second), statistics


def reference(p: Arrays, data: list[Arrays], rate: float, *, training: bool) -> Arrays:
    """Gradient descent by central differences, running statistics carried as the standard says."""
    p = {name: np.array(value, np.float64) for name, value in p.items()}
    trained = ("W", "g1", "b1", "g2", "b2")
    for each in data:

        def loss(q: Arrays, each: Arrays = each) -> float:
            return float(((forward(q, each["x"], training=training)[0] - each["targets"]) ** 2).mean())

        slope: Arrays = {}
        for name in trained:
            slope[name] = np.zeros_like(p[name])
            for index in np.ndindex(*p[name].shape):
                delta = np.zeros_like(p[name])
                delta[index] = 1e-5
                up, down = {**p, name: p[name] + delta}, {**p, name: p[name] - delta}
                slope[name][index] = (loss(up) - loss(down)) / 2e-5
        statistics = forward(p, each["x"], training=training)[1]
        for name in trained:
            p[name] = p[name] - rate * slope[name]
        if training:
            for name, value in statistics.items():
                p[name] = 0.75 * p[name] + 0.25 * value
    return p


def initial(model: onnx.ModelProto) -> Arrays:
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


@pytest.mark.parametrize(
    ("exported_for_training", "mode"), [(False, "train"), (True, "train"), (True, "as-is")]
)
def test_batch_normalization_in_training(exported_for_training: bool, mode: str) -> None:
    model = normalised(training=exported_for_training)
    step = training_step(model, loss=MSE, optimizer=sgd(0.1), mode=mode)  # type: ignore[arg-type]
    assert set(step.carried) == {"m1", "v1", "m2", "v2"}
    assert set(step.parameters) == {"W", "g1", "b1", "g2", "b2"}
    trainer = Trainer(step, threads=1)
    data = [batch(k, n) for k, n in enumerate((6, 5, 9))]
    for each in data:
        trainer.step(each)
    want = reference(initial(model), data, 0.1, training=True)
    for name, array in trainer.parameters().items():
        np.testing.assert_allclose(array, want[name], rtol=1e-6, atol=1e-8, err_msg=name)


def test_batch_normalization_as_it_is_in_an_inference_model() -> None:
    model = normalised()
    step = training_step(model, loss=MSE, optimizer=sgd(0.1))
    assert not step.carried
    trainer = Trainer(step, threads=1)
    data = [batch(k) for k in range(2)]
    for each in data:
        trainer.step(each)
    want = reference(initial(model), data, 0.1, training=False)
    for name, array in trainer.parameters().items():
        np.testing.assert_allclose(array, want[name], rtol=1e-6, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("training", [False, True])
def test_evaluation_and_export_use_running_statistics(training: bool, tmp_path: Path) -> None:
    model = normalised(training=training)
    trainer = Trainer(training_step(model, loss=MSE, optimizer=sgd(0.1), mode="train"), threads=1)
    for k in range(3):
        trainer.step(batch(k))
    held_out = batch(9, 4)
    p = {**initial(model), **trainer.parameters()}
    want = forward(p, held_out["x"], training=False)[0]
    assert trainer.evaluate(held_out)["loss"] == pytest.approx(((want - held_out["targets"]) ** 2).mean())
    exported = trainer.export(tmp_path / "trained.onnx")
    onnx.checker.check_model(str(tmp_path / "trained.onnx"), full_check=True)
    got = Session(exported, threads=1).run({"x": held_out["x"]}, ["y"])["y"]
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    again = trainer.evaluate(held_out)  # a second evaluation sees the parameters of now
    trainer.step(batch(4))
    assert trainer.evaluate(held_out)["loss"] != again["loss"]


def test_layers_that_share_their_statistics_get_their_own() -> None:
    model = normalised(shared=True)
    step = training_step(model, loss=MSE, optimizer=sgd(0.1), mode="train")
    assert set(step.carried) == {"m1", "v1", "m1_1", "v1_1"}
    assert any("2 running statistics" in note for note in step.notes)
    trainer = Trainer(step, threads=1)
    data = [batch(k) for k in range(2)]
    for each in data:
        trainer.step(each)
    start = initial(model)
    want = reference({**start, "m2": start["m1"], "v2": start["v1"]}, data, 0.1, training=True)
    got = trainer.parameters()
    np.testing.assert_allclose(got["m1"], want["m1"], rtol=1e-6)
    np.testing.assert_allclose(got["v1_1"], want["v2"], rtol=1e-6)
    x = batch(9)["x"]
    p = {**got, "m2": got["m1_1"], "v2": got["v1_1"]}
    exported = Session(trainer.export(), threads=1).run({"x": x}, ["y"])["y"]
    np.testing.assert_allclose(exported, forward(p, x, training=False)[0], rtol=1e-12)


def test_an_explicit_state_stands_before_the_automatic_one() -> None:
    model = normalised(training=True)
    step = training_step(model, loss=MSE, optimizer=sgd(0.1), state={"m1": "v1_new"})
    assert step.carried["m1"] == "v1_new"
    assert "v1" not in step.carried or step.carried["v1"] != "m1_new"


def test_computed_statistics_cannot_be_carried() -> None:
    kind = TensorProto.FLOAT
    nodes = [
        helper.make_node("Mul", ["m", "x0"], ["mean"]),
        helper.make_node("BatchNormalization", ["x", "g", "b", "mean", "v"], ["y"], name="bn"),
    ]
    weights = {name: np.ones(3, np.float32) for name in ("m", "g", "b", "v")}
    model = build(nodes, {"x": (kind, ["N", 3]), "x0": (kind, [3])}, {"y": (kind, ["N", 3])}, weights)
    with pytest.raises(InvalidModelError, match=r"BatchNormalization 'bn'(?s:.*)as-is"):
        training_step(model, loss=MSE, optimizer=sgd(0.1), mode="train")


# ---- Dropout ----------------------------------------------------------------------------------------------


def masks(trainer: Trainer, n: int = 400) -> np.ndarray:
    """Runs one step without learning; gives d1 for ones of shape (n, 6), scaled back by w."""
    x = np.ones((n, 6), np.float32)
    values = trainer._workspace.run(
        {"x": x, "learning_rate": np.float32(0.0), "targets": np.zeros((n, 6), np.float32)},
        [trainer.training_step.metrics["d1"]],
    )
    return values[trainer.training_step.metrics["d1"]] / np.linspace(0.5, 1.5, 6, dtype=np.float32)


def dropping(ratio: float = 0.25, seed: int = 0, **options: bool) -> Trainer:
    model = dropped(ratio, **options)
    step = training_step(model, loss=MSE, optimizer=sgd(0.1), mode="train", metrics=["d1"], trainable=["w"])
    return Trainer(step, threads=1, seed=seed)


@pytest.mark.parametrize("ratio", [0.0, 0.25, 0.9])
def test_dropout_drops_its_share_and_scales_the_rest(ratio: float) -> None:
    trainer = dropping(ratio)
    seen = masks(trainer)
    kept = seen != 0
    np.testing.assert_allclose(seen[kept], 1 / (1 - ratio), rtol=1e-6)
    # 2400 independent draws: five standard deviations
    assert abs(kept.mean() - (1 - ratio)) <= 5 * np.sqrt(ratio * (1 - ratio) / kept.size)


def test_masks_differ_from_step_to_step_and_by_seed_but_not_from_run_to_run() -> None:
    first, again, other = dropping(), dropping(), dropping(seed=1)
    runs = [[masks(trainer) != 0 for _ in range(3)] for trainer in (first, again, other)]
    np.testing.assert_array_equal(runs[0], runs[1])
    flat = [mask.ravel().astype(float) for run in (runs[0], runs[2]) for mask in run]
    correlation = np.corrcoef(flat) - np.eye(6)
    # of 2400 draws each: five standard deviations
    assert np.abs(correlation).max() < 5 / np.sqrt(2400)


def test_neighbouring_elements_are_independent() -> None:
    flat = (masks(dropping(0.5), 4000) != 0).ravel().astype(float)
    for lag in (1, 2, 3, 6, 64, 256):
        assert abs(np.corrcoef(flat[:-lag], flat[lag:])[0, 1]) < 5 / np.sqrt(flat.size), lag


def test_two_layers_have_different_masks_and_the_gradient_uses_the_same_ones() -> None:
    model = dropped(0.5)
    step = training_step(model, loss=MSE, optimizer=sgd(1.0), mode="train", metrics=["d1"], trainable=["w"])
    trainer = Trainer(step, threads=1)
    x = rng(30).normal(size=(50, 6)).astype(np.float32)
    targets = rng(31).normal(size=(50, 6)).astype(np.float32)
    w = step.initial["w"].astype(np.float64)
    outputs = [step.metrics["d1"], step.loss]
    seen = trainer._workspace.run({"x": x, "targets": targets, "learning_rate": np.float32(1.0)}, outputs)
    one = seen[step.metrics["d1"]] / (x * w)  # 0 or 2
    # loss = mean((x w (one + two) - t)^2) fixes the other mask through the update of w
    got = w - trainer.parameters()["w"]

    def slope(two: np.ndarray) -> np.ndarray:
        factor = x * (one + two)
        return (2 * (w * factor - targets) * factor).sum(0) / x.size

    assert np.abs(slope(one) - got).max() > 1e-3  # had both layers one mask
    trainer.step({"x": x, "targets": targets})
    evaluated = trainer.evaluate({"x": x, "targets": targets})["loss"]
    w_now = trainer.parameters()["w"].astype(np.float64)
    assert evaluated == pytest.approx(((2 * w_now * x - targets) ** 2).mean(), rel=1e-5)


def test_dropout_gradient_by_its_own_loss() -> None:
    """With one layer the mask is visible in the output, and the gradient follows from it."""
    kind = TensorProto.FLOAT
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["s"]),
        helper.make_node("Dropout", ["s", "ratio", "flag"], ["y", "kept"]),
    ]
    weights = {"w": np.ones(6, np.float32), "ratio": np.float32(0.5), "flag": np.asarray(True)}
    outputs = {"y": (kind, ["N", 6]), "kept": (TensorProto.BOOL, ["N", 6])}
    model = build(nodes, {"x": (kind, ["N", 6])}, outputs, weights)  # type: ignore[arg-type]
    step = training_step(model, loss=MSE, optimizer=sgd(1.0), metrics=["y", "kept"], trainable=["w"])
    assert step.seed == "seed"
    trainer = Trainer(step, threads=1)
    x, targets = (rng(k).normal(size=(40, 6)).astype(np.float32) for k in (32, 33))
    seen = trainer._workspace.run(
        {"x": x, "targets": targets, "learning_rate": np.float32(1.0)},
        [step.metrics["y"], step.metrics["kept"]],
    )
    kept = seen[step.metrics["kept"]]
    np.testing.assert_allclose(seen[step.metrics["y"]], np.where(kept, 2 * x, 0), rtol=1e-6)
    slope = (2 * (2 * kept * x - targets) * 2 * kept * x).sum(0) / x.size
    np.testing.assert_allclose(1 - trainer.parameters()["w"], slope, rtol=1e-4, atol=1e-6)


def test_dropout_of_an_inference_model_stays_idle_as_it_is() -> None:
    step = training_step(dropped(), loss=MSE, optimizer=sgd(0.1), metrics=["d1"], trainable=["w"])
    assert step.seed is None
    seen = masks(Trainer(step, threads=1))
    np.testing.assert_allclose(seen, 1.0, rtol=1e-6)


@pytest.mark.parametrize("training", [None, False, True])
def test_the_exported_model_drops_nothing(training: bool | None) -> None:
    model = dropped(training=training)
    step = training_step(model, loss=MSE, optimizer=sgd(0.1), mode="train", trainable=["w"])
    exported = Trainer(step, threads=1).export()
    onnx.checker.check_model(ir.to_proto(exported), full_check=True)
    x = rng(34).normal(size=(5, 6)).astype(np.float32)
    got = Session(exported, threads=1).run({"x": x}, ["y"])["y"]
    np.testing.assert_allclose(got, 2 * x * step.initial["w"], rtol=1e-6)


def test_a_ratio_that_is_fed_is_refused() -> None:
    kind = TensorProto.FLOAT
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["s"]),
        helper.make_node("Dropout", ["s", "ratio"], ["y"], name="drop"),
    ]
    model = build(
        nodes,
        {"x": (kind, ["N", 6]), "ratio": (kind, [])},
        {"y": (kind, ["N", 6])},
        {"w": np.ones(6, np.float32)},
    )
    with pytest.raises(InvalidModelError, match=r"Dropout 'drop'.*ratio"):
        training_step(model, loss=MSE, optimizer=sgd(0.1), mode="train")
