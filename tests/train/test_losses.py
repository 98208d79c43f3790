"""Losses: their value against formulas in NumPy, their gradient against central differences of those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from netgrad.core.errors import InvalidArgumentError
from netgrad.train import losses
from netgrad.train.loop import Trainer
from netgrad.train.metrics import accuracy
from netgrad.train.optimizers import sgd
from netgrad.train.step import training_step
from tests.train.models import build, perceptron, rng, scores_model

Array = np.ndarray


def log_softmax(x: Array, axis: int) -> Array:
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def cross_entropy(
    x: Array,
    labels: Array,
    axis: int = 1,
    smoothing: float = 0.0,
    ignore: int | None = None,
    weights: Array | None = None,
    reduction: str = "mean",
) -> float:
    """Sample by sample, as the definition says."""
    scores = np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])
    classes = scores.shape[1]
    w = np.ones(classes) if weights is None else weights
    total, count = 0.0, 0.0
    for row, label in zip(scores, labels.ravel(), strict=True):
        if label == ignore:
            continue
        logp = log_softmax(row, 0)
        total -= (1 - smoothing) * w[label] * logp[label] + smoothing / classes * float((w * logp).sum())
        count += w[label]
    return total if reduction == "sum" else total / count


def soft_cross_entropy(
    x: Array, labels: Array, axis: int = 1, smoothing: float = 0.0, weights: Array | None = None
) -> float:
    scores = np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])
    target = np.moveaxis(labels, axis, -1).reshape(scores.shape)
    target = target * (1 - smoothing) + smoothing / scores.shape[1]
    w = np.ones(scores.shape[1]) if weights is None else weights
    return float(-(w * target * log_softmax(scores, 1)).sum() / len(scores))


def binary(x: Array, labels: Array, weight: float = 1.0) -> float:
    s = 1 / (1 + np.exp(-x))
    return float(-(weight * labels * np.log(s) + (1 - labels) * np.log(1 - s)).mean())


def check(
    loss: losses.Loss,
    reference: Callable[[Array], float],
    scores: Array,
    labels: Array,
    model: onnx.ModelProto | None = None,
    name: str = "labels",
) -> None:
    """One step of SGD with rate 1 shows value and gradient."""
    step = training_step(model or scores_model(scores), loss=loss, optimizer=sgd(1.0), trainable=["W"])
    trainer = Trainer(step, threads=1)
    value = trainer.step({"zero": np.zeros(()), name: labels})["loss"]
    assert value == pytest.approx(reference(scores), rel=1e-12, abs=1e-12)
    gradient = scores - trainer.parameters()["W"]
    for index in np.ndindex(*scores.shape):
        delta = np.zeros_like(scores)
        delta[index] = 1e-5
        difference = (reference(scores + delta) - reference(scores - delta)) / 2e-5
        assert gradient[index] == pytest.approx(difference, rel=1e-6, abs=1e-8), index


SCORES = rng(5).normal(size=(5, 3)) * 2
LABELS = np.array([2, 0, 1, 1, 2])
DEEP_SCORES = rng(6).normal(size=(2, 3, 4))
DEEP_LABELS = rng(7).integers(0, 3, size=(2, 4))
WEIGHTS = np.array([0.5, 2.0, 1.25])


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("ignore", [None, 1])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_cross_entropy(smoothing: float, weights: Array | None, ignore: int | None, reduction: Any) -> None:
    loss = losses.cross_entropy(
        label_smoothing=smoothing, class_weights=weights, ignore_index=ignore, reduction=reduction
    )
    check(
        loss,
        lambda x: cross_entropy(x, LABELS, 1, smoothing, ignore, weights, reduction),
        SCORES,
        LABELS,
    )


def test_ignored_labels_may_be_outside_the_classes() -> None:
    labels = np.array([2, -100, 1, -100, 0])
    for smoothing in (0.0, 0.1):
        loss = losses.cross_entropy(ignore_index=-100, label_smoothing=smoothing)
        check(loss, lambda x, s=smoothing: cross_entropy(x, labels, 1, s, -100), SCORES, labels)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize(("axis", "shape"), [(1, (2, 3, 4)), (-1, (2, 4, 3)), (0, (3, 2, 4))])
def test_cross_entropy_of_more_axes(smoothing: float, axis: int, shape: tuple[int, ...]) -> None:
    scores = np.moveaxis(DEEP_SCORES, 1, axis)
    assert scores.shape == shape
    loss = losses.cross_entropy(axis=axis, label_smoothing=smoothing, class_weights=WEIGHTS)
    check(
        loss,
        lambda x: cross_entropy(x, DEEP_LABELS, axis, smoothing, None, WEIGHTS),
        np.ascontiguousarray(scores),
        DEEP_LABELS,
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_soft_cross_entropy(smoothing: float, weights: Array | None) -> None:
    labels = rng(8).dirichlet(np.ones(3), size=5)
    loss = losses.cross_entropy(soft=True, label_smoothing=smoothing, class_weights=weights)
    check(loss, lambda x: soft_cross_entropy(x, labels, 1, smoothing, weights), SCORES, labels)


def test_scores_with_trailing_axes_of_size_one_take_one_label_per_sample() -> None:
    scores = SCORES[:, :, None, None]
    check(losses.cross_entropy(), lambda x: cross_entropy(x[:, :, 0, 0], LABELS), scores, LABELS)
    step = training_step(
        scores_model(scores), loss=losses.cross_entropy(), optimizer=sgd(0.1), metrics=["accuracy"]
    )
    values = Trainer(step, threads=1).step({"zero": np.zeros(()), "labels": LABELS})
    assert values["accuracy"] == pytest.approx((SCORES.argmax(1) == LABELS).mean())


def test_one_hot_soft_labels_are_integer_labels() -> None:
    labels = np.eye(3)[LABELS]
    check(losses.cross_entropy(soft=True), lambda x: cross_entropy(x, LABELS), SCORES, labels)


def test_large_scores_neither_overflow_nor_lose_the_gradient() -> None:
    scores = np.array([[1000.0, 0.0, -1000.0], [0.0, 2000.0, 1.0]])
    check(losses.cross_entropy(), lambda x: cross_entropy(x, np.array([1, 1])), scores, np.array([1, 1]))


@pytest.mark.parametrize("activation", ["Softmax", "LogSoftmax"])
def test_cross_entropy_takes_the_scores_before_a_softmax(activation: str) -> None:
    model = scores_model(SCORES, activation=activation, axis=1)
    loss = losses.cross_entropy("activated")
    check(loss, lambda x: cross_entropy(x, LABELS), SCORES, LABELS, model)


def test_a_softmax_over_another_axis_is_refused() -> None:
    model = scores_model(DEEP_SCORES, activation="Softmax", axis=2)
    with pytest.raises(InvalidArgumentError, match=r"'activated' is a Softmax over axis 2.*axis 1"):
        training_step(model, loss=losses.cross_entropy(), optimizer=sgd(0.1))


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_binary_cross_entropy(weight: float) -> None:
    labels = rng(9).uniform(size=(5, 3)).round(2)
    scores = SCORES.copy()
    scores[0] = [0.0, 0.0, -0.0]  # where the form with Relu and Abs has no derivative
    loss = losses.binary_cross_entropy_on_scores(positive_weight=weight)
    check(loss, lambda x: binary(x, labels, weight), scores, labels)


def test_binary_cross_entropy_takes_the_scores_before_a_sigmoid() -> None:
    labels = (SCORES > 0.3).astype(np.float64)
    model = scores_model(SCORES, activation="Sigmoid")
    check(losses.binary_cross_entropy_on_scores(), lambda x: binary(x, labels), SCORES, labels, model)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_mean_squared_error(reduction: Any) -> None:
    targets = rng(10).normal(size=(5, 3))
    fold = np.mean if reduction == "mean" else np.sum
    loss = losses.mean_squared_error("scores", "wanted", reduction=reduction)
    check(loss, lambda x: float(fold((x - targets) ** 2)), SCORES, targets, name="wanted")


def test_the_label_input_has_the_batch_dim_of_the_scores() -> None:
    step = training_step(perceptron(), loss=losses.cross_entropy(), optimizer=sgd(0.1))
    labels = next(value for value in step.model.graph.inputs if value.name == "labels")
    assert str(labels.shape) == "[N]"
    assert labels.dtype is not None
    assert labels.dtype.name == "INT64"
    assert step.batch_inputs == ("x", "labels")


def test_an_input_of_the_model_serves_as_labels() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["logits"]),
        helper.make_node("Identity", ["labels"], ["echo"]),
    ]
    kind = TensorProto.FLOAT
    model = build(
        nodes,
        {"x": (kind, ["N", 3]), "labels": (TensorProto.INT32, ["N"])},
        {"logits": (kind, ["N", 4]), "echo": (TensorProto.INT32, ["N"])},
        {"W": rng(11).normal(size=(3, 4)).astype(np.float32)},
    )
    step = training_step(model, loss=losses.cross_entropy("logits"), optimizer=sgd(0.1), metrics=[accuracy()])
    assert step.batch_inputs == ("x", "labels")
    x = rng(12).normal(size=(6, 3)).astype(np.float32)
    labels = np.array([0, 3, 1, 2, 2, 0], np.int32)
    result = Trainer(step, threads=1).step({"x": x, "labels": labels})
    scores = x.astype(np.float64) @ step.initial["W"]
    assert result["loss"] == pytest.approx(cross_entropy(scores, labels), rel=1e-6)
    assert result["accuracy"] == pytest.approx((scores.argmax(1) == labels).mean())


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (losses.cross_entropy("logit"), r"no value 'logit'; did you mean 'logits'"),
        (losses.cross_entropy(labels="xw"), r"no input"),
        (
            losses.cross_entropy(labels="x"),
            r"'x' is DOUBLE of shape \['N', 3\].*INT64 or INT32 of shape \['N'\]",
        ),
        (losses.mean_squared_error(targets="x"), r"'x' is DOUBLE of shape \['N', 3\].* \['N', 4\]"),
        (losses.cross_entropy(axis=2), r"`axis` is 2, but 'logits' has 2 axes"),
        (losses.cross_entropy(class_weights=[1.0, 2.0]), r"2 entries, but 'logits' has 4 classes"),
        (losses.mean_squared_error(targets="W1"), r"input 'W1': the model has a value of that name"),
        ("logit", r"no value 'logit'"),
        (3, r"`loss` is 3"),
    ],
)
def test_what_does_not_fit_the_model_is_named(loss: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        training_step(perceptron(), loss=loss, optimizer=sgd(0.1))


def test_several_outputs_need_a_name() -> None:
    model = perceptron()
    model.graph.output.append(helper.make_tensor_value_info("h", TensorProto.DOUBLE, ["N", 5]))
    with pytest.raises(InvalidArgumentError, match=r"the model has 2: 'logits', 'h'(?s:.*)`scores=`"):
        training_step(model, loss=losses.cross_entropy(), optimizer=sgd(0.1))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: losses.cross_entropy(label_smoothing=1.0), "label_smoothing"),
        (lambda: losses.cross_entropy(soft=True, ignore_index=0), "ignore_index"),
        (lambda: losses.cross_entropy(reduction="none"), "reduction"),  # type: ignore[arg-type]
        (lambda: losses.binary_cross_entropy_on_scores(positive_weight=0.0), "positive_weight"),
    ],
)
def test_wrong_arguments_are_named(make: Callable[[], losses.Loss], named: str) -> None:
    with pytest.raises(InvalidArgumentError, match=named):
        make()
