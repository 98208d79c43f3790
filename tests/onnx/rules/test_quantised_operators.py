"""Operators from quantised to quantised numbers, straight through: NumPy, and central differences of f."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import netgrad
from netgrad.core.errors import UnsupportedOperatorError

Array = np.ndarray
IN, ZERO_IN = np.float32(0.05), np.uint8(120)
OUT, ZERO_OUT = np.float32(0.0417), np.uint8(110)


def _conv(x: Array, w: Array) -> Array:
    """A 2 x 1 kernel, two images of one channel."""
    return w[:, 0, 0, 0, None, None] * x[:, :, :-1] + w[:, 0, 1, 0, None, None] * x[:, :, 1:]


class Form:
    """One use: the operator, its weights if it has some, their scales, and f."""

    def __init__(
        self,
        op_type: str,
        shape: Sequence[int],
        f: Callable[..., Array],
        weights: Any = None,
        scales: Any = 0.0213,
        domain: str = "com.microsoft",
        bias: Any = None,
        **attributes: Any,
    ) -> None:
        self.op_type, self.shape, self.f, self.domain, self.attributes = op_type, shape, f, domain, attributes
        self.weights = None if weights is None else np.uint8(weights)
        self.scales = np.float32(scales)
        self.bias = None if bias is None else np.int32(bias)

    @property
    def zero(self) -> Array:
        """Zero points of the weights, as many as there are scales."""
        return np.full(self.scales.shape, 100, np.uint8)

    def real(self, x: Array) -> Array:
        """f of dequantised x, and of the weights."""
        if self.weights is None:
            return self.f(x)
        across = self.scales.reshape(-1, 1, 1, 1) if self.op_type == "QLinearConv" else self.scales
        weights = (self.weights.astype(float) - 100) * across.astype(float)
        y = self.f(x, weights)
        if self.bias is not None:
            y = y + (self.bias * float(IN) * self.scales.astype(float))[:, None, None]
        return y

    def model(self, result: Sequence[int]) -> onnx.ModelProto:
        constants: Mapping[str, Any] = {
            "s": IN, "z": ZERO_IN, "os": OUT, "oz": ZERO_OUT, "ws": self.scales, "wz": self.zero,
            **({} if self.weights is None else {"w": self.weights}),
            **({} if self.bias is None else {"b": self.bias}),
        }  # fmt: skip
        operands = ["q", "s", "z", *(["w", "ws", "wz"] if self.weights is not None else [])]
        names = ["os", "oz", *operands] if self.op_type == "QLinearConcat" else [*operands, "os", "oz"]
        names += [] if self.bias is None else ["b"]
        nodes = [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node(self.op_type, names, ["r"], "node", domain=self.domain, **self.attributes),
            helper.make_node("DequantizeLinear", ["r", "os", "oz"], ["y"]),
        ]
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", 1, self.shape)],
            [helper.make_tensor_value_info("y", 1, result)],
            [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
        )
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


ROWS = [
    Form("QLinearMatMul", [3, 4], lambda x, w: x @ w, [[3, 130], [255, 0], [7, 120], [90, 99]], domain=""),
    Form(
        "QLinearMatMul",
        [2, 3, 4],
        lambda x, w: x @ w,
        [[3, 130], [255, 0], [7, 120], [90, 99]],
        [0.01, 0.03],
        domain="",
    ),
    Form("QLinearConv", [1, 1, 5, 2], _conv, [[[[30], [140]]], [[[250], [0]]]], domain=""),
    Form(
        "QLinearConv", [1, 1, 5, 2], _conv, [[[[30], [140]]], [[[250], [0]]]], [0.01, 0.03], "", [300, -200]
    ),
    Form("QLinearAdd", [3, 4], np.add, [[200, 40, 90, 110]]),
    Form("QLinearMul", [3, 4], np.multiply, [[200, 40, 90, 110]]),
    Form("QLinearSigmoid", [3, 4], lambda x: 1 / (1 + np.exp(-x))),
    Form("QLinearLeakyRelu", [3, 4], lambda x: np.where(x > 0, x, 0.25 * x), alpha=0.25),
    Form("QLinearGlobalAveragePool", [2, 2, 3, 2], lambda x: x.mean((2, 3), keepdims=True)),
    Form(
        "QLinearAveragePool",
        [1, 2, 4, 3],
        lambda x: (x[:, :, ::2] + x[:, :, 1::2]) / 2,
        kernel_shape=[2, 1],
        strides=[2, 1],
    ),
    Form("QLinearConcat", [3, 4], lambda x, w: np.concatenate([x, w], 1), [[200], [40], [90]], axis=1),
]


def _slopes(f: Callable[[Array], Array], at: Array, cotangent: Array) -> Array:
    """Central differences of sum(cotangent f)."""
    found = np.zeros(at.shape)
    for place in np.ndindex(*at.shape):
        step = np.zeros(at.shape)
        step[place] = 1e-6
        found[place] = ((f(at + step) - f(at - step)) * cotangent).sum() / 2e-6
    return found


@pytest.mark.parametrize("form", ROWS, ids=lambda form: f"{form.op_type}-{form.scales.ndim}")
def test_straight_through(form: Form) -> None:
    """The kernel quantises f; the gradients are those of f between the two quantisers."""
    rng = np.random.default_rng(6)
    x = rng.uniform(-4, 5, form.shape).astype(np.float32)
    level = np.round(x / IN) + int(ZERO_IN)
    inside = (level >= 0) & (level <= 255)
    steps = np.clip(level, 0, 255) - int(ZERO_IN)
    real = form.real(steps * float(IN))
    result = np.round(real / float(OUT)) + int(ZERO_OUT)
    inside_result = (result >= 0) & (result <= 255)
    result_steps = np.clip(result, 0, 255) - int(ZERO_OUT)

    model = form.model(real.shape)
    cotangent = rng.normal(size=real.shape).astype(np.float32)
    gradient = netgrad.grad(model, wrt=["x", "s", "os"], of="y", cotangent="input", straight_through=True)
    got = netgrad.run(gradient, {"x": x, "y_grad": cotangent})
    np.testing.assert_allclose(got["y"], result_steps * float(OUT), rtol=1e-5)

    passed = _slopes(form.real, steps * float(IN), cotangent * inside_result)
    assert np.abs(passed).max() > 0
    np.testing.assert_allclose(got["x_grad"], passed * inside, rtol=1e-4, atol=1e-5)
    of_result = cotangent * (result_steps - inside_result * real / float(OUT))
    np.testing.assert_allclose(got["os_grad"], of_result.sum(), rtol=1e-3, atol=1e-3)
    if form.bias is None:  # which is in steps of the scale, too
        of_input = passed * (steps - inside * x / IN)
        np.testing.assert_allclose(got["s_grad"], of_input.sum(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("form", ROWS, ids=lambda form: f"{form.op_type}-{form.scales.ndim}")
def test_without_it_the_gradient_is_zero(form: Form) -> None:
    shape = form.real(np.zeros(form.shape)).shape
    with pytest.warns(netgrad.NetgradWarning, match="'x' does not influence"):
        gradient = netgrad.grad(form.model(shape), wrt="x", of="y")
    assert not netgrad.run(gradient, {"x": np.ones(form.shape, np.float32)})["x_grad"].any()


def test_another_layout_is_refused() -> None:
    form = Form("QLinearGlobalAveragePool", [2, 2, 3, 2], np.mean, channels_last=1)
    with pytest.raises(UnsupportedOperatorError, match=r"GlobalAveragePool, node 'node'.*channels_last is 1"):
        netgrad.grad(form.model([2, 1, 1, 2]), wrt="x", of="y", straight_through=True)
