"""Layers that compute losses, against formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import schema, workspace
from tests.caffe2.layers.models import fed, lists, model, normal, train, types, value

LABEL = np.array([1, 0, 1, 1], np.float32)
LOGIT = np.array([[0.5], [-1.0], [2.0], [-0.25]], np.float32)
WEIGHT = np.array([[1.0], [2.0], [0.5], [3.0]], np.float32)
PREDICTION = 1 / (1 + np.exp(-LOGIT))


def _entropy(label: Any = LABEL, logit: Any = LOGIT) -> Any:
    target = label.reshape(-1, 1)
    return (np.maximum(logit, 0) - logit * target + np.log1p(np.exp(-np.abs(logit))))[:, 0]


def _loss_of(kind: str, columns: dict[str, Any], **arguments: Any) -> Any:
    made = model()
    loss = getattr(made, kind)(fed(made, **columns), **arguments)
    assert schema.Scalar((np.float32, ())) == loss
    train(made)
    return value(loss)


def _divergence(p: Any, q: Any) -> Any:
    def entropy(x: Any) -> Any:
        return -x * np.log(x) - (1 - x) * np.log(1 - x)

    # with labels of 0 and 1, whose entropy is 0
    return entropy((p + q) / 2) - entropy(p) / 2


FOCAL = (LABEL.reshape(-1, 1) * (1 - PREDICTION) + PREDICTION * (1 - LABEL.reshape(-1, 1)))[:, 0]
VARIANCE = np.array([0.5, -0.25, 1.0, 0.0], np.float32)
LR = [
    ({}, {}, lambda: _entropy().mean()),
    ({}, {"average_loss": False}, lambda: _entropy().sum()),
    ({"weight": WEIGHT[:, 0]}, {}, lambda: (_entropy() * WEIGHT[:, 0]).mean()),
    ({"weight": WEIGHT[:, 0].astype(float)}, {}, lambda: (_entropy() * WEIGHT[:, 0]).mean()),
    (
        {},
        {"pos_label_target": 0.9, "neg_label_target": 0.2},
        lambda: _entropy(np.where(LABEL > 0.5, 0.9, 0.2)).mean(),
    ),
    ({"prediction": PREDICTION}, {"focal_gamma": 2.0}, lambda: (_entropy() * FOCAL**2).mean()),
    (
        {"prediction": PREDICTION},
        {"jsd_weight": 0.25},
        lambda: (0.75 * _entropy() + 0.25 * _divergence(PREDICTION[:, 0], LABEL * (1 - 2e-7) + 1e-7)).mean(),
    ),
    ({}, {"task_gamma": 0.5, "task_gamma_lb": 0.1}, lambda: 0.5 * _entropy().mean()),
    ({}, {"task_gamma": 0.5, "task_gamma_lb": 0.8}, lambda: 0.8 * _entropy().mean()),
    (
        {"log_variance": VARIANCE},
        {"uncertainty_penalty": 2.0},
        lambda: ((_entropy() * np.exp(-VARIANCE) + 2 * VARIANCE) / 2).mean(),
    ),
]


@pytest.mark.parametrize(("columns", "arguments", "formula"), LR)
def test_logistic_regression(columns: Any, arguments: Any, formula: Any) -> None:
    found = _loss_of("BatchLRLoss", {"label": LABEL, "logit": LOGIT, **columns}, **arguments)
    np.testing.assert_allclose(found, formula(), rtol=1e-4)


def test_the_divergence_gets_more_weight_with_the_iterations() -> None:
    made = model()
    record = fed(made, label=LABEL, logit=LOGIT, prediction=PREDICTION)
    made.BatchLRLoss(record, homotopy_weighting=True)
    train(made)
    start = "batch_lr_loss/batch_lr_loss"
    shares = [workspace.FetchBlob(f"{start}_{name}_weight").item() for name in ("xent", "jsd")]
    np.testing.assert_allclose(shares, [(1 + 1e-6) ** -0.1, 1 - (1 + 1e-6) ** -0.1], atol=5e-8)


def test_terms_that_contradict_are_refused() -> None:
    made = model()
    record = fed(made, label=LABEL, logit=LOGIT)
    with pytest.raises(AssertionError, match="prediction"):
        made.BatchLRLoss(record, jsd_weight=0.5)
    with pytest.raises(AssertionError, match="log_D_trick"):
        made.BatchLRLoss(record, log_D_trick=True, unjoined_lr_loss=True)


PREDICTED = np.array([[0.5], [0.25], [4.0], [-2.0]], np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("weighted", [False, True])
def test_distances(dtype: Any, weighted: bool) -> None:
    columns = {"label": LABEL.astype(dtype), "prediction": PREDICTED}
    weight: Any = 1.0
    if weighted:
        columns["weight"] = weight = WEIGHT[:, 0]
    distance = np.abs(LABEL - PREDICTED[:, 0])
    near = np.minimum(distance, 0.75)
    np.testing.assert_allclose(
        _loss_of("BatchMSELoss", columns), (weight * distance**2 / 2).mean(), rtol=1e-5
    )
    np.testing.assert_allclose(
        _loss_of("BatchHuberLoss", columns, delta=0.75),
        (weight * (near**2 / 2 + 0.75 * (distance - near))).mean(),
        rtol=1e-5,
    )


def test_sigmoids() -> None:
    labels, logits = (normal(3, 2) > 0).astype(np.float32), normal(3, 2)
    expected = (np.log1p(np.exp(logits)) - labels * logits).mean()
    found = _loss_of("BatchSigmoidCrossEntropyLoss", {"label": labels, "prediction": logits})
    np.testing.assert_allclose(found, expected, rtol=1e-5)


MATRIX = np.array([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.0, 0.5, 0.5]], np.float32)


@pytest.mark.parametrize("smoothed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_softmax(smoothed: bool, weighted: bool) -> None:
    made = model()
    logits, label = normal(4, 3), np.array([0, 2, 1, 2], np.float32)
    columns = {"label": label, "prediction": logits, **({"weight": WEIGHT[:, 0]} if weighted else {})}
    loss = made.BatchSoftmaxLoss(
        fed(made, **columns), label_smoothing_matrix=MATRIX if smoothed else None, scale=2.0
    )
    train(made)
    softmax = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    target = (MATRIX if smoothed else np.eye(3))[label.astype(int)]
    each = -(target * np.log(softmax)).sum(1)
    weight = WEIGHT[:, 0] if weighted else np.ones(4)
    np.testing.assert_allclose(value(loss.softmax), softmax, rtol=1e-5)
    np.testing.assert_allclose(value(loss.loss), 2 * (weight * each).sum() / weight.sum(), rtol=1e-5)


@pytest.mark.parametrize("matrix", [MATRIX, np.array([0.1, 0.9])])
def test_smoothed_labels(matrix: Any) -> None:
    made = model()
    label = np.array([1, 0, 1], np.float32)
    smoothed = made.LabelSmooth(fed(made, label=label).label, matrix)
    train(made)
    np.testing.assert_allclose(value(smoothed), matrix[label.astype(int)], rtol=1e-6)


def _ranked(kind: str, **arguments: Any) -> Any:
    made = model()
    high, low = np.array([0.8, 0.9], np.float32), np.array([0.1, 0.2, 0.95], np.float32)
    record = schema.NewRecord(
        made.net,
        schema.Struct(
            ("pos_prediction", schema.Scalar((np.float32, (1,)))),
            ("neg_prediction", schema.List(np.float32)),
        ),
    )
    schema.FeedRecord(record, [high, np.array([1, 2], np.int32), low])
    loss = getattr(made, kind)(record, **arguments)
    train(made)
    return value(loss), np.repeat(high, [1, 2]) - low


def test_ranking() -> None:
    found, gap = _ranked("BPRLoss")
    np.testing.assert_allclose(found, np.log1p(np.exp(-gap)).sum(), rtol=1e-5)
    found, gap = _ranked("MarginRankLoss", margin=0.75)
    np.testing.assert_allclose(found, np.maximum(0, 0.75 - gap).sum(), rtol=1e-5)
    found, gap = _ranked("MarginRankLoss", average_loss=True)
    np.testing.assert_allclose(found, np.maximum(0, 0.1 - gap).mean(), rtol=1e-5)


def test_losses_are_no_part_of_predictions() -> None:
    from netgrad.caffe2.python import layer_model_instantiator

    made = model()
    made.BatchLRLoss(fed(made, label=LABEL, logit=LOGIT))
    made.output_schema = schema.Struct()
    assert types(layer_model_instantiator.generate_predict_net(made)) == []
    assert "AveragedLoss" in types(layer_model_instantiator.generate_eval_net(made))


def test_weights_of_several_losses() -> None:
    losses = np.array([0.5, 2.0, 1.0], np.float32)
    for arguments in ({}, {"weights": [0.2, 0.3, 0.5]}):
        weights = np.array(arguments.get("weights", [1 / 3] * 3))
        for method, other in (("log_std", {}), ("inv_var", {"pos_optim_method": "pos_grad_proj"})):
            made = model()
            record = schema.NewRecord(made.net, schema.RawTuple(3))
            schema.FeedRecord(record, list(losses))
            total = made.AdaptiveWeight(
                record, estimation_method=method, enable_diagnose=True, **arguments, **other
            )
            train(made)
            expected = (weights * losses + 0.5 * np.log(0.5 / weights)).sum()
            np.testing.assert_allclose(value(total), expected, rtol=1e-5)
            plotted = [workspace.FetchBlob(blob)[0] for blob in made.ad_hoc_plot_blobs]
            np.testing.assert_allclose(plotted, weights, rtol=1e-5)
            workspace.ResetWorkspace()
    made = model()
    record = schema.NewRecord(made.net, schema.RawTuple(3))
    with pytest.raises(TypeError, match="not other"):
        made.AdaptiveWeight(record, estimation_method="other")


def test_lists_are_no_labels() -> None:
    made = model()
    with pytest.raises(AssertionError, match="logit"):
        made.BatchLRLoss(schema.Struct(("label", lists(made, [1], [1]))))


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("columns", [{}, {"weight": WEIGHT}])
def test_a_teacher_has_a_share(columns: dict[str, Any], filtered: bool) -> None:
    teacher = np.array([0.75, 0.0, 0.5, 0.0], np.float32)
    share = np.where(teacher > 0, 0.5, 0) if filtered else 0.5
    terms = (1 - share) * _entropy() + share * _entropy(teacher)
    weight = columns["weight"][:, 0] if columns else 1
    found = _loss_of(
        "BatchDistillLRLoss",
        {"label": LABEL, "teacher_label": teacher, "logit": LOGIT, **_flat(columns)},
        teacher_weight=0.5,
        filter_invalid_teacher_label=filtered,
    )
    np.testing.assert_allclose(found, (terms * weight).mean(), rtol=1e-6)


def _flat(columns: dict[str, Any]) -> dict[str, Any]:
    return {name: column[:, 0] for name, column in columns.items()}
