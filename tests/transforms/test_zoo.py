"""The nine zoo models, as shipped: gradients by the input and by all weights.

Deep Relu networks with random weights are chaotic: a rounding of 1e-7 moves the derivative by a percent. So
the gradient model is compared with differences where both run in float64; that it runs as it is, in float32,
and points the same way, is checked besides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from netgrad.onnx.weights import weight_names
from netgrad.runtime.double_kernels import with_double_kernels
from netgrad.runtime.float64 import to_float64
from netgrad.runtime.session import Session
from netgrad.transforms.grad import Gradient, differentiate
from tests.onnx.zoo import ZOO, zoo_input, zoo_model, zoo_path

Arrays = Mapping[str, np.ndarray]

# Relative to each tensor's spread. Kinks are crossed at any step: the smaller the fewer, down to rounding.
STEP = 1e-9
TOLERANCE = 1e-3
# Cosine of the angle between the float32 and the float64 gradient.
SAME_DIRECTION = 0.98
NODES_PER_FORWARD_NODE = 3.0
# Their operators are those of the others, but with 60 million weights and more a difference takes minutes and
# gigabytes: `make corpus` measures these.
HUGE = ("bvlc_alexnet", "vgg19", "zfnet512")


@dataclass(frozen=True)
class Case:
    """A zoo model with its gradient model, a point, and a cotangent."""

    model: ir.Model
    gradient: Gradient
    feeds: Arrays
    weights: Arrays
    target: str
    cotangent: np.ndarray


def _case(name: str) -> Case:
    model, feeds = zoo_model(name), zoo_input(name)
    (target,) = (value.name or "" for value in model.graph.outputs)
    weights = {}
    for weight in weight_names(model):
        tensor = model.graph.initializers[weight].const_value
        assert tensor is not None
        weights[weight] = tensor.numpy()
    gradient = differentiate(model, wrt=[*feeds, *weights], cotangent="input")
    shape = model.graph.outputs[0].shape
    assert shape is not None
    cotangent = np.random.default_rng(8).standard_normal(shape.numpy())
    return Case(model, gradient, feeds, weights, target, cotangent)


def _gradients(case: Case, dtype: type) -> Arrays:
    """The gradients by the names they are with respect to."""
    model = case.gradient.model
    if dtype is np.float64:
        model = with_double_kernels(to_float64(model))
    session = Session(model, memory_pattern=False, optimization="basic")
    given = {**case.feeds, case.gradient.seeds[case.target]: case.cotangent}
    outputs = session.run(
        {name: array.astype(dtype) for name, array in given.items()}, case.gradient.outputs.values()
    )
    return {name: outputs[output] for name, output in case.gradient.outputs.items()}


def _directions(case: Case) -> Iterator[Arrays]:
    """One random direction for the input, and one for all weights at once, relative to their spread."""
    rng = np.random.default_rng(7)
    for group in (case.feeds, case.weights):
        yield {
            name: rng.standard_normal(array.shape) * max(float(array.std()), 1e-3)
            for name, array in group.items()
        }


@pytest.mark.parametrize("name", [name for name in ZOO if name not in HUGE])
def test_gradient_agrees_with_central_differences_along_random_directions(name: str) -> None:
    case = _case(name)
    wide = _gradients(case, np.float64)
    narrow = _gradients(case, np.float32)
    assert all(narrow[k].shape == v.shape and narrow[k].dtype == np.float32 for k, v in wide.items())
    products = sum(float((narrow[k].astype(np.float64) * v).sum()) for k, v in wide.items())
    lengths = [sum(float((g.astype(np.float64) ** 2).sum()) for g in gs.values()) for gs in (wide, narrow)]
    assert products >= SAME_DIRECTION * np.sqrt(lengths[0] * lengths[1])
    del narrow

    forward = Session(
        with_double_kernels(to_float64(case.model)),
        promote=case.weights,
        memory_pattern=False,
        optimization="basic",
    )
    point = {k: v.astype(np.float64) for k, v in {**case.feeds, **case.weights}.items()}

    def objective(at: Arrays) -> float:
        return float((forward.run(at, [case.target])[case.target] * case.cotangent).sum())

    for direction in _directions(case):
        high = {**point, **{k: point[k] + STEP * d for k, d in direction.items()}}
        low = {**point, **{k: point[k] - STEP * d for k, d in direction.items()}}
        want = (objective(high) - objective(low)) / (2 * STEP)
        terms = [float((wide[k] * d).sum()) for k, d in direction.items()]
        # the terms of different tensors may cancel: the rounding is that of the terms
        scale = max(abs(want), float(np.linalg.norm(terms)))
        assert scale > 1e-9, "the derivative is zero: an agreement would say nothing"
        assert abs(sum(terms) - want) <= TOLERANCE * scale, f"{sum(terms)} instead of {want}"


@pytest.mark.parametrize("name", ZOO)
def test_gradient_is_built_as_shipped_and_small(name: str) -> None:
    shipped = onnx.load(zoo_path(name))
    result = differentiate(shipped)
    proto = ir.to_proto(_without_weights(result.model))
    assert isinstance(proto, onnx.ModelProto)
    onnx.checker.check_model(proto)
    nodes = sum(1 for _ in result.model.graph.all_nodes())
    assert nodes <= NODES_PER_FORWARD_NODE * len(shipped.graph.node)


def _without_weights(model: ir.Model) -> ir.Model:
    """The model with its large initializers as inputs: the checker takes messages of less than 2 GB."""
    model = model.clone()
    for value in list(model.graph.initializers.values()):
        if value.const_value is not None and value.const_value.nbytes > 1 << 20:
            model.graph.initializers.pop(value.name or "")
            model.graph.inputs.append(value)
    return model
