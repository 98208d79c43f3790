"""Operators of nets that are put into one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.caffe2_pb2 import CUDA
from netgrad.caffe2.python import core, transformations, workspace

change = transformations.Transformer()


def _feed(seed: int = 0, **shapes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seed)
    for name, shape in shapes.items():
        values = rng.uniform(0.5, 2, shape) if name == "v" else rng.normal(size=shape)
        workspace.FeedBlob(name, values.astype(np.float32))


def _run(net: core.Net, name: str) -> np.ndarray[Any, Any]:
    workspace.RunNetOnce(net)
    found: np.ndarray[Any, Any] = workspace.FetchBlob(name)
    return found


def test_the_engine_of_convolutions() -> None:
    net = core.Net("net")
    net.Conv(["x", "w"], "c", kernel=3)
    net.Conv(["x", "w"], "d", kernel=3, order="NHWC")
    net.Conv(["x", "w"], "e", kernel=3, device_option=core.DeviceOption(CUDA))
    net.Proto().external_input.append("not read")
    net.Proto().external_output.append("not written")
    change.AddNNPACK(net)
    assert [op.engine for op in net.Proto().op] == ["NNPACK", "", ""]
    assert net.Proto().external_input == ["x", "w", "not read"]
    assert net.Proto().external_output == ["not written"]


@pytest.mark.parametrize(
    ("names", "fused"),
    [
        (["x c", "c y"], ["x y"]),
        (["x c", "c c"], ["x c"]),
        (["x c", "c x"], ["x x_0"]),
        (["x c", "c x", "x c", "c y"], ["x x_0", "x_0 y"]),
        (["x c", "c d", "d c", "c d"], ["x d_0", "d_0 d"]),
        (["x c", "c y", "c z"], ["x c", "c y", "c z"]),
    ],
)
def test_a_relu_in_the_convolution_before_it(names: list[str], fused: list[str]) -> None:
    """The operators are Conv and Relu in turn; what is left computes the same."""
    net = core.Net("net")
    for place, name in enumerate(names):
        read, written = name.split()
        if (place % 2 and read == "c") or name == "c z":
            net.Relu(read, written)
        else:
            net.Conv([read, "w", "b"], written, kernel=3, pad=1)
    _feed(x=(1, 2, 5, 5), w=(2, 2, 3, 3), b=(2,))
    image = workspace.FetchBlob("x")
    expected = _run(net, names[-1].split()[1])
    change.AddNNPACK(net)
    transformations.fuseNNPACKConvRelu(net)
    assert [f"{op.input[0]} {op.output[0]}" for op in net.Proto().op] == fused
    workspace.FeedBlob("x", image)
    np.testing.assert_allclose(_run(net, fused[-1].split()[1]), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("given", ["c", "x"])
def test_what_a_net_gives_away_keeps_its_name(given: str) -> None:
    net = core.Net("net")
    net.Conv(["x", "w"], "c", kernel=3, engine="NNPACK")
    net.Relu("c", "x")
    net.Proto().external_output.append(given)
    change.FuseNNPACKConvRelu(net)
    assert [op.type for op in net.Proto().op] == ["Conv", "Relu"]


def test_an_activation_in_a_convolution_is_relu_and_has_no_gradient() -> None:
    net = core.Net("net")
    net.Conv(["x", "w"], "c", kernel=3, engine="NNPACK", activation="Tanh")
    _feed(x=(1, 2, 5, 5), w=(2, 2, 3, 3))
    with pytest.raises(RuntimeError, match="the activation 'Tanh' is not known"):
        workspace.RunNetOnce(net)
    net.Proto().op[0].arg[-1].s = b"Relu"
    net.AddGradientOperators(["c"])
    with pytest.raises(RuntimeError, match="no gradient of a convolution with an activation"):
        workspace.RunNetOnce(net)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_a_normalization_in_the_convolution_before_it(order: str, bias: bool, shared: bool) -> None:
    workspace.ResetWorkspace()
    net = core.Net("net")
    net.Conv(["x", "w", *["b"] * bias], "c", kernel=3, order=order)
    net.SpatialBN(["c", "s", "_bias0", "m", "v"], "y", is_test=1, order=order, epsilon=1e-2)
    if shared:
        net.Conv(["x", "w", *["b"] * bias], "z", kernel=3, order=order)
    first = order == "NCHW"
    _feed(
        x=(2, 3, 6, 5) if first else (2, 6, 5, 3), w=(4, 3, 3, 3), b=(4,), s=(4,), _bias0=(4,), m=(4,), v=(4,)
    )
    expected = _run(net, "y")
    other = workspace.FetchBlob("z") if shared else None
    transformations.fuseConvBN(net)
    assert [op.type for op in net.Proto().op] == ["Conv"] * (1 + shared)
    assert list(net.Proto().op[0].input) == [
        "x",
        "_weights0" if shared else "w",
        "b" if bias and not shared else "_bias1",
    ]
    np.testing.assert_allclose(_run(net, "y"), expected, rtol=1e-4, atol=1e-5)
    if shared:
        np.testing.assert_array_equal(workspace.FetchBlob("z"), other)


@pytest.mark.parametrize(
    ("arguments", "outputs"),
    [({"is_test": 0}, ["y", "m", "v", "n", "u"]), ({"is_test": 1, "order": "NHWC"}, ["y"])],
    ids=["its own moments", "another order"],
)
def test_other_normalizations_stay(arguments: dict[str, Any], outputs: list[str]) -> None:
    net = core.Net("net")
    net.Conv(["x", "w"], "c", kernel=3)
    net.SpatialBN(["c", "s", "t", "m", "v"], outputs, **arguments)
    change.FuseConvBN(net)
    assert [op.type for op in net.Proto().op] == ["Conv", "SpatialBN"]


def test_unknown_changes_and_parameters() -> None:
    workspace.ResetWorkspace()
    net = core.Net("net")
    net.Conv(["x", "w"], "c", kernel=3)
    net.SpatialBN(["c", "s", "t", "m", "v"], "y", is_test=1)
    with pytest.raises(AttributeError, match=r"Transformation FuseConvBM not found.*FuseConvBN"):
        change.FuseConvBM(net)
    with pytest.raises(RuntimeError, match="SpatialBN is changed together with its parameters, and 's'"):
        change.FuseConvBN(net)
