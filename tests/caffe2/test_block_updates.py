"""Devices that train on their own, and block updates of what they have learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import brew, data_parallel_model, workspace
from netgrad.caffe2.python.model_helper import ModelHelper
from tests.caffe2.parallel_models import (
    DATA,
    TARGET,
    feed,
    forward,
    no_input,
    update,
)

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("nesterov", [False, True])
def test_block_updates(nesterov: bool) -> None:
    """Two devices on their own for three steps, then the block update, twice, by the formula in NumPy."""
    model = ModelHelper("blocks")
    data_parallel_model.Parallelize_CPU_BMUF(
        model,
        no_input,
        forward,
        update,
        block_learning_rate=0.8,
        devices=[0, 1],
        nesterov=nesterov,
        warmup_iterations=2,
    )
    feed(model, {"x": DATA, "target": TARGET})
    data_parallel_model.RunInitNet(model)
    assert list(model._device_grouped_blobs) == ["y_w", "y_b"]
    assert not workspace.FetchBlob("cpu_0/y_w_v").any()
    data_parallel_model.RunWarmup(model)
    parts = list(zip(np.split(DATA, 2), np.split(TARGET, 2), strict=True))

    def steps(weight: Array, bias: Array, part: tuple[Array, Array], times: int) -> tuple[Array, Array]:
        data, target = part
        for _ in range(times):
            off = (data @ weight.T + bias - target) / 2  # the loss is scaled by one over two devices
            weight, bias = weight - 0.1 * off.T @ data / len(data), bias - 0.1 * off.mean(0)
        return weight, bias

    current = steps(np.full((1, 3), 0.1), np.zeros(1), parts[0], 2)
    moving: list[Array] = [np.zeros((1, 3)), np.zeros(1)]
    for _ in range(2):
        data_parallel_model.RunNet(model, 3)
        ends = [steps(*current, part, 3) for part in parts]
        averages = [(first + second) / 2 for first, second in zip(*ends, strict=True)]
        before = moving
        moving = [
            0.5 * v + 0.8 * (average - g) for v, average, g in zip(before, averages, current, strict=True)
        ]
        ahead = [0.5 * (v - old) * nesterov for v, old in zip(moving, before, strict=True)]
        weight, bias = (g + v - more for g, v, more in zip(current, moving, ahead, strict=True))
        current = weight, bias
        for device in (0, 1):
            np.testing.assert_allclose(workspace.FetchBlob(f"cpu_{device}/y_w"), weight, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(workspace.FetchBlob("cpu_0/y_w_v"), moving[0], rtol=1e-4, atol=1e-5)


def test_block_updates_reset_the_momentum_of_steps() -> None:
    model = ModelHelper("reset")
    data_parallel_model.Parallelize_GPU_BMUF(
        model,
        no_input,
        forward,
        _momentum_of_device,
        devices=[0, 1],
        reset_momentum_sgd=True,
        add_blobs_to_sync=["x"],
    )
    feed(model, {"x": DATA, "target": TARGET})
    data_parallel_model.RunInitNet(model)
    data_parallel_model.RunNet(model, 2)
    assert workspace.FetchBlob("gpu_0/y_w_grad").any()
    assert not workspace.FetchBlob("gpu_1/y_w_momentum").any()
    np.testing.assert_array_equal(workspace.FetchBlob("gpu_1/x"), DATA[:12])


def _momentum_of_device(model: Any) -> None:
    rate = model.net.LearningRate(brew.iter(model, "ITER"), "LR", base_lr=0.1, policy="fixed")
    for param in model.GetParams():
        momentum = model.param_init_net.ConstantFill(param, param + "_momentum", value=0.0)
        grad = model.param_to_grad[param]
        model.net.MomentumSGDUpdate(
            [grad, momentum, rate, param], [grad, momentum, param], momentum=0.5, nesterov=0
        )
