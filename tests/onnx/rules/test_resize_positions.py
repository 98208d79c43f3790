"""Resize by its scales and region: zeros, refusals, element types and scales known before the model runs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import netgrad
from tests.onnx.rules.cases.resize import Evaluated

RNG = np.random.default_rng(5)
X = RNG.normal(size=(1, 2, 4, 5))
SCALES = np.asarray([2.1, 1.1], np.float32)


def _model(dtype: int, scales: np.ndarray | None, **attributes: object) -> onnx.ModelProto:
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], name="node", axes=[2, 3], **attributes)
    inputs = [helper.make_tensor_value_info("x", dtype, [1, 2, 4, 5])]
    known = []
    if scales is None:
        inputs.append(helper.make_tensor_value_info("scales", onnx.TensorProto.FLOAT, [2]))
    else:
        known.append(numpy_helper.from_array(scales, "scales"))
    outputs = [helper.make_tensor_value_info("y", dtype, [1, 2, "h", "w"])]
    graph = helper.make_graph([node], "resize", inputs, outputs, known)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)


def _differences(**attributes: object) -> np.ndarray:
    forward, step, found = Evaluated(axes=[2, 3], **attributes), 1e-5, []
    for k in range(2):
        move = np.eye(2)[k] * step
        high, low = forward(X, None, SCALES + move), forward(X, None, SCALES - move)
        found.append((high.sum() - low.sum()) / (2 * step))
    return np.asarray(found)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_initializers_and_half_images(known: bool, dtype: type) -> None:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = _model(element, SCALES if known else None, mode="linear")
    feeds = {"x": X.astype(dtype)} | ({} if known else {"scales": SCALES})
    got = netgrad.run(netgrad.grad(model, wrt=["x", "scales"]), feeds)
    assert got["scales_grad"].dtype == np.float32
    tolerance = 2e-2 if dtype is np.float16 else 3e-4
    np.testing.assert_allclose(
        got["scales_grad"], _differences(mode="linear"), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize(
    "attributes",
    [{"mode": "nearest"}, {"mode": "linear", "coordinate_transformation_mode": "align_corners"}],
    ids=["nearest", "corners"],
)
def test_positions_that_no_scale_moves_give_zeros(attributes: dict[str, str]) -> None:
    gradient = netgrad.grad(_model(onnx.TensorProto.FLOAT, None, **attributes), wrt=["scales"])
    got = netgrad.run(gradient, {"x": X.astype(np.float32), "scales": SCALES})
    np.testing.assert_array_equal(got["scales_grad"], np.zeros(2, np.float32))


def test_smoothing_is_refused_by_name_unless_scales_are_fixed() -> None:
    model = _model(onnx.TensorProto.FLOAT, None, mode="linear", antialias=1)
    with pytest.raises(netgrad.UnsupportedOperatorError, match=r"Resize, node 'node'.*antialias.*'scales'"):
        netgrad.grad(model, wrt=["x", "scales"])
    assert "x_grad" in {value.name for value in netgrad.grad(model, wrt=["x"]).graph.outputs}


def test_an_axis_that_keeps_its_size_is_still_resized() -> None:
    """With a scale of 1.1 it is, at other positions, though ONNX Runtime copies what keeps its shape."""
    model = netgrad.grad(_model(onnx.TensorProto.FLOAT, SCALES, mode="linear"), wrt=["x"])
    got = netgrad.run(model, {"x": X.astype(np.float32)})["x_grad"]
    forward = Evaluated(axes=[2, 3], mode="linear")
    want = [forward(unit.reshape(X.shape), None, SCALES).sum() for unit in np.eye(X.size)]
    np.testing.assert_allclose(got, np.reshape(want, X.shape), rtol=1e-4, atol=1e-5)
