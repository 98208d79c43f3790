"""Convolutions and pools in float64: the numbers of ONNX Runtime's float32 kernels, to float32 rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from netgrad.runtime.double_kernels import with_double_kernels
from netgrad.runtime.float64 import to_float64
from netgrad.runtime.session import Session


def _model(op_type: str, shape: list[int], kernel: list[int] | None, **attributes: Any) -> onnx.ModelProto:
    rng = np.random.default_rng(3)
    initializers = []
    if kernel is not None:
        initializers.append(numpy_helper.from_array(rng.normal(size=kernel).astype(np.float32), "w"))
        initializers.append(numpy_helper.from_array(rng.normal(size=kernel[0]).astype(np.float32), "b"))
    names = ["x", *(tensor.name for tensor in initializers)]
    node = helper.make_node(op_type, names, ["y"], name="node", **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *shape[1:]])
    graph = helper.make_graph([node], "one", [x], [onnx.ValueInfoProto(name="y")], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model)


@pytest.mark.parametrize(
    ("op_type", "shape", "kernel", "attributes"),
    [
        ("Conv", [2, 3, 7, 5], [4, 3, 3, 2], {}),
        ("Conv", [2, 4, 8, 7], [6, 2, 3, 3], {"group": 2, "strides": [2, 3], "pads": [1, 0, 2, 1]}),
        ("Conv", [1, 3, 9, 8], [3, 1, 2, 3], {"group": 3, "dilations": [2, 3], "pads": [1, 2, 1, 2]}),
        ("Conv", [2, 2, 11], [3, 2, 4], {"strides": [3]}),
        ("Conv", [1, 4, 3, 7, 6], [6, 2, 1, 5, 5], {"group": 2, "pads": [0, 1, 0, 0, 0, 1]}),
        ("Conv", [1, 4, 3, 7, 6], [6, 4, 1, 6, 5], {"dilations": [1, 1, 1], "strides": [1, 1, 2]}),
        ("Conv", [1, 4, 3, 7, 6], [6, 4, 1, 6, 5], {"pads": [1, 0, 0, 1, 0, 0]}),
        ("Conv", [2, 3, 9, 8], [4, 3, 4, 3], {"strides": [2, 3], "dilations": [2, 3], "pads": [0, 1, 0, 0]}),
        ("Conv", [2, 3, 4, 4], [2, 3, 1, 3], {"strides": [1, 2], "dilations": [2, 1], "pads": [0, 1, 0, 1]}),
        ("Conv", [1, 2, 4, 5, 6], [3, 2, 2, 1, 3], {"pads": [1, 0, 1, 0, 1, 1]}),
        ("AveragePool", [2, 3, 7, 6], None, {"kernel_shape": [3, 2], "strides": [2, 1]}),
        ("AveragePool", [2, 3, 7, 6], None, {"kernel_shape": [3, 3], "pads": [1, 1, 0, 1]}),
        (
            "AveragePool",
            [2, 3, 7, 6],
            None,
            {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
        ),
        ("GlobalAveragePool", [2, 3, 5, 4], None, {}),
        ("GlobalMaxPool", [2, 3, 5, 4], None, {}),
        ("LRN", [2, 7, 3, 2], None, {"size": 3, "alpha": 0.3, "beta": 0.6, "bias": 1.5}),
        ("LRN", [2, 7, 3, 2], None, {"size": 5, "alpha": 0.3}),
    ],
)
def test_same_numbers_in_float64(
    op_type: str, shape: list[int], kernel: list[int] | None, attributes: dict[str, Any]
) -> None:
    model = _model(op_type, shape, kernel, **attributes)
    x = np.random.default_rng(4).normal(size=shape).astype(np.float32)
    want = Session(model).run({"x": x})["y"]
    got = Session(with_double_kernels(to_float64(model))).run({"x": x.astype(np.float64)})["y"]
    assert got.dtype == np.float64
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("shape", "kernel", "attributes"),
    [
        ([2, 3, 4, 5], [3, 2, 3, 2], {}),
        ([2, 3, 4, 5], [3, 2, 3, 3], {"strides": [2, 3], "pads": [1, 0, 2, 1], "output_padding": [1, 2]}),
        ([2, 4, 4, 5], [4, 3, 2, 3], {"group": 2, "dilations": [2, 1], "pads": [0, 1, 1, 0]}),
        ([1, 2, 6], [2, 3, 4], {"strides": [3], "pads": [2, 3]}),
    ],
)
def test_transposed_convolutions(shape: list[int], kernel: list[int], attributes: dict[str, Any]) -> None:
    rng = np.random.default_rng(5)
    weights = [
        rng.normal(size=n).astype(np.float32) for n in (kernel, kernel[1] * attributes.get("group", 1))
    ]
    tensors = [numpy_helper.from_array(array, name) for array, name in zip(weights, "wb", strict=True)]
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], name="node", **attributes)
    _same(node, {"x": rng.normal(size=shape)}, tensors)


def test_error_function_to_the_last_digits() -> None:
    x = np.concatenate([np.linspace(-7, 7, 141), [1e-9, -1e-300, 0.0, 40.0]])
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Erf", ["x"], ["y"], name="node")],
            "one",
            [helper.make_tensor_value_info("x", TensorProto.DOUBLE, ["n"])],
            [helper.make_tensor_value_info("y", TensorProto.DOUBLE, ["n"])],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=10,
    )
    got = Session(with_double_kernels(to_float64(model))).run({"x": x})["y"]
    np.testing.assert_allclose(got, [math.erf(number) for number in x], rtol=1e-14, atol=0)


@pytest.mark.parametrize("factors", [(2, 3), (1, 4)])
def test_magnifications(factors: tuple[int, int]) -> None:
    scales = numpy_helper.from_array(np.array([1, 1, *factors], np.float32), "scales")
    form = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], name="node", **form)
    _same(node, {"x": np.random.default_rng(6).normal(size=(2, 3, 4, 5))}, [scales])


def test_steps_and_unpooling() -> None:
    x = np.random.default_rng(7).normal(size=(2, 3, 2, 4))
    _same(helper.make_node("HardSigmoid", ["x"], ["y"], name="node", alpha=0.7, beta=0.3), {"x": x})
    places = np.arange(48).reshape(x.shape) * 4 + 1
    unpool = helper.make_node(
        "MaxUnpool", ["x", "places"], ["y"], name="node", kernel_shape=[2, 2], strides=[2, 2]
    )
    _same(unpool, {"x": x, "places": places})


FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Acos": lambda x: np.arccos(x / 4),
    "Acosh": lambda x: np.arccosh(np.abs(x) + 1.01),
    "Asin": lambda x: np.arcsin(x / 4),
    "Asinh": np.arcsinh,
    "Atan": np.arctan,
    "Atanh": lambda x: np.arctanh(x / 4),
    "Cosh": np.cosh,
    "Erf": np.vectorize(math.erf),
    "Sinh": np.sinh,
    "Tan": np.tan,
    "Softplus": lambda x: np.logaddexp(0, x),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "Elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "Selu": lambda x: np.float32(1.050701) * np.where(x > 0, x, np.float32(1.6732632) * np.expm1(x)),
    "LeakyRelu": lambda x: np.where(x > 0, x, np.float32(0.01) * x),
    "ThresholdedRelu": lambda x: np.where(x > 1, x, 0),
    "HardSigmoid": lambda x: np.clip(np.float32(0.2) * x + 0.5, 0, 1),
    "HardSwish": lambda x: x * np.clip(np.float32(1 / 6) * x + 0.5, 0, 1),
    "Swish": lambda x: x / (1 + np.exp(-x)),
    "Gelu": lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
}
INSIDE = {"Acos": 0.25, "Asin": 0.25, "Atanh": 0.25}


@pytest.mark.parametrize("op_type", sorted(FUNCTIONS))
@pytest.mark.parametrize("within", [False, True], ids=["", "within a branch"])
def test_functions_to_the_last_digits(op_type: str, within: bool) -> None:
    x = np.array([[-3.9, -2.0, -0.7, -1e-3], [1e-5, 0.3, 1.9, 3.99]])
    operand = np.abs(x) + 1.01 if op_type == "Acosh" else x * INSIDE.get(op_type, 1.0)
    node = helper.make_node(op_type, ["x"], ["y"], name="node")
    if within:
        branches = {
            f"{name}_branch": helper.make_graph([node], name, [], [onnx.ValueInfoProto(name="y")])
            for name in ("then", "else")
        }
        node = helper.make_node("If", ["true"], ["y"], name="if", **branches)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, "n"])]
    true = numpy_helper.from_array(np.array(True), "true")
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, "n"])
    graph = helper.make_graph([node], "one", inputs, [y], [true])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)
    wide = with_double_kernels(to_float64(model))
    assert op_type not in {each.op_type for each in ir.traversal.RecursiveGraphIterator(wide.graph)}
    got = Session(wide).run({"x": operand})["y"]
    np.testing.assert_allclose(got, FUNCTIONS[op_type](x), rtol=1e-14, atol=1e-15)


def test_functions_of_several_elements() -> None:
    rng = np.random.default_rng(8)
    x = rng.normal(size=(2, 3, 4, 5))
    vectors = [numpy_helper.from_array(rng.normal(size=3).astype(np.float32), name) for name in "sb"]
    _same(helper.make_node("InstanceNormalization", ["x", "s", "b"], ["y"], name="node"), {"x": x}, vectors)
    _same(helper.make_node("GlobalMaxPool", ["x"], ["y"], name="node"), {"x": x})
    slope = numpy_helper.from_array(rng.normal(size=(3, 1, 1)).astype(np.float32), "s")
    _same(helper.make_node("PRelu", ["x", "s"], ["y"], name="node"), {"x": x}, [slope])
    places, depth = np.array([[0, -1, 2], [3, 1, -4]]), numpy_helper.from_array(np.array(4), "depth")
    for axis in (-1, 0, 1):
        hot = helper.make_node("OneHot", ["i", "depth", "x"], ["y"], name="node", axis=axis)
        _same(hot, {"x": rng.normal(size=2), "i": places}, [depth])
    _same(helper.make_node("Mean", ["x", "z"], ["y"], name="node"), {"x": x, "z": rng.normal(size=(4, 5))})


def _same(
    node: onnx.NodeProto, feeds: dict[str, np.ndarray], initializers: Sequence[onnx.TensorProto] = ()
) -> None:
    """The node gives the same numbers in float32 and, rewritten, in float64."""
    narrow = {k: v.astype(np.float32) if v.dtype == np.float64 else v for k, v in feeds.items()}
    inputs = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for k, v in narrow.items()
    ]
    graph = helper.make_graph([node], "one", inputs, [onnx.ValueInfoProto(name="y")], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    want = Session(model).run(narrow)["y"]
    wide = with_double_kernels(to_float64(model))
    assert node.op_type not in {rewritten.op_type for rewritten in wide.graph}
    got = Session(wide).run(feeds)["y"]
    assert got.dtype == np.float64
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("shape", "kernel", "attributes"),
    [
        ([2, 3, 7, 5], [4, 3, 3, 2], {"strides": [1, 1]}),
        ([2, 4, 8, 7], [6, 2, 3, 3], {"group": 2, "strides": [2, 3], "pads": [1, 0, 2, 1]}),
        ([1, 3, 9, 8], [3, 1, 2, 3], {"group": 3, "dilations": [2, 3], "pads": [1, 2, 1, 2]}),
        ([2, 2, 11], [3, 2, 4], {"strides": [3]}),
    ],
)
@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
def test_sizes_known_only_at_run_time(
    op_type: str, shape: list[int], kernel: list[int], attributes: dict[str, Any]
) -> None:
    """A kernel that is an input, and a branch, of which inference knows little."""
    rng = np.random.default_rng(8)
    if op_type == "ConvTranspose":
        kernel = [shape[1], kernel[1], *kernel[2:]]
    sizes = kernel if op_type == "ConvTranspose" else [None] * len(kernel)
    outputs = kernel[0] if op_type == "Conv" else kernel[1] * attributes.get("group", 1)
    feeds = {"x": rng.normal(size=shape), "w": rng.normal(size=kernel), "b": rng.normal(size=outputs)}
    node = helper.make_node(op_type, ["x", "w", "b"], ["z"], name="node", **attributes)
    inner = helper.make_graph([node], "inner", [], [onnx.ValueInfoProto(name="z")])
    unlike = helper.make_graph(
        [helper.make_node("Identity", ["b"], ["u"])], "unlike", [], [onnx.ValueInfoProto(name="u")]
    )
    choice = helper.make_node("If", ["c"], ["y"], name="if", then_branch=inner, else_branch=unlike)
    inputs = [helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    for name, dims in (("x", [None] * len(shape)), ("w", sizes), ("b", [None])):
        inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, dims))
    graph = helper.make_graph([choice], "one", inputs, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    chosen = {"c": np.array(True)}
    want = Session(model).run({**chosen, **{k: v.astype(np.float32) for k, v in feeds.items()}})["y"]
    got = Session(with_double_kernels(to_float64(model))).run({**chosen, **feeds})["y"]
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("attributes", [{"auto_pad": "SAME_UPPER"}])
def test_forms_that_are_not_covered_stay(attributes: dict[str, Any]) -> None:
    model = with_double_kernels(to_float64(_model("Conv", [2, 3, 7, 5], [4, 3, 3, 2], **attributes)))
    assert [node.op_type for node in model.graph] == ["Conv"]
