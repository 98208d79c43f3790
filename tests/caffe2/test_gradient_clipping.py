"""Gradients that are clipped by their norm or their elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import brew, core, workspace
from netgrad.caffe2.python.model_helper import ModelHelper
from netgrad.caffe2.python.modeling.gradient_clipping import GradientClipping

Array = np.ndarray[Any, Any]


def _model() -> tuple[ModelHelper, dict[str, Any]]:
    model = ModelHelper("clipped")
    brew.fc(model, "data", "fc1", dim_in=4, dim_out=2)
    brew.fc(model, "fc1", "fc2", dim_in=2, dim_out=1)
    model.net.Sigmoid("fc2", "sigmoid")
    model.net.SquaredL2Distance(["sigmoid", "label"], "distance")
    loss = model.net.SumElements("distance", "loss")
    grads = model.AddGradientOperators([loss])
    return model, {name: grads[name] for name in ("fc1_w", "fc2_w")}


def _run(**arguments: Any) -> tuple[int, dict[str, tuple[Array, Array, Array]]]:
    """How many operators were added, and weight, gradient and clipped gradient of both layers."""
    random = np.random.default_rng(2)
    workspace.FeedBlob("data", random.normal(size=(10, 4)).astype(np.float32))
    workspace.FeedBlob("label", random.normal(size=(10, 1)).astype(np.float32))
    model, grads = _model()
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    before = {name: workspace.FetchBlob(f"{name}_grad") for name in grads}
    count = len(model.net.Proto().op)
    GradientClipping(**arguments)(model.net, grad_map=grads)
    workspace.RunNetOnce(model.net)
    return len(model.net.Proto().op) - count, {
        name: (workspace.FetchBlob(name), before[name], workspace.FetchBlob(f"{name}_grad")) for name in grads
    }


@pytest.mark.parametrize(
    ("arguments", "p", "of_weight", "operators"),
    [
        ({"clip_norm_type": "l2_norm"}, 2, False, 3),
        ({"clip_norm_type": "l1_norm"}, 1, False, 2),
        ({"use_parameter_norm": True}, 2, True, 5),
        ({"use_parameter_norm": True, "compute_norm_ratio": True}, 2, True, 6),
        ({"clip_threshold": 1e4}, 2, False, 3),
    ],
)
def test_by_norm(arguments: dict[str, Any], p: int, of_weight: bool, operators: int) -> None:
    added, found = _run(**{"grad_clip_method": "by_norm", "clip_threshold": 0.1, **arguments})
    assert added == 2 * operators
    for weight, grad, clipped in found.values():
        norm, limit = (float(np.sum(np.abs(x.astype(float)) ** p) ** (1 / p)) for x in (grad, weight))
        largest = arguments.get("clip_threshold", 0.1) * (limit if of_weight else 1)
        np.testing.assert_allclose(clipped, grad * min(1, largest / norm), rtol=1e-4)
    if "compute_norm_ratio" in arguments:
        weight, grad, _ = found["fc1_w"]
        ratio = np.linalg.norm(grad) / np.linalg.norm(weight)
        np.testing.assert_allclose(workspace.FetchBlob("fc1_w_norm_ratio"), [ratio], rtol=1e-4)


def test_by_value() -> None:
    added, found = _run(grad_clip_method="by_value", clip_max=0.02, clip_min=-0.01)
    assert added == 2
    for _, grad, clipped in found.values():
        np.testing.assert_allclose(clipped, np.clip(grad, -0.01, 0.02), rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "clipped"),
    [
        ({"blobs_to_include": ["fc1_w"]}, {"fc1_w"}),
        ({"blobs_to_exclude": ["fc1_w"]}, {"fc2_w"}),
        ({"blobs_to_exclude": ["fc1_w", "fc2_w"]}, set()),
    ],
)
def test_only_some(arguments: dict[str, Any], clipped: set[str]) -> None:
    added, found = _run(grad_clip_method="by_norm", clip_threshold=1e-3, **arguments)
    assert added == 3 * len(clipped)
    assert {name for name, (_, grad, after) in found.items() if not np.allclose(grad, after)} == clipped


def test_sparse_gradients_stay_with_a_warning() -> None:
    model = ModelHelper("sparse")
    model.net.Gather(["table", "indices"], "rows")
    loss = model.net.SumElements("rows", "loss")
    grads = model.net.AddGradientOperators([loss])
    count = len(model.net.Proto().op)
    with pytest.warns(UserWarning, match="gradient of table is sparse"):
        GradientClipping("by_value")(model.net, grad_map={"table": grads["table"]})
    assert len(model.net.Proto().op) == count


def test_what_is_refused() -> None:
    with pytest.raises(AssertionError, match="by_luck"):
        GradientClipping("by_luck")
    with pytest.raises(AssertionError, match="l3_norm"):
        GradientClipping("by_norm", "l3_norm")
    with pytest.raises(AssertionError, match="grad_map"):
        GradientClipping("by_norm")(core.Net("empty"))
    with pytest.raises(Exception, match="param w is not defined"):
        GradientClipping("by_norm")(core.Net("empty"), grad_map={"w": "w_grad"})
