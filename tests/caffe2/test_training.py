"""Models trained by each optimizer, through the interface of scripts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import brew, core, optimizer, workspace
from netgrad.caffe2.python.model_helper import ModelHelper

OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("build_sgd", {"base_learning_rate": 0.1}),
    ("build_sgd", {"base_learning_rate": 0.05, "momentum": 0.9}),
    ("build_sgd", {"base_learning_rate": 0.05, "momentum": 0.9, "nesterov": 0}),
    ("build_sgd", {"base_learning_rate": 0.2, "policy": "step", "stepsize": 20, "gamma": 0.9}),
    ("build_adagrad", {"base_learning_rate": 0.5}),
    ("build_adam", {"base_learning_rate": 0.1}),
    ("build_ftrl", {"alpha": 0.5}),
    ("build_wngrad", {"base_learning_rate": 0.5, "moment_init": 0.5}),
    ("build_storm", {"base_learning_rate": 0.3}),
    ("build_adadelta", {"base_learning_rate": 1.0, "epsilon": 0.05}),
    ("build_adam", {"base_learning_rate": 0.1, "enableRAdam": True}),
    ("build_adam", {"base_learning_rate": 0.1, "use_lr_adaption": True}),
    ("build_adam", {"base_learning_rate": 0.1, "use_smart_decay": True}),
    ("build_decay_adagrad", {"base_learning_rate": 0.5}),
]
DENSE_ONLY: list[tuple[str, dict[str, Any]]] = [
    ("build_gftrl", {"alpha": 0.5}),
    ("build_rms_prop", {"base_learning_rate": 0.05}),
    ("build_sgd", {"base_learning_rate": 0.1, "lars": 0.5}),
]
SPARSE_ONLY: list[tuple[str, dict[str, Any]]] = [
    ("build_adagrad", {"base_learning_rate": 0.5, "rowWise": True}),
    ("build_adam", {"base_learning_rate": 0.1, "rowWise": True}),
    ("build_sgd", {"base_learning_rate": 0.1, "sparse_dedup_aggregator": "sum"}),
    ("build_adagrad", {"base_learning_rate": 0.5, "sparse_dedup_aggregator": "mean"}),
]


def _losses(model: ModelHelper, runs: int) -> list[float]:
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    found = []
    for _ in range(runs):
        workspace.RunNet(model.net)
        found.append(float(workspace.FetchBlob("loss")))
    return found


@pytest.mark.parametrize(("build", "arguments"), [*OPTIMIZERS, *DENSE_ONLY])
def test_a_dense_model_learns(build: str, arguments: dict[str, Any]) -> None:
    random = np.random.default_rng(5)
    x = random.normal(size=(40, 3)).astype(np.float32)
    model = ModelHelper("dense")
    brew.fc(model, "x", "y", 3, 1)
    model.net.SquaredL2Distance(["y", "target"], "distance")
    loss = model.net.AveragedLoss("distance", "loss")
    model.AddGradientOperators([loss])
    getattr(optimizer, build)(model, **arguments)
    workspace.FeedBlob("x", x)
    workspace.FeedBlob("target", x @ np.array([[1.0], [-2.0], [0.5]], np.float32) + 0.3)
    losses = _losses(model, 80)
    assert losses[-1] < 0.05 * losses[0]
    if "ftrl" not in build:  # which has no learning rate and counts nothing
        assert workspace.FetchBlob("optimizer_iteration") == 80


@pytest.mark.parametrize(("build", "arguments"), [*OPTIMIZERS, *SPARSE_ONLY])
def test_an_embedding_learns(build: str, arguments: dict[str, Any]) -> None:
    """Sums of looked-up rows, with rows that occur several times; unused rows stay as they are."""
    model = ModelHelper("sparse")
    start = np.random.default_rng(6).normal(scale=0.5, size=12)
    table = model.param_init_net.GivenTensorFill([], "table", shape=[6, 2], values=start)
    model.AddParameter(table)
    model.net.SparseLengthsSum([table, "indices", "lengths"], "y")
    model.net.SquaredL2Distance(["y", "target"], "distance")
    loss = model.net.AveragedLoss("distance", "loss")
    model.AddGradientOperators([loss])
    getattr(optimizer, build)(model, **arguments)
    workspace.FeedBlob("indices", np.array([0, 2, 2, 3, 0, 4], np.int64))
    workspace.FeedBlob("lengths", np.array([2, 1, 3], np.int32))
    workspace.FeedBlob("target", np.array([[1, -1], [2, 0.5], [-1, 1]], np.float32))
    workspace.RunNetOnce(model.param_init_net)
    before = workspace.FetchBlob("table")
    workspace.CreateNet(model.net)
    losses = []
    for _ in range(200):
        workspace.RunNet(model.net)
        losses.append(float(workspace.FetchBlob("loss")))
    after = workspace.FetchBlob("table")
    np.testing.assert_array_equal(before[[1, 5]], after[[1, 5]])
    assert losses[-1] < 0.05 * losses[0]


def test_a_net_without_its_initial_values_says_what_is_missing() -> None:
    net = core.Net("without")
    net.FC(["x", "w", "b"], "y")
    workspace.FeedBlob("x", np.zeros((1, 2), np.float32))
    with pytest.raises(RuntimeError, match=r"non-existing input blob: w .*FC\(x, w, b\) -> \(y\)"):
        workspace.CreateNet(net)
