"""Models that are built once per device: they learn what one device learns from the whole batch."""

from __future__ import annotations

from collections.abc import Callable
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
    update,
)

Array = np.ndarray[Any, Any]


def _expected(momentum: float) -> tuple[Array, Array]:
    """Steps of half the mean squared distance in NumPy: with momentum those of Nesterov."""
    weight, bias = np.full((1, 3), 0.1), np.zeros(1)
    moving: list[Array] = [np.zeros((1, 3)), np.zeros(1)]
    for _ in range(RUNS):
        off = DATA @ weight.T + bias - TARGET
        slopes = [off.T @ DATA / len(DATA), off.mean(0)]
        before = moving
        moving = [momentum * m + 0.1 * slope for m, slope in zip(before, slopes, strict=True)]
        weight, bias = (
            param - (1 + momentum) * m + momentum * old
            for param, m, old in zip((weight, bias), moving, before, strict=True)
        )
    return weight, bias


@pytest.mark.parametrize(
    ("devices", "arguments"),
    [
        ([0], {}),
        ([0, 1], {}),
        ([1, 3, 4], {}),
        ([0, 1], {"shared_model": True}),
        ([0, 1], {"cpu_device": False}),
        ([0, 1, 2, 3], {"cpu_device": False, "use_nccl": True}),
        (list(range(8)), {"cpu_device": False}),
        ([0, 1], {"ideep": True}),
        ([0, 1], {"optimize_gradient_memory": True}),
        ([0, 1], {"dynamic_memory_management": True, "blobs_to_keep": ["loss"]}),
        ([0, 1], {"combine_spatial_bn": True}),
    ],
)
def test_devices_learn_what_one_learns_from_the_whole_batch(
    devices: list[int], arguments: dict[str, Any]
) -> None:
    _, weight, bias = trained(devices, **arguments)
    expected = _expected(0.5)
    np.testing.assert_allclose(weight, expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(bias, expected[1], rtol=1e-4, atol=1e-5)


def test_updates_of_each_device() -> None:
    """With hand-written updates, whose counters and rates are the devices' own."""
    model, weight, _ = trained([0, 1], optimizer_builder_fun=None, param_update_builder_fun=update)
    np.testing.assert_allclose(weight, _expected(0.0)[0], rtol=1e-4, atol=1e-5)
    assert data_parallel_model.GetLearningRateBlobNames(model) == ["cpu_0/LR", "cpu_1/LR"]
    assert workspace.FetchBlob("cpu_1/ITER") == RUNS


def _types(model: Any, start: int = 0) -> list[str]:
    return [op.type for op in model.net.Proto().op[start:]]


def test_operators_on_cpu_devices() -> None:
    model = ModelHelper("described")
    data_parallel_model.Parallelize_CPU(
        model, no_input, forward, optimizer_builder_fun=momentum, devices=[0, 1]
    )
    ops = model.net.Proto().op
    assert _types(model)[:10] == 2 * ["FC", "SquaredL2Distance", "AveragedLoss", "Scale"] + 2 * [
        "ConstantFill"
    ]
    assert [op.output[0] for op in ops[8:10]] == ["cpu_0/scaled_loss_grad", "cpu_1/scaled_loss_grad"]
    assert ops[9].device_option == core.DeviceOption(CPU, 1)
    sums = next(index for index, op in enumerate(ops) if op.type == "Sum")
    # The bias' gradient is there before the weights': in reverse order of the parameters.
    assert [(op.type, list(op.input), list(op.output)) for op in ops[sums : sums + 4]] == [
        ("Sum", ["cpu_0/y_b_grad", "cpu_1/y_b_grad"], ["cpu_0/y_b_grad"]),
        ("Copy", ["cpu_0/y_b_grad"], ["cpu_1/y_b_grad"]),
        ("Sum", ["cpu_0/y_w_grad", "cpu_1/y_w_grad"], ["cpu_0/y_w_grad"]),
        ("Copy", ["cpu_0/y_w_grad"], ["cpu_1/y_w_grad"]),
    ]
    assert _types(model, sums + 4) == ["AtomicIter", "LearningRate", *4 * ["MomentumSGDUpdate"]]
    start = model.param_init_net.Proto().op
    assert [(op.type, op.input[0], op.output[0]) for op in start[-4:]] == [
        ("Copy", f"cpu_0/{name}", f"cpu_1/{name}") for name in ("y_w", "y_b", "y_w_momentum", "y_b_momentum")
    ]
    assert (model.net.Proto().type, model.net.Proto().num_workers) == ("dag", 8)


def test_sums_of_eight_gpus_are_a_tree() -> None:
    model = ModelHelper("tree")
    data_parallel_model.Parallelize_GPU(
        model, no_input, forward, optimizer_builder_fun=momentum, devices=range(8)
    )
    sums = [op for op in model.net.Proto().op if op.type == "Sum" and op.output[0].endswith("y_b_grad")]
    pairs = [tuple(int(blob[4]) for blob in op.input) for op in sums]
    assert pairs == [(0, 1), (2, 3), (4, 5), (6, 7), (0, 2), (4, 6), (0, 4)]
    assert all(
        op.device_option == core.DeviceOption(CUDA, pair[0]) for op, pair in zip(sums, pairs, strict=True)
    )


def test_a_shared_model_has_the_parameters_of_the_first_device() -> None:
    model, *_ = trained([0, 1], shared_model=True)
    for net in (model.net, model.param_init_net):
        for op in net.Proto().op:
            assert not {"cpu_1/y_w", "cpu_1/y_b"} & {*op.input, *op.output}
    assert [str(param) for param in model.params] == ["cpu_0/y_w", "cpu_0/y_b"]
    assert not workspace.HasBlob("cpu_1/y_w")
    found = {str(blob) for blob in data_parallel_model.GetCheckpointParams(model)}
    assert {"cpu_0/y_w", "cpu_0/y_b", "optimizer_iteration"} <= found
    tested = ModelHelper("tested", init_params=False)
    data_parallel_model.Parallelize_CPU(tested, no_input, forward, devices=[0, 1], shared_model=True)
    data_parallel_model.RunInitNet(tested)
    data_parallel_model.RunNet(tested, 1)
    weight, bias = workspace.FetchBlob("cpu_0/y_w"), workspace.FetchBlob("cpu_0/y_b")
    expected = DATA[12:] @ weight.T + bias
    np.testing.assert_allclose(workspace.FetchBlob("cpu_1/y"), expected, rtol=1e-4, atol=1e-6)


def _with_factor(model: Any, loss_scale: float) -> list[Any]:
    brew.fc(model, "x", "h", 3, 1, weight_init=("ConstantFill", {"value": 0.1}))
    model.net.Mul(["h", core.BlobReference("factor")], "y", broadcast=1)
    model.net.SquaredL2Distance(["y", "target"], "distance")
    loss = model.net.AveragedLoss("distance", "loss")
    return [model.net.Scale(loss, "scaled_loss", scale=loss_scale)]


@pytest.mark.parametrize("shared_model", [False, True])
def test_a_parameter_of_no_device_is_updated_once(shared_model: bool) -> None:
    found: list[tuple[Array, Array]] = []
    for devices in ([0], [0, 1, 2]):
        workspace.ResetWorkspace()
        model = ModelHelper("with_factor")
        model.AddParameter(model.param_init_net.ConstantFill([], "factor", shape=[1], value=2.0))
        data_parallel_model.Parallelize_CPU(
            model,
            no_input,
            _with_factor,
            optimizer_builder_fun=momentum,
            devices=devices,
            shared_model=shared_model,
        )
        feed(model, {"x": DATA, "target": TARGET})
        data_parallel_model.RunInitNet(model)
        data_parallel_model.RunNet(model, RUNS)
        found.append((workspace.FetchBlob("factor"), workspace.FetchBlob("cpu_0/h_w")))
    for one, three in zip(*found, strict=True):
        np.testing.assert_allclose(three, one, rtol=1e-4, atol=1e-5)
    assert abs(found[0][0][0] - 2) > 0.01


def _parallel(**arguments: Any) -> Callable[[], None]:
    chosen = {"optimizer_builder_fun": momentum, "devices": [0, 1], "cpu_device": True, **arguments}
    build = chosen.pop("forward", forward)
    return lambda: data_parallel_model.Parallelize(ModelHelper("refused"), no_input, build, **chosen)


def _outside(model: Any, loss_scale: float) -> list[Any]:
    with core.NameScope("elsewhere", reset=True):
        return forward(model, loss_scale)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (_parallel(rendezvous={"num_shards": 2, "engine": "GLOO"}), NotImplementedError, "rendezvous"),
        (_parallel(param_update_builder_fun=update), AssertionError, "Can only specify one"),
        (_parallel(cpu_device=False, shared_model=True), AssertionError, "only supported on CPU"),
        (_parallel(cpu_device=False, devices=None), AssertionError, "cpu_device=True"),
        (_parallel(forward=lambda model, scale: None), AssertionError, "list of loss blobs"),
        (_parallel(forward=_outside), AssertionError, "in the name scope of a device"),
        (
            _parallel(optimize_gradient_memory=True, dynamic_memory_management=True),
            AssertionError,
            "used again",
        ),
    ],
)
def test_refusals(call: Callable[[], None], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_there_is_no_device_scope_around() -> None:
    with core.DeviceScope(core.DeviceOption(CUDA, 0)), pytest.raises(AssertionError, match="device scope"):
        data_parallel_model.Parallelize_GPU(None, no_input, forward)
