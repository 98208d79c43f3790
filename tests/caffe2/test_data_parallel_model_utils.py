"""Parts of a data-parallel model on other devices compute what they have computed before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.caffe2_pb2 import CUDA
from netgrad.caffe2.python import brew, data_parallel_model, optimizer, workspace
from netgrad.caffe2.python.data_parallel_model_utils import GetActivationBlobs, ShiftActivationDevices
from netgrad.caffe2.python.model_helper import ModelHelper

X = np.random.default_rng(3).normal(size=(6, 3)).astype(np.float32)


def _forward(model: Any, loss_scale: float) -> list[Any]:
    fill = ("ConstantFill", {"value": 0.3})
    brew.fc(model, "x", "h", 3, 4, weight_init=fill)
    brew.relu(model, "h", "r")
    brew.fc(model, "r", "y", 4, 1, weight_init=fill)
    loss = model.net.AveragedLoss("y", "loss")
    return [model.net.Scale(loss, "scaled", scale=loss_scale)]


def _model() -> Any:
    model = ModelHelper("shifted")
    data_parallel_model.Parallelize_GPU(
        model,
        lambda model: None,
        _forward,
        optimizer_builder_fun=lambda model: optimizer.build_sgd(model, 0.1, momentum=0.9),
        devices=[0],
    )
    workspace.FeedBlob("gpu_0/x", X)
    return model


def test_activations_have_gradients_that_are_read() -> None:
    assert GetActivationBlobs(_model()) == ["h", "r", "y", "loss", "scaled"]


def test_a_shifted_model_learns_the_same() -> None:
    found = []
    for shifted in (False, True):
        workspace.ResetWorkspace()
        model = _model()
        if shifted:
            ShiftActivationDevices(model, ["y", "loss", "scaled"], {0: 1})
            devices = {op.output[0]: op.device_option.device_id for op in model.net.Proto().op}
            assert (devices["gpu_0/h"], devices["gpu_0/y"], devices["gpu_0/loss"]) == (0, 1, 1)
            copies = [op for op in model.net.Proto().op if op.type == "Copy"]
            assert ("gpu_0/r", "gpu_0/r_cuda_1") in [(op.input[0], op.output[0]) for op in copies]
            assert model.param_init_net.Proto().op[0].device_option.device_type == CUDA
        data_parallel_model.RunInitNet(model)
        data_parallel_model.RunNet(model, 5)
        found.append([workspace.FetchBlob(f"gpu_0/{name}") for name in ("h_w", "y_w", "y_b")])
    for before, after in zip(*found, strict=True):
        np.testing.assert_array_equal(after, before)
    assert np.abs(found[0][0] - 0.3).max() > 0.01


def test_a_device_gives_or_takes() -> None:
    with pytest.raises(AssertionError, match="devices \\[1\\]"):
        ShiftActivationDevices(_model(), ["y"], {0: 1, 1: 2})
