"""Training models of half precision: types, range, and that they learn."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from netgrad.train import losses
from netgrad.train.loop import Trainer
from netgrad.train.losses import Loss
from netgrad.train.optimizers import adam, adamw, sgd
from netgrad.train.step import training_step
from tests.train.models import build, rng

OPTIMIZERS = {
    "sgd": lambda: sgd(0.05, momentum=0.9, nesterov=True),
    "adam": lambda: adam(0.02),
    "adamw": lambda: adamw(0.02),
}

LOSSES: dict[str, Callable[[], Loss]] = {
    "cross_entropy": losses.cross_entropy,
    "smoothed": lambda: losses.cross_entropy(label_smoothing=0.1, class_weights=[1.0, 2.0, 1.0]),
    "soft": lambda: losses.cross_entropy(labels="targets", soft=True),
    "mean_squared_error": losses.mean_squared_error,
    "binary_cross_entropy": lambda: losses.binary_cross_entropy_on_scores(labels="targets"),
}


def _perceptron(dtype: np.dtype) -> onnx.ModelProto:
    r = rng(70)
    weights = {
        "w1": r.normal(size=(4, 16)) * 0.5,
        "b1": np.zeros(16),
        "scale": np.ones(16),
        "w2": r.normal(size=(16, 3)) * 0.3,
    }
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["a"]),
        helper.make_node("LayerNormalization", ["a", "scale"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("MatMul", ["r", "w2"], ["scores"]),
    ]
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    rounded = {name: array.astype(dtype) for name, array in weights.items()}
    return build(nodes, {"x": (kind, ["N", 4])}, {"scores": (kind, ["N", 3])}, rounded)


def _data() -> dict[str, np.ndarray]:
    r = rng(71)
    x = r.normal(size=(64, 4)).astype(np.float16)
    labels = (x[:, 0] > 0).astype(np.int64) + (x[:, 1] > 0)
    return {"x": x, "labels": labels, "targets": np.eye(3, dtype=np.float16)[labels]}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_float16_model_learns_and_stays_float16(loss: str, optimizer: str) -> None:
    step = training_step(
        _perceptron(np.dtype(np.float16)), loss=LOSSES[loss](), optimizer=OPTIMIZERS[optimizer]()
    )
    trainer = Trainer(step, threads=1)
    given = {name: array for name, array in _data().items() if name in step.batch_inputs}
    values = [float(trainer.step(given)["loss"]) for _ in range(40)]
    assert values[-1] < 0.9 * values[0]
    assert {array.dtype for array in trainer.parameters().values()} == {np.dtype(np.float16)}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_step_of_a_bfloat16_model_is_a_valid_model(loss: str, optimizer: str) -> None:
    """At opset 18, where Softplus does not take bfloat16."""
    model = _perceptron(np.dtype(ml_dtypes.bfloat16))
    step = training_step(
        model,
        loss=LOSSES[loss](),
        optimizer=OPTIMIZERS[optimizer](),
        metrics=["accuracy"] if loss == "cross_entropy" else [],
    )
    onnx.checker.check_model(ir.to_proto(step.model), full_check=True)


def test_the_loss_of_many_float16_samples_is_finite() -> None:
    """8192 times 10 is more than float16 can hold."""
    scores = np.zeros((8192, 2), np.float16)
    scores[:, 0] = 10
    nodes = [helper.make_node("Add", ["x", "b"], ["scores"])]
    kind = onnx.TensorProto.FLOAT16
    model = build(
        nodes, {"x": (kind, ["N", 2])}, {"scores": (kind, ["N", 2])}, {"b": np.zeros(2, np.float16)}
    )
    labels = np.ones(8192, np.int64)
    for loss in (losses.cross_entropy(), losses.cross_entropy(label_smoothing=0.1)):
        trainer = Trainer(training_step(model, loss=loss, optimizer=sgd(1.0)), threads=1)
        found = trainer.step({"x": scores, "labels": labels})["loss"]
        assert found == pytest.approx(10 - (0.5 if loss.label_smoothing else 0), rel=1e-3)  # type: ignore[attr-defined]
        np.testing.assert_allclose(trainer.parameters()["b"], [-1, 1], atol=0.06)
