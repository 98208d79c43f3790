"""Layers that lose weights while they are trained."""

from __future__ import annotations

import numpy as np
import pytest

from netgrad.caffe2.python import brew, core, workspace
from netgrad.caffe2.python.model_helper import ModelHelper
from tests.caffe2.operator_cases import Array


def _fed(name: str, value: Array) -> Array:
    array = value.astype(np.float32)
    workspace.FeedBlob(name, array)
    return array


def _model(threshold: float, **more: float) -> tuple[ModelHelper, Array, Array]:
    """A layer of 3 outputs and 4 inputs whose gradient by y is all ones; what it is fed, and its weights."""
    workspace.ResetWorkspace()
    random = np.random.default_rng(3)
    x = _fed("x", random.normal(size=(5, 4)))
    model = ModelHelper("pruned")
    brew.fc_prune(model, "x", "y", 4, 3, threshold=threshold, **more)
    _fed("dy", np.ones((5, 3)))
    state = ["y_ag_dw", "y_mask_seq"]
    read = ["x", "y_w", "y_m", "dy", *state, "y_thres", "y_lb"]
    model.net.FCGradient_Prune(read, ["y_w_grad", "y_b_grad", "y_w", "y_m", *state, "x_grad"])
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    return model, x, workspace.FetchBlob("y_w")


def test_gradients_are_those_of_a_layer_until_weights_are_pruned() -> None:
    model, x, w = _model(threshold=0.0)
    mask = np.ones((3, 4), np.float32)
    mask[0, 1] = mask[2, 3] = 0
    workspace.FeedBlob("y_m", mask)
    workspace.RunNet(model.net)
    once = np.ones((3, 5)) @ x * mask
    np.testing.assert_allclose(workspace.FetchBlob("y_w_grad"), once, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(workspace.FetchBlob("y_b_grad"), [5, 5, 5], rtol=1e-6)
    np.testing.assert_allclose(workspace.FetchBlob("x_grad"), np.ones((5, 3)) @ w, rtol=1e-5, atol=1e-5)
    workspace.RunNet(model.net)
    np.testing.assert_allclose(workspace.FetchBlob("y_ag_dw"), 2 * once, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(workspace.FetchBlob("y_w"), w)


def test_weights_whose_gradients_stay_small_go_at_the_hundredth_run() -> None:
    x_sums = np.array([0.01, -0.02, 3.0, -4.0])  # of the columns; after 99 runs about 1, -2, 297, -396
    model, _, w = _model(threshold=1.5)
    workspace.FeedBlob("x", np.tile(x_sums / 5, (5, 1)).astype(np.float32))
    workspace.RunNet(model.net, 99)
    np.testing.assert_array_equal(workspace.FetchBlob("y_w"), w)
    np.testing.assert_allclose(workspace.FetchBlob("y_ag_dw"), np.tile(99 * x_sums, (3, 1)), rtol=1e-4)
    workspace.RunNet(model.net)
    kept = np.tile([0.0, 1, 1, 1], (3, 1))
    np.testing.assert_array_equal(workspace.FetchBlob("y_m"), kept)
    np.testing.assert_array_equal(workspace.FetchBlob("y_w"), w * kept.astype(np.float32))
    np.testing.assert_allclose(workspace.FetchBlob("y_w_grad"), kept * x_sums, rtol=1e-5)
    np.testing.assert_array_equal(workspace.FetchBlob("y_ag_dw"), np.zeros((3, 4)))
    np.testing.assert_array_equal(workspace.FetchBlob("y_mask_seq").ravel(), [0, 4, 8, *[0] * 9])
    after = np.ones((5, 3)) @ (w * kept)  # the gradient of the data is by the weights that are left
    np.testing.assert_allclose(workspace.FetchBlob("x_grad"), after, rtol=1e-5, atol=1e-5)


def test_nothing_goes_where_little_is_left() -> None:
    model, _, w = _model(threshold=1e9, comp_lb=1.0)
    workspace.RunNet(model.net, 100)
    np.testing.assert_array_equal(workspace.FetchBlob("y_w"), w)
    np.testing.assert_array_equal(workspace.FetchBlob("y_ag_dw"), np.zeros((3, 4)))


def test_a_backward_pass_that_does_not_work_in_place_is_an_error() -> None:
    model = ModelHelper("pruned")
    brew.fc_prune(model, "x", "y", 4, 3)
    model.net.AddGradientOperators(["y"])
    _fed("x", np.ones((5, 4)))
    workspace.RunNetOnce(model.param_init_net)
    with pytest.raises(RuntimeError, match=r"FCGradient_Prune.*it prunes in place"):
        workspace.RunNetOnce(model.net)


def test_shapes_that_do_not_fit_are_an_error() -> None:
    workspace.ResetWorkspace()
    blobs = ["x", "w", "m", "dy", "sum", "places", "least", "share"]
    shapes = [(5, 4), (3, 4), (3, 4), (5, 2), (3, 4), (3, 4), (1,), (1,)]
    for name, shape in zip(blobs, shapes, strict=True):
        _fed(name, np.ones(shape))
    op = core.CreateOperator("FCGradient_Prune", blobs, ["dw", "db", "w", "m", "sum", "places"])
    with pytest.raises(RuntimeError, match=r"FCGradient_Prune.*give no Y like dY: \[5, 2\]"):
        workspace.RunOperatorOnce(op)
    workspace.FeedBlob("m", np.ones((3, 3), np.float32))
    with pytest.raises(RuntimeError, match=r"mask and sum of gradients have their shape"):
        workspace.RunOperatorOnce(op)
