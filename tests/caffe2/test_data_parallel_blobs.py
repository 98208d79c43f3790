"""What scripts ask of data-parallel models: checkpoints, predictors, blobs and nets of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.caffe2_pb2 import CPU, CUDA
from netgrad.caffe2.python import brew, core, data_parallel_model, workspace
from netgrad.caffe2.python.model_helper import ModelHelper
from tests.caffe2.parallel_models import (
    DATA,
    RUNS,
    TARGET,
    feed,
    forward,
    momentum,
    no_input,
    trained,
)

Array = np.ndarray[Any, Any]


def test_checkpoints() -> None:
    model, weight, _ = trained([1, 2])
    params = data_parallel_model.GetCheckpointParams(model)
    assert {str(param) for param in params} == {
        *(f"cpu_1/{name}" for name in ("y_w", "y_b", "y_w_momentum", "y_b_momentum")),
        "optimizer_iteration",
    }
    assert core.BlobReference("cpu_1/y_w") in params
    for name in ("y_w", "y_w_momentum"):
        workspace.FeedBlob(f"cpu_1/{name}", np.zeros_like(weight))
        assert workspace.FetchBlob(f"cpu_2/{name}").any()
    data_parallel_model.FinalizeAfterCheckpoint(model, cpu_mode=True)
    workspace.FeedBlob("cpu_1/y_b", np.array([3], np.float32))
    data_parallel_model.FinalizeAfterCheckpoint(model)
    assert not workspace.FetchBlob("cpu_2/y_w").any()
    assert not workspace.FetchBlob("cpu_2/y_w_momentum").any()
    assert workspace.FetchBlob("cpu_2/y_b") == 3


def test_a_predictor_is_the_first_device_without_its_scope() -> None:
    model, weight, bias = trained([0, 1])
    net, params = data_parallel_model.ExtractPredictorNet(model, ["x"], ["y"], core.DeviceOption(CPU))
    assert sorted(params) == ["cpu_0/y_b", "cpu_0/y_w"]
    workspace.FeedBlob("x", DATA[:5])
    workspace.RunNetOnce(net)
    np.testing.assert_allclose(workspace.FetchBlob("y"), DATA[:5] @ weight.T + bias, rtol=1e-4, atol=1e-6)


def test_blobs_are_synced_in_each_run() -> None:
    model = ModelHelper("synced")
    data_parallel_model.Parallelize_CPU(
        model, no_input, forward, optimizer_builder_fun=momentum, devices=[0, 1]
    )
    data_parallel_model.AddBlobSync(model, ["number"])
    feed(model, {"x": DATA, "target": TARGET})
    workspace.FeedBlob("cpu_0/number", np.array([5], np.float32))
    data_parallel_model.RunInitNet(model)
    data_parallel_model.RunNet(model, 1)
    assert workspace.FetchBlob("cpu_1/number") == 5
    assert data_parallel_model.GetLearningRateBlobNames(model) == [
        op.output[0] for op in model.net.Proto().op if op.type == "LearningRate"
    ]
    with pytest.raises(AssertionError, match="unprefixed"):
        data_parallel_model.AddBlobSync(model, ["cpu_0/number"])


def test_nets_of_other_models_on_a_device() -> None:
    other = ModelHelper("other")
    brew.fc(other, "x", "inner", 3, 2)

    def forward(model: Any, loss_scale: float) -> list[Any]:
        model.net.AppendNet(data_parallel_model.ConvertNetForDevice(other.net))
        model.param_init_net.AppendNet(data_parallel_model.ConvertNetForDevice(other.param_init_net))
        brew.fc(model, "inner", "y", 2, 1)
        return [model.net.AveragedLoss("y", "loss")]

    model = ModelHelper("outer")
    data_parallel_model.Parallelize_CPU(
        model, no_input, forward, optimizer_builder_fun=momentum, devices=range(2)
    )
    feed(model, {"x": DATA})
    data_parallel_model.RunInitNet(model)
    data_parallel_model.RunNet(model, 1)
    assert workspace.FetchBlob("cpu_1/inner").shape == (12, 2)
    assert other.net.Proto().op[0].input[0] == "x"
    branches, inner = core.Net("branches"), core.Net("inner")
    inner.Relu("x", "y")
    branches.If("flag", ["y"], then_net=inner.Proto())
    branches.Proto().op[0].input.append("x")
    (converted,) = data_parallel_model.ConvertNetForDevice(branches, core.DeviceOption(CUDA, 3)).Proto().op
    assert list(converted.input) == ["gpu_3/flag", "gpu_3/x"]
    assert list(converted.arg[0].n.op[0].input) == ["gpu_3/x"]
    recurrent = core.Net("recurrent")
    recurrent.Proto().op.add(type="RecurrentNetwork", output=["h"])
    with pytest.raises(NotImplementedError, match="RecurrentNetwork"):
        data_parallel_model.ConvertNetForDevice(recurrent, core.DeviceOption(CPU))


def test_a_model_that_only_runs(caplog: pytest.LogCaptureFixture) -> None:
    _, weight, bias = trained([0, 1])
    calls: list[tuple[Any, ...]] = []
    model = ModelHelper("tested", init_params=False)
    data_parallel_model.Parallelize_CPU(
        model,
        no_input,
        forward,
        devices=[0, 1],
        net_transformer_fun=lambda *found: calls.append(found),
        pre_grad_net_transformer_fun=lambda *found: calls.append(found),
    )
    assert calls == [(model,), (model, 2, "cpu", CPU)]
    assert not caplog.records
    data_parallel_model.RunInitNet(model)
    data_parallel_model.RunNet(model, 1)
    np.testing.assert_allclose(
        workspace.FetchBlob("cpu_1/y"), DATA[12:] @ weight.T + bias, rtol=1e-4, atol=1e-6
    )
    data_parallel_model.Parallelize_CPU(ModelHelper("warned"), no_input, forward, devices=[0])
    assert "init_params=True" in caplog.text


def test_memory_is_used_again_and_nothing_else_changes() -> None:
    expected = trained([0, 1])[1]
    workspace.ResetWorkspace()
    model = ModelHelper("small")
    data_parallel_model.Parallelize_CPU(
        model, no_input, forward, optimizer_builder_fun=momentum, devices=[0, 1]
    )
    before = len({blob for op in model.net.Proto().op for blob in op.output})
    shapes = {"x": [12, 3], "target": [12, 1]}
    data_parallel_model.OptimizeGradientMemory(model, shapes, ["loss"], recycle_activations=True)
    assert len({blob for op in model.net.Proto().op for blob in op.output}) < before
    feed(model, {"x": DATA, "target": TARGET})
    data_parallel_model.RunInitNet(model)
    data_parallel_model.RunNet(model, RUNS)
    np.testing.assert_allclose(workspace.FetchBlob("cpu_1/y_w"), expected, rtol=1e-6)
    assert workspace.FetchBlob("cpu_0/loss") > 0
