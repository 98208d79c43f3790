"""Layers of data-parallel models: rows of tables, batch normalization over all devices, recurrent nets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import data_parallel_model, optimizer, rnn_cell, workspace
from netgrad.caffe2.python.cnn import CNNModelHelper
from netgrad.caffe2.python.model_helper import ModelHelper
from tests.caffe2.parallel_models import (
    feed,
    no_input,
)

Array = np.ndarray[Any, Any]

_random = np.random.default_rng(12)


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
        no_input,
        _rows,
        optimizer_builder_fun=lambda model: optimizer.build_sgd(model, 0.6),
        devices=[0, 1],
        cpu_device=cpu_device,
    )
    feed(model, {"indices": indices, "rows": rows})
    data_parallel_model.RunInitNet(model)
    table = np.full((6, 2), 0.5)
    for _ in range(3):
        feed(model, {"indices": indices})  # which the net overwrites with those of all
        data_parallel_model.RunNet(model, 1)
        slopes = (table[indices] - rows) / len(rows)
        np.subtract.at(table, indices, 0.6 * slopes)
    for device in (0, 1):
        found = workspace.FetchBlob(f"{model._device_prefix}_{device}/table")
        np.testing.assert_allclose(found, table, rtol=1e-5, atol=1e-6)


def _two_tables(model: Any, loss_scale: float) -> list[Any]:
    for name, value in (("first", 0.5), ("second", -1.0)):
        model.AddParameter(model.param_init_net.ConstantFill([], name, shape=[6, 2], value=value))
    gathered = [model.net.Gather([name, "indices"], f"{name}_rows") for name in ("first", "second")]
    model.net.SquaredL2Distance(gathered, "distance")
    loss = model.net.AveragedLoss("distance", "loss")
    return [model.net.Scale(loss, "scaled_loss", scale=loss_scale)]


def test_tables_with_the_same_row_numbers() -> None:
    """The numbers are put together once, and the rows of both tables."""
    indices = np.array([0, 1, 2, 2, 4, 1], np.int32)
    model = ModelHelper("tables")
    data_parallel_model.Parallelize_CPU(
        model,
        no_input,
        _two_tables,
        optimizer_builder_fun=lambda model: optimizer.build_sgd(model, 0.6),
        devices=[0, 1, 2],
    )
    feed(model, {"indices": indices})
    data_parallel_model.RunInitNet(model)
    first, second = np.full((6, 2), 0.5), np.full((6, 2), -1.0)
    for _ in range(2):
        feed(model, {"indices": indices})
        data_parallel_model.RunNet(model, 1)
        step = 0.6 * (first - second)[indices] / len(indices)
        np.subtract.at(first, indices, step)
        np.add.at(second, indices, step)
    np.testing.assert_allclose(workspace.FetchBlob("cpu_2/first"), first, rtol=1e-5)
    np.testing.assert_allclose(workspace.FetchBlob("cpu_1/second"), second, rtol=1e-5)
    concatenated = [op.output[0] for op in model.net.Proto().op if op.type == "Concat"]
    assert len([name for name in concatenated if name.endswith("_index_concat")]) == 1
    assert len(concatenated) == 3


IMAGES = _random.normal(size=(8, 2, 3, 3)).astype(np.float32)


def _normalized(model: Any, loss_scale: float) -> list[Any]:
    model.SpatialBN("images", "bn", 2, epsilon=1e-3, is_test=False)
    model.net.Sqr("bn", "squares")
    model.net.Mul(["squares", "images"], "products")
    return [model.net.SumElements("products", "loss")]


def test_a_model_that_only_runs_combines_moments_of_batches() -> None:
    model = CNNModelHelper()
    data_parallel_model.Parallelize_CPU(model, no_input, _normalized, devices=[0, 1], combine_spatial_bn=True)
    feed(model, {"images": IMAGES})
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
            no_input,
            _normalized,
            optimizer_builder_fun=lambda model: optimizer.build_sgd(model, 0.1),
            devices=devices,
            cpu_device=cpu_device,
            combine_spatial_bn=len(devices) > 1,
        )
        feed(model, {"images": IMAGES})
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
            no_input,
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
