"""A small regression that tests build once per device."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import brew, data_parallel_model, optimizer, workspace
from netgrad.caffe2.python.model_helper import ModelHelper

Array = np.ndarray[Any, Any]

_random = np.random.default_rng(11)
DATA = _random.normal(size=(24, 3)).astype(np.float32)
TARGET = (DATA @ np.array([[1.0], [-2.0], [0.5]], np.float32) + 0.3).astype(np.float32)
RUNS = 12


def no_input(model: Any) -> None:
    """Input is fed."""
    assert model is not None


def forward(model: Any, loss_scale: float) -> list[Any]:
    """A layer, and half the mean squared distance."""
    brew.fc(model, "x", "y", 3, 1, weight_init=("ConstantFill", {"value": 0.1}))
    model.net.SquaredL2Distance(["y", "target"], "distance")
    loss = model.net.AveragedLoss("distance", "loss")
    return [model.net.Scale(loss, "scaled_loss", scale=loss_scale)]


def momentum(model: Any) -> Any:
    """One optimizer for all devices."""
    return optimizer.build_sgd(model, 0.1, momentum=0.5)


def update(model: Any) -> None:
    """Updates of one device, written by hand."""
    rate = model.net.LearningRate(brew.iter(model, "ITER"), "LR", base_lr=-0.1, policy="fixed")
    one = model.param_init_net.ConstantFill([], "ONE", shape=[1], value=1.0)
    for param in model.GetParams():
        model.net.WeightedSum([param, one, model.param_to_grad[param], rate], param)


def feed(model: Any, blobs: dict[str, Array]) -> None:
    """Each device gets its part of the rows."""
    for name, rows in blobs.items():
        for device, part in zip(model._devices, np.split(rows, len(model._devices)), strict=True):
            workspace.FeedBlob(f"{model._device_prefix}_{device}/{name}", part)


def trained(devices: list[int], **arguments: Any) -> tuple[Any, Array, Array]:
    """The model, and weight and bias of its last device after some runs."""
    workspace.ResetWorkspace()
    model = ModelHelper("parallel")
    chosen = {"optimizer_builder_fun": momentum, "cpu_device": True, **arguments}
    data_parallel_model.Parallelize(model, no_input, forward, devices=devices, **chosen)
    feed(model, {"x": DATA, "target": TARGET})
    data_parallel_model.RunInitNet(model)
    data_parallel_model.RunNet(model, RUNS)
    last = model._devices[0 if chosen.get("shared_model") else -1]
    scope = f"{model._device_prefix}_{last}/"
    return model, workspace.FetchBlob(f"{scope}y_w"), workspace.FetchBlob(f"{scope}y_b")
