"""Models that are built once per device: they learn what one device learns from the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.caffe2_pb2 import CPU, CUDA
from netgrad.caffe2.python import brew, core, data_parallel_model, optimizer, rnn_cell, workspace
from netgrad.caffe2.python.cnn import CNNModelHelper
from netgrad.caffe2.python.model_helper import ModelHelper

Array = np.ndarray[Any, Any]

_random = np.random.default_rng(11)
DATA = _random.normal(size=(24, 3)).astype(np.float32)
TARGET = (DATA @ np.array([[1.0], [-2.0], [0.5]], np.float32) + 0.3).astype(np.float32)
RUNS = 12


def _no_input(model: Any) -> None:
    assert model is not None


def _forward(model: Any, loss_scale: float) -> list[Any]:
    brew.fc(model, "x", "y", 3, 1, weight_init=("ConstantFill", {"value": 0.1}))
    model.net.SquaredL2Distance(["y", "target"], "distance")
    loss = model.net.AveragedLoss("distance", "loss")
    return [model.net.Scale(loss, "scaled_loss", scale=loss_scale)]


def _momentum(model: Any) -> Any:
    return optimizer.build_sgd(model, 0.1, momentum=0.5)


def _update(model: Any) -> None:
    rate = model.net.LearningRate(brew.iter(model, "ITER"), "LR", base_lr=-0.1, policy="fixed")
    one = model.param_init_net.ConstantFill([], "ONE", shape=[1], value=1.0)
    for param in model.GetParams():
        model.net.WeightedSum([param, one, model.param_to_grad[param], rate], param)


def _feed(model: Any, blobs: dict[str, Array]) -> None:
    """Each device gets its part of the rows."""
    for name, rows in blobs.items():
        for device, part in zip(model._devices, np.split(rows, len(model._devices)), strict=True):
            workspace.FeedBlob(f"{model._device_prefix}_{device}/{name}", part)


def _trained(devices: list[int], **arguments: Any) -> tuple[Any, Array, Array]:
    """The model, and weight and bias of its last device after some runs."""
    workspace.ResetWorkspace()
    model = ModelHelper("parallel")
    chosen = {"optimizer_builder_fun": _momentum, "cpu_device": True, **arguments}
    data_parallel_model.Parallelize(model, _no_input, _forward, devices=devices, **chosen)
    _feed(model, {"x": DATA, "target": TARGET})
    data_parallel_model.RunInitNet(model)
    data_parallel_model.RunNet(model, RUNS)
    last = model._devices[0 if chosen.get("shared_model") else -1]
    scope = f"{model._device_prefix}_{last}/"
    return model, workspace.FetchBlob(f"{scope}y_w"), workspace.FetchBlob(f"{scope}y_b")


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
    _, weight, bias = _trained(devices, **arguments)
    expected = _expected(0.5)
    np.testing.assert_allclose(weight, expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(bias, expected[1], rtol=1e-4, atol=1e-5)


def test_updates_of_each_device() -> None:
    """With hand-written updates, whose counters and rates are the devices' own."""
    model, weight, _ = _trained([0, 1], optimizer_builder_fun=None, param_update_builder_fun=_update)
    np.testing.assert_allclose(weight, _expected(0.0)[0], rtol=1e-4, atol=1e-5)
    assert data_parallel_model.GetLearningRateBlobNames(model) == ["cpu_0/LR", "cpu_1/LR"]
    assert workspace.FetchBlob("cpu_1/ITER") == RUNS


def _types(model: Any, start: int = 0) -> list[str]:
    return [op.type for op in model.net.Proto().op[start:]]


def test_operators_on_cpu_devices() -> None:
    model = ModelHelper("described")
    data_parallel_model.Parallelize_CPU(
        model, _no_input, _forward, optimizer_builder_fun=_momentum, devices=[0, 1]
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
        model, _no_input, _forward, optimizer_builder_fun=_momentum, devices=range(8)
    )
    sums = [op for op in model.net.Proto().op if op.type == "Sum" and op.output[0].endswith("y_b_grad")]
    pairs = [tuple(int(blob[4]) for blob in op.input) for op in sums]
    assert pairs == [(0, 1), (2, 3), (4, 5), (6, 7), (0, 2), (4, 6), (0, 4)]
    assert all(
        op.device_option == core.DeviceOption(CUDA, pair[0]) for op, pair in zip(sums, pairs, strict=True)
    )


def test_a_shared_model_has_the_parameters_of_the_first_device() -> None:
    model, *_ = _trained([0, 1], shared_model=True)
    for net in (model.net, model.param_init_net):
        for op in net.Proto().op:
            assert not {"cpu_1/y_w", "cpu_1/y_b"} & {*op.input, *op.output}
    assert [str(param) for param in model.params] == ["cpu_0/y_w", "cpu_0/y_b"]
    assert not workspace.HasBlob("cpu_1/y_w")
    found = {str(blob) for blob in data_parallel_model.GetCheckpointParams(model)}
    assert {"cpu_0/y_w", "cpu_0/y_b", "optimizer_iteration"} <= found
    tested = ModelHelper("tested", init_params=False)
    data_parallel_model.Parallelize_CPU(tested, _no_input, _forward, devices=[0, 1], shared_model=True)
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
            _no_input,
            _with_factor,
            optimizer_builder_fun=_momentum,
            devices=devices,
            shared_model=shared_model,
        )
        _feed(model, {"x": DATA, "target": TARGET})
        data_parallel_model.RunInitNet(model)
        data_parallel_model.RunNet(model, RUNS)
        found.append((workspace.FetchBlob("factor"), workspace.FetchBlob("cpu_0/h_w")))
    for one, three in zip(*found, strict=True):
        np.testing.assert_allclose(three, one, rtol=1e-4, atol=1e-5)
    assert abs(found[0][0][0] - 2) > 0.01


# ---- sparse gradients --------------------------------------------------------------------------------


def _rows(model: Any, loss_scale: float) -> list[Any]:
    table = model.param_init_net.ConstantFill([], "table", shape=[6, 2], value=0.5)
    model.AddParameter(table)
    gathered = model.net.Gather([table, "indices"], "gathered")
    model.net.SquaredL2Distance([gathered, "rows"], "distance")
    loss = model.net.AveragedLoss("distance", "loss")
    return [model.net.Scale(loss, "scaled_loss", scale=loss_scale)]


@pytest.mark.parametrize("cpu_device", [True, False])
def test_devices_get_the_rows_of_all(cpu_device: bool) -> None:
    indices = np.array([0, 1, 2, 2, 4, 1], np.int32)
    rows = np.arange(12, dtype=np.float32).reshape(6, 2) - 3
    model = ModelHelper("rows")
    data_parallel_model.Parallelize(
        model,
        _no_input,
        _rows,
        optimizer_builder_fun=lambda model: optimizer.build_sgd(model, 0.6),
        devices=[0, 1],
        cpu_device=cpu_device,
    )
    _feed(model, {"indices": indices, "rows": rows})
    data_parallel_model.RunInitNet(model)
    table = np.full((6, 2), 0.5)
    for _ in range(3):
        _feed(model, {"indices": indices})  # which the net overwrites with those of all
        data_parallel_model.RunNet(model, 1)
        slopes = (table[indices] - rows) / len(rows)
        np.subtract.at(table, indices, 0.6 * slopes)
    for device in (0, 1):
        found = workspace.FetchBlob(f"{model._device_prefix}_{device}/table")
        np.testing.assert_allclose(found, table, rtol=1e-5, atol=1e-6)


# ---- batch normalization -----------------------------------------------------------------------------

IMAGES = _random.normal(size=(8, 2, 3, 3)).astype(np.float32)


def _normalized(model: Any, loss_scale: float) -> list[Any]:
    model.SpatialBN("images", "bn", 2, epsilon=1e-3, is_test=False)
    model.net.Sqr("bn", "squares")
    model.net.Mul(["squares", "images"], "products")
    return [model.net.SumElements("products", "loss")]


def test_a_model_that_only_runs_combines_moments_of_batches() -> None:
    model = CNNModelHelper()
    data_parallel_model.Parallelize_CPU(
        model, _no_input, _normalized, devices=[0, 1], combine_spatial_bn=True
    )
    _feed(model, {"images": IMAGES})
    data_parallel_model.RunInitNet(model)
    data_parallel_model.RunNet(model, 1)
    mean, var = IMAGES.mean((0, 2, 3), keepdims=True), IMAGES.var((0, 2, 3), keepdims=True)
    expected = (IMAGES - mean) / np.sqrt(var + 1e-3)
    np.testing.assert_allclose(workspace.FetchBlob("cpu_1/bn"), expected[4:], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cpu_device", [True, False])
def test_batch_normalization_over_all_devices(cpu_device: bool) -> None:
    found: list[dict[str, Array]] = []
    for devices in ([0], [0, 1], [0, 1, 2, 3]):
        workspace.ResetWorkspace()
        model = CNNModelHelper()
        data_parallel_model.Parallelize(
            model,
            _no_input,
            _normalized,
            optimizer_builder_fun=lambda model: optimizer.build_sgd(model, 0.1),
            devices=devices,
            cpu_device=cpu_device,
            combine_spatial_bn=len(devices) > 1,
        )
        _feed(model, {"images": IMAGES})
        data_parallel_model.RunInitNet(model)
        data_parallel_model.RunNet(model, 1)
        scopes = [f"{model._device_prefix}_{device}/" for device in devices]
        found.append(
            {
                name: np.concatenate([workspace.FetchBlob(scope + name) for scope in scopes])
                for name in ("bn", "images_grad")
            }
            | {name: workspace.FetchBlob(scopes[-1] + name) for name in ("bn_s", "bn_b", "bn_rm", "bn_riv")}
        )
    mean, var = IMAGES.mean((0, 2, 3), keepdims=True), IMAGES.var((0, 2, 3), keepdims=True)
    np.testing.assert_allclose(found[1]["bn"], (IMAGES - mean) / np.sqrt(var + 1e-3), rtol=1e-4, atol=1e-5)
    for several in found[1:]:
        for name, value in found[0].items():
            np.testing.assert_allclose(several[name], value, rtol=1e-4, atol=1e-4, err_msg=name)


# ---- recurrent nets, whose parameters are in scopes inside ---------------------------------------------

SERIES = _random.normal(size=(8, 4, 3)).astype(np.float32)


def _recurrent(model: Any, loss_scale: float) -> list[Any]:
    batch = 8 // len(model._devices)
    for name in ("hidden_init", "cell_init"):
        model.param_init_net.ConstantFill([], name, value=0.0, shape=[1, batch, 5])
    output, *_ = rnn_cell.LSTM(
        model=model,
        input_blob="series",
        seq_lengths="lengths",
        initial_states=("hidden_init", "cell_init"),
        dim_in=3,
        dim_out=5,
        scope="inside",
    )
    loss = model.net.AveragedLoss(model.net.Sqr(output), "loss")
    return [model.net.Scale(loss, "scaled_loss", scale=loss_scale)]


@pytest.mark.parametrize("shared_model", [False, True])
def test_recurrent_nets_on_devices(shared_model: bool) -> None:
    found: list[list[Array]] = []
    for devices in ([0], [0, 1]):
        workspace.ResetWorkspace()
        model = CNNModelHelper()
        data_parallel_model.Parallelize_CPU(
            model,
            _no_input,
            _recurrent,
            optimizer_builder_fun=lambda model: optimizer.build_sgd(model, 0.5),
            devices=devices,
            shared_model=shared_model and len(devices) > 1,
            optimize_gradient_memory=True,
        )
        for op in model.param_init_net.Proto().op:
            if op.type == "XavierFill":
                op.type = "ConstantFill"
                op.arg.add(name="value", f=0.1)
        for device, part in zip(devices, np.split(SERIES, len(devices)), strict=True):
            workspace.FeedBlob(f"cpu_{device}/series", np.ascontiguousarray(part.swapaxes(0, 1)))
            workspace.FeedBlob(f"cpu_{device}/lengths", np.full(len(part), 4, np.int32))
        data_parallel_model.RunInitNet(model)
        data_parallel_model.RunNet(model, 4)
        names = ("i2h_w", "i2h_b", "gates_t_w", "gates_t_b")
        found.append([workspace.FetchBlob(f"cpu_0/inside/{name}") for name in names])
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-4, atol=1e-6)
    assert np.abs(found[0][0] - 0.1).max() > 1e-3


# ---- checkpoints, predictors, further nets -----------------------------------------------------------


def test_checkpoints() -> None:
    model, weight, _ = _trained([1, 2])
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
    model, weight, bias = _trained([0, 1])
    net, params = data_parallel_model.ExtractPredictorNet(model, ["x"], ["y"], core.DeviceOption(CPU))
    assert sorted(params) == ["cpu_0/y_b", "cpu_0/y_w"]
    workspace.FeedBlob("x", DATA[:5])
    workspace.RunNetOnce(net)
    np.testing.assert_allclose(workspace.FetchBlob("y"), DATA[:5] @ weight.T + bias, rtol=1e-4, atol=1e-6)


def test_blobs_are_synced_in_each_run() -> None:
    model = ModelHelper("synced")
    data_parallel_model.Parallelize_CPU(
        model, _no_input, _forward, optimizer_builder_fun=_momentum, devices=[0, 1]
    )
    data_parallel_model.AddBlobSync(model, ["number"])
    _feed(model, {"x": DATA, "target": TARGET})
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
        model, _no_input, forward, optimizer_builder_fun=_momentum, devices=range(2)
    )
    _feed(model, {"x": DATA})
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
    _, weight, bias = _trained([0, 1])
    calls: list[tuple[Any, ...]] = []
    model = ModelHelper("tested", init_params=False)
    data_parallel_model.Parallelize_CPU(
        model,
        _no_input,
        _forward,
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
    data_parallel_model.Parallelize_CPU(ModelHelper("warned"), _no_input, _forward, devices=[0])
    assert "init_params=True" in caplog.text


def test_memory_is_used_again_and_nothing_else_changes() -> None:
    expected = _trained([0, 1])[1]
    workspace.ResetWorkspace()
    model = ModelHelper("small")
    data_parallel_model.Parallelize_CPU(
        model, _no_input, _forward, optimizer_builder_fun=_momentum, devices=[0, 1]
    )
    before = len({blob for op in model.net.Proto().op for blob in op.output})
    shapes = {"x": [12, 3], "target": [12, 1]}
    data_parallel_model.OptimizeGradientMemory(model, shapes, ["loss"], recycle_activations=True)
    assert len({blob for op in model.net.Proto().op for blob in op.output}) < before
    _feed(model, {"x": DATA, "target": TARGET})
    data_parallel_model.RunInitNet(model)
    data_parallel_model.RunNet(model, RUNS)
    np.testing.assert_allclose(workspace.FetchBlob("cpu_1/y_w"), expected, rtol=1e-6)
    assert workspace.FetchBlob("cpu_0/loss") > 0


# ---- block updates -----------------------------------------------------------------------------------


@pytest.mark.parametrize("nesterov", [False, True])
def test_block_updates(nesterov: bool) -> None:
    """Two devices on their own for three steps, then the block update, twice, by the formula in NumPy."""
    model = ModelHelper("blocks")
    data_parallel_model.Parallelize_CPU_BMUF(
        model,
        _no_input,
        _forward,
        _update,
        block_learning_rate=0.8,
        devices=[0, 1],
        nesterov=nesterov,
        warmup_iterations=2,
    )
    _feed(model, {"x": DATA, "target": TARGET})
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
        _no_input,
        _forward,
        _momentum_of_device,
        devices=[0, 1],
        reset_momentum_sgd=True,
        add_blobs_to_sync=["x"],
    )
    _feed(model, {"x": DATA, "target": TARGET})
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


# ---- what is refused ---------------------------------------------------------------------------------


def _parallel(**arguments: Any) -> Callable[[], None]:
    chosen = {"optimizer_builder_fun": _momentum, "devices": [0, 1], "cpu_device": True, **arguments}
    forward = chosen.pop("forward", _forward)
    return lambda: data_parallel_model.Parallelize(ModelHelper("refused"), _no_input, forward, **chosen)


def _outside(model: Any, loss_scale: float) -> list[Any]:
    with core.NameScope("elsewhere", reset=True):
        return _forward(model, loss_scale)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (_parallel(rendezvous={"num_shards": 2, "engine": "GLOO"}), NotImplementedError, "rendezvous"),
        (_parallel(param_update_builder_fun=_update), AssertionError, "Can only specify one"),
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
        data_parallel_model.Parallelize_GPU(None, _no_input, _forward)
