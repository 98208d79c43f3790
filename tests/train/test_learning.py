"""Small models learn real data: handwritten digits, 8 x 8 pixels."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from netgrad.runtime.session import Session
from netgrad.train import losses
from netgrad.train.loop import Trainer
from netgrad.train.optimizers import adam, chain, clip_by_global_norm, sgd
from netgrad.train.schedules import cosine
from netgrad.train.step import training_step
from tests.train.models import build, rng

datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")

FLOAT = TensorProto.FLOAT


def weight(r: np.random.Generator, *shape: int, fan_in: int) -> np.ndarray:
    return (r.normal(size=shape) * np.sqrt(2 / fan_in)).astype(np.float32)


def convolutional() -> onnx.ModelProto:
    r = rng(60)
    weights: dict[str, np.ndarray] = {"fc_w": weight(r, 64, 10, fan_in=64), "fc_b": np.zeros(10, np.float32)}
    nodes = []
    last = "image"
    for k, (inside, outside) in enumerate([(1, 8), (8, 16)], 1):
        weights |= {
            f"conv{k}_w": weight(r, outside, inside, 3, 3, fan_in=9 * inside),
            f"bn{k}_scale": np.ones(outside, np.float32),
            f"bn{k}_bias": np.zeros(outside, np.float32),
            f"bn{k}_mean": np.zeros(outside, np.float32),
            f"bn{k}_var": np.ones(outside, np.float32),
        }
        statistics = [f"bn{k}_{part}" for part in ("scale", "bias", "mean", "var")]
        nodes += [
            helper.make_node("Conv", [last, f"conv{k}_w"], [f"c{k}"], pads=[1, 1, 1, 1]),
            helper.make_node("BatchNormalization", [f"c{k}", *statistics], [f"n{k}"]),
            helper.make_node("Relu", [f"n{k}"], [f"r{k}"]),
            helper.make_node("MaxPool", [f"r{k}"], [f"p{k}"], kernel_shape=[2, 2], strides=[2, 2]),
        ]
        last = f"p{k}"
    nodes += [
        helper.make_node("Flatten", [last], ["flat"]),
        helper.make_node("Gemm", ["flat", "fc_w", "fc_b"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"]),
    ]
    return build(nodes, {"image": (FLOAT, ["N", 1, 8, 8])}, {"probabilities": (FLOAT, ["N", 10])}, weights)


def perceptron() -> onnx.ModelProto:
    r = rng(61)
    weights = {
        "w1": weight(r, 64, 32, fan_in=64),
        "b1": np.zeros(32, np.float32),
        "w2": weight(r, 32, 10, fan_in=32),
        "b2": np.zeros(10, np.float32),
    }
    nodes = [
        helper.make_node("Flatten", ["image"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w1", "b1"], ["a"]),
        helper.make_node("Relu", ["a"], ["h"]),
        helper.make_node("Gemm", ["h", "w2", "b2"], ["probabilities"]),
    ]
    return build(nodes, {"image": (FLOAT, ["N", 1, 8, 8])}, {"probabilities": (FLOAT, ["N", 10])}, weights)


def digits() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    found = datasets.load_digits()
    images = (found.images / 16.0).astype(np.float32)[:, None]
    order = rng(62).permutation(len(images))
    parts = order[:1400], order[1400:]
    train, held_out = (
        {"image": images[part], "labels": found.target[part].astype(np.int64)} for part in parts
    )
    return train, held_out


@pytest.mark.parametrize(
    ("model", "optimizer", "rate", "goal"),
    [
        (perceptron(), sgd(0.1, momentum=0.9, nesterov=True), 0.1, 0.95),
        (convolutional(), chain(clip_by_global_norm(5.0), adam()), 0.01, 0.97),
    ],
    ids=["perceptron", "convolutional"],
)
def test_digits_are_learned(model: onnx.ModelProto, optimizer, rate: float, goal: float) -> None:
    train, held_out = digits()
    step = training_step(
        model, loss=losses.cross_entropy(), optimizer=optimizer, metrics=["accuracy"], mode="train"
    )
    trainer = Trainer(step, threads=2, seed=3)
    epochs = 8
    trainer.fit(train, epochs=epochs, batch_size=25, learning_rate=cosine(rate, epochs * 56), progress=False)
    result = trainer.evaluate(held_out, batch_size=397)
    assert result["accuracy"] >= goal
    session = Session(trainer.export(), threads=2)
    guess = session.run({"image": held_out["image"]})["probabilities"].argmax(1)
    assert (guess == held_out["labels"]).mean() == pytest.approx(result["accuracy"])
