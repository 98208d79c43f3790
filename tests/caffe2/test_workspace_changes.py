"""Changed nets, and what operators cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import brew, core, workspace
from netgrad.caffe2.python.model_helper import ModelHelper


def _net() -> Any:
    net = core.Net("net")
    net.Conv(["data", "w", "b"], "conv", kernel=3)
    net.Relu("conv", "y")
    return net


def test_a_change_of_a_net() -> None:
    net = _net()
    changed = workspace.ApplyTransform("ConvToNNPack", net.Proto())
    assert [op.engine for op in changed.op] == ["NNPACK", ""]
    assert [op.engine for op in net.Proto().op] == ["", ""]
    with core.DeviceScope(core.DeviceOption(1)):
        elsewhere = _net()
    assert workspace.ApplyTransform("ConvToNNPack", elsewhere).op[0].engine == ""
    with pytest.raises(RuntimeError, match=r"there is no transform ConvToNN.*ConvToNNPack"):
        workspace.ApplyTransform("ConvToNN", net.Proto())


@pytest.mark.parametrize(("threshold", "engine"), [(0.0, "NNPACK"), (1e9, "")])
def test_a_change_if_it_is_faster(threshold: float, engine: str) -> None:
    init = core.Net("init")
    for name, shape in {"data": [1, 2, 5, 5], "w": [3, 2, 3, 3], "b": [3]}.items():
        init.ConstantFill([], name, shape=shape, value=0.5)
    found = workspace.ApplyTransformIfFaster(
        "ConvToNNPack", _net().Proto(), init.Proto(), main_runs=2, improvement_threshold=threshold
    )
    assert found.op[0].engine == engine
    assert not workspace.HasBlob("data")


@pytest.mark.parametrize(
    ("op", "shapes", "dtype", "cost"),
    [
        # each of 8 * 8 outputs: 9 products and their sums
        (
            ("Conv2D", {"kernel": 3, "pad": 1}),
            [(1, 1, 8, 8), (1, 1, 3, 3)],
            "f",
            (8 * 8 * 9 * 2, 4 * 64, 4 * 73),
        ),
        (
            ("Conv2D", {"kernel": 3, "pad": 1}),
            [(1, 1, 8, 8), (1, 1, 3, 3)],
            "d",
            (8 * 8 * 9 * 2, 4 * 64, 8 * 73),
        ),
        (
            ("Conv", {"kernel": 3, "stride": 2}),
            [(2, 3, 7, 7), (4, 3, 3, 3), (4,)],
            "f",
            (2 * 4 * 9 * 27 * 2, 4 * 2 * 4 * 9, 4 * (294 + 108 + 4)),
        ),
        # 3 rows of 5 outputs, each 4 products, their sums and the bias
        (("FC", {}), [(3, 4), (5, 4), (5,)], "f", (3 * 5 * (2 * 4 + 1), 4 * 3 * 5, 4 * 37)),
        (("FC", {}), [(3, 4), (5, 4), (5,)], "d", (3 * 5 * (2 * 4 + 1), 8 * 3 * 5, 8 * 37)),
        (("Add", {}), [(2, 3), (2, 3)], "f", (6, 24, 48)),
        (("Sum", {}), [(2, 3), (2, 3), (2, 3)], "f", (12, 24, 72)),
        (("Relu", {}), [(2, 3)], "f", (0, 24, 24)),
        (("BatchMatMul", {}), [(5, 2, 3), (5, 3, 4)], "f", (5 * 2 * 4 * 3 * 2, 160, 360)),
        (("DotProduct", {}), [(2, 3), (2, 3)], "f", (12, 8, 48)),
    ],
)
def test_costs(op: Any, shapes: list[tuple[int, ...]], dtype: str, cost: tuple[int, int, int]) -> None:
    names = ["x", "w", "b"][: len(shapes)]
    for name, shape in zip(names, shapes, strict=True):
        workspace.FeedBlob(name, np.zeros(shape, dtype))
    message = core.CreateOperator(op[0], names, ["y"], **op[1])
    assert workspace.GetOperatorCost(message.SerializeToString(), names) == cost


def test_costs_of_all_outputs() -> None:
    """Two columns of int64 and the sizes in int32; three parts."""
    workspace.FeedBlob("x", np.zeros((2, 3), np.int64))
    workspace.FeedBlob("w", np.zeros((2, 1), np.int64))
    joined = workspace.GetOperatorCost(core.CreateOperator("Concat", ["x", "w"], ["y", "s"], axis=1), "xw")
    assert (joined.flops, joined.bytes_written, joined.bytes_read) == (0, 8 * 8 + 2 * 4, 8 * 8)
    parted = workspace.GetOperatorCost(core.CreateOperator("Split", "x", ["a", "b", "c"], axis=1), ["x"])
    assert parted == (0, 48, 48)


def test_the_cost_of_parts_of_given_sizes() -> None:
    workspace.FeedBlob("x", np.zeros((2, 3), np.int64))
    workspace.FeedBlob("sizes", np.array([1, 2], np.int32))
    op = core.CreateOperator("Split", ["x", "sizes"], ["y", "z"], axis=1)
    assert workspace.GetOperatorCost(op, op.input) == (0, 8 * 6, 8 * 6 + 4 * 2)


def test_costs_that_are_not_known() -> None:
    with pytest.raises(RuntimeError, match="the cost of Tanh is not known"):
        workspace.GetOperatorCost(core.CreateOperator("Tanh", "x", "y"), ["x"])
    workspace.FeedBlob("x", "text")
    with pytest.raises(RuntimeError, match="blob x holds no tensor, which FC needs"):
        workspace.GetOperatorCost(core.CreateOperator("FC", ["x", "w", "b"], "y"), ["x", "w", "b"])


def test_the_folder_of_immediate_mode() -> None:
    workspace.StartImmediate(i_know=True)
    folder = Path(workspace._immediate_root_folder)
    assert folder.is_dir()
    workspace.StopImmediate()
    assert workspace._immediate_root_folder == ""
    assert not folder.exists()


def test_parameters_that_are_registered_twice() -> None:
    model = ModelHelper(name="model")
    brew.fc(model, "x", "y", 3, 4)
    model.Validate()
    assert model._Validate() == []
    model.params.append("y_w")
    assert model._Validate() == ["y_w"]
    with pytest.raises(AssertionError, match="registered twice: y_w"):
        model.Validate()
    assert "FC" in core._REGISTERED_OPERATORS
    assert not workspace.C.use_mkldnn


def test_operators_have_schemas() -> None:
    """Programs skip what they do with shapes where a build has none."""
    from netgrad.caffe2.python import build

    assert build.CAFFE2_NO_OPERATOR_SCHEMA is False
    assert build.build_options.get("USE_CUDA", "OFF") == "OFF"
