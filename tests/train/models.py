"""Small models that the tests of this room train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = Sequence[int | str | None]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def build(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Shape]],
    outputs: Mapping[str, tuple[int, Shape | None]],
    weights: Mapping[str, np.ndarray],
    *,
    opset: int = 18,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in outputs.items()],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    domains = {function.domain for function in functions}
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=list(functions))
    onnx.checker.check_model(model, full_check=True)
    return model


def given_gradients(**parameters: np.ndarray) -> onnx.ModelProto:
    """A model whose output ``loss`` has the input ``<name>_slope`` as gradient of each parameter."""
    nodes, sums = [], []
    for name in parameters:
        nodes.append(helper.make_node("Mul", [name, f"{name}_slope"], [f"{name}_product"]))
        nodes.append(helper.make_node("ReduceSum", [f"{name}_product"], [f"{name}_sum"], keepdims=0))
        sums.append(f"{name}_sum")
    nodes.append(helper.make_node("Sum", sums, ["loss"]))
    kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in parameters.items()}
    kind = next(iter(kinds.values()))
    inputs = {f"{name}_slope": (kinds[name], array.shape) for name, array in parameters.items()}
    return build(nodes, inputs, {"loss": (kind, [])}, parameters)


def scores_model(scores: np.ndarray, *, activation: str | None = None, **attributes: Any) -> onnx.ModelProto:
    """A model whose output ``scores`` (or ``activated``) is its only parameter ``W``."""
    kind = helper.np_dtype_to_tensor_dtype(scores.dtype)
    nodes = [helper.make_node("Add", ["W", "zero"], ["scores"])]
    output = "scores"
    if activation is not None:
        nodes.append(helper.make_node(activation, ["scores"], ["activated"], **attributes))
        output = "activated"
    return build(nodes, {"zero": (kind, [])}, {output: (kind, scores.shape)}, {"W": scores})


def perceptron(
    dtype: type = np.float64, *, features: int = 3, hidden: int = 5, classes: int = 4
) -> onnx.ModelProto:
    """x (N, features) -> logits (N, classes), one hidden layer with tanh."""
    r = rng(1)
    weights = {
        "W1": r.normal(size=(features, hidden)).astype(dtype),
        "b1": r.normal(size=hidden).astype(dtype),
        "W2": r.normal(size=(hidden, classes)).astype(dtype),
        "b2": r.normal(size=classes).astype(dtype),
    }
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        helper.make_node("MatMul", ["x", "W1"], ["xw"]),
        helper.make_node("Add", ["xw", "b1"], ["a"]),
        helper.make_node("Tanh", ["a"], ["h"]),
        helper.make_node("Gemm", ["h", "W2", "b2"], ["logits"]),
    ]
    return build(nodes, {"x": (kind, ["N", features])}, {"logits": (kind, ["N", classes])}, weights)


def normalised(*, training: bool = False, shared: bool = False) -> onnx.ModelProto:
    """x (N, 3) -> y (N, 3): affine, BatchNormalization, affine, BatchNormalization, in float64."""
    r = rng(2)
    weights = {
        "W": r.normal(size=(3, 3)),
        "g1": r.normal(size=3) + 1.5,
        "b1": r.normal(size=3),
        "m1": np.array([0.1, -0.2, 0.3]),
        "v1": np.array([1.5, 0.7, 1.1]),
        "g2": r.normal(size=3) + 1.5,
        "b2": r.normal(size=3),
    }
    second = ["m1", "v1"] if shared else ["m2", "v2"]
    if not shared:
        weights |= {"m2": np.array([0.0, 0.5, -0.5]), "v2": np.array([1.0, 2.0, 3.0])}
    attributes: dict[str, Any] = {"momentum": 0.75, "epsilon": 2.0**-10}  # exact as float32
    if training:
        attributes["training_mode"] = 1
    more = [["", ""], ["", ""]]
    if training:
        more = [["m1_new", "v1_new"], ["m2_new", "v2_new"]]
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["a"], name="affine"),
        helper.make_node(
            "BatchNormalization", ["a", "g1", "b1", "m1", "v1"], ["n", *filter(None, more[0])], **attributes
        ),
        helper.make_node("Tanh", ["n"], ["t"]),
        helper.make_node(
            "BatchNormalization", ["t", "g2", "b2", *second], ["y", *filter(None, more[1])], **attributes
        ),
    ]
    kind = TensorProto.DOUBLE
    return build(nodes, {"x": (kind, ["N", 3])}, {"y": (kind, ["N", 3])}, weights)


def dropped(ratio: float = 0.25, *, training: bool | None = None) -> onnx.ModelProto:
    """x (N, 6) -> y (N, 6): scale by w, then two Dropout nodes beside each other, added up; float32."""
    weights: dict[str, np.ndarray] = {
        "w": np.linspace(0.5, 1.5, 6, dtype=np.float32),
        "ratio": np.asarray(ratio, np.float32),
    }
    more = []
    if training is not None:
        weights["flag"] = np.asarray(training)
        more = ["flag"]
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["s"]),
        helper.make_node("Dropout", ["s", "ratio", *more], ["d1", "kept"]),
        helper.make_node("Dropout", ["s", "ratio", *more], ["d2"]),
        helper.make_node("Add", ["d1", "d2"], ["y"]),
    ]
    kind = TensorProto.FLOAT
    outputs = {"y": (kind, ["N", 6]), "d1": (kind, ["N", 6]), "kept": (TensorProto.BOOL, ["N", 6])}
    return build(nodes, {"x": (kind, ["N", 6])}, outputs, weights)
