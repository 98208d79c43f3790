"""Whether the gradient of a random graph is right: against central differences of the model in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from netgrad.runtime.differences import derivative, random_direction
from netgrad.transforms.grad import differentiate
from tests.onnx.random_graphs.graphs import Graph, build
from tests.onnx.random_graphs.running import (
    Arrays,
    Run,
    in_float64,
    narrowed,
    on_onnxruntime,
)

TOLERANCE = 1e-6
"""Relative to the size of a derivative's terms."""

FLOOR = 1e-9
"""Relative to the size of the objective's terms: below it differences are rounding."""

EVERY = 8
"""Of so many graphs one is tried in float32, too."""

FLIPPED = 1e-2
"""A float32 gradient that is further from the one in float64 lies on another side of some corner."""


@dataclass
class Verdict:
    """What was found of one graph.

    Attributes:
        nodes: Nodes of the forward graph.
        compared: Derivatives that were compared.
        rejected: Derivatives left out, since the differences at two step sizes do not agree.
        zero: Compared derivatives that are zero.
        flipped: Gradients of the float32 model that lie far from those in float64.
        wrong: A line for each derivative that is wrong, and for each gradient that is no tensor of its shape.
        engine: What computed the differences.
    """

    nodes: int
    compared: int = 0
    rejected: int = 0
    zero: int = 0
    flipped: int = 0
    wrong: list[str] = field(default_factory=list)
    engine: str = ""


def judge(graph: Graph, *, elements: int = 2) -> Verdict:
    """Differentiate by all inputs and initializers, run, and compare along directions and by elements.

    The gradient of the same graph in float32 runs on ONNX Runtime with all its optimizations, too, for one of
    eight graphs.

    Args:
        graph: A graph in float64.
        elements: How many elements of each name are compared besides a random direction.
    """
    verdict = Verdict(graph.nodes)
    onnx.checker.check_model(graph.model, full_check=True)
    narrow = build(graph.recipe, "float32") if graph.recipe.seed % EVERY == 0 else None
    point = {**graph.inputs, **graph.weights}
    rng = np.random.default_rng([graph.recipe.seed, 11])
    forward, verdict.engine = in_float64(with_inputs(graph), point)
    primal = forward(point)
    if any(not np.isfinite(array).all() for array in primal.values()):
        raise AssertionError("the graph is not finite: the generator is at fault")
    cotangents = {name: np.asarray(rng.normal(size=array.shape)) for name, array in primal.items()}
    gradient = _gradients(graph, narrow, cotangents, verdict)
    if not verdict.wrong:
        _compare(verdict, forward, point, primal, cotangents, gradient, rng, elements)
    return verdict


def _compare(
    verdict: Verdict,
    forward: Run,
    point: Arrays,
    primal: Arrays,
    cotangents: Arrays,
    gradient: Arrays,
    rng: np.random.Generator,
    elements: int,
) -> None:
    def objective(moved: Arrays) -> float:
        outputs = forward({**point, **moved})
        return float(sum((outputs[name] * cotangent).sum() for name, cotangent in cotangents.items()))

    magnitude = float(sum(np.abs(primal[name] * c).sum() for name, c in cotangents.items()))
    rounding = _rounding(objective, point, magnitude, rng)
    for name, array in point.items():
        directions = [random_direction(array, rng)]
        for flat in rng.choice(array.size, min(elements, array.size), replace=False):
            direction = np.zeros(array.shape)
            direction[np.unravel_index(int(flat), array.shape)] = 1.0
            directions.append(direction)
        for direction in directions:
            products = gradient[name] * direction
            size = float(np.sqrt((products**2).sum()))
            allowed = TOLERANCE * size + FLOOR * magnitude
            along = _along(objective, name, array, direction)
            found = derivative(along, rounding=rounding, target=0.3 * allowed, largest=1e-3)
            if not found.error <= allowed:
                verdict.rejected += 1
                continue
            verdict.compared += 1
            verdict.zero += found.value == 0.0
            if not abs(float(products.sum()) - found.value) <= allowed + found.error:
                verdict.wrong.append(
                    f"gradient by {name} {array.shape} along a direction: {products.sum():.9g} instead of "
                    f"{found.value:.9g} +- {found.error:.1g}"
                )


def _along(
    objective: Callable[[Arrays], float], name: str, array: np.ndarray, direction: np.ndarray
) -> Callable[[float], float]:
    return lambda t: objective({name: array + t * direction})


def gradient_of(graph: Graph) -> tuple[onnx.ModelProto, dict[str, str], dict[str, str]]:
    """The gradient model by all inputs and initializers, its outputs and its cotangents by name."""
    names = [*graph.inputs, *graph.weights]
    result = differentiate(graph.model, wrt=names, of=graph.outputs, cotangent="input")
    proto = ir.to_proto(result.model)
    assert isinstance(proto, onnx.ModelProto)
    return proto, result.outputs, result.seeds


def _gradients(graph: Graph, narrow: Graph | None, cotangents: Arrays, verdict: Verdict) -> Arrays:
    """The gradient by name, in float64; what is wrong with its model goes into the verdict."""
    proto, outputs, seeds = gradient_of(graph)
    try:
        onnx.checker.check_model(proto, full_check=True)
    except onnx.checker.ValidationError as error:
        verdict.wrong.append(f"the checker refuses the gradient: {error}")
    feeds = {**graph.inputs, **{seeds[name]: array for name, array in cotangents.items()}}
    single: Arrays = {}
    if narrow is not None:
        single_proto, single_outputs, _ = gradient_of(narrow)
        single = on_onnxruntime(single_proto, optimized=True)(narrowed(feeds))
        single = {name: single[output] for name, output in single_outputs.items()}
    values = in_float64(proto, feeds)[0](feeds)
    found = {name: values[output] for name, output in outputs.items()}
    for name, array in {**graph.inputs, **graph.weights}.items():
        for each, dtype in ((found[name], "float64"), (single.get(name), "float32")):
            if each is None:
                continue
            if each.shape != array.shape or each.dtype != dtype or not np.isfinite(each).all():
                verdict.wrong.append(f"gradient by {name} {array.shape}: {each.shape} {each.dtype}: {each}")
        if name in single and not verdict.wrong:
            size = max(float(np.abs(found[name]).max(initial=0.0)), 1e-3)
            verdict.flipped += float(np.abs(found[name] - single[name]).max(initial=0.0)) > FLIPPED * size
    return found


def with_inputs(graph: Graph) -> onnx.ModelProto:
    """The model with its floating-point initializers as inputs, so that they can be varied."""
    model = onnx.ModelProto()
    model.CopyFrom(graph.model)
    kept = [each for each in model.graph.initializer if each.name not in graph.weights]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    for name, array in graph.weights.items():
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
        model.graph.input.append(helper.make_tensor_value_info(name, element, array.shape))
    return model


def _rounding(
    objective: Callable[[Arrays], float], point: Arrays, magnitude: float, rng: np.random.Generator
) -> float:
    """Rounding error of one value of the objective, from third differences over points close together."""
    directions = {name: random_direction(array, rng) for name, array in point.items()}
    values = [
        objective({name: point[name] + 1e-9 * k * d for name, d in directions.items()}) for k in range(7)
    ]
    measured = float(np.sqrt(np.mean(np.diff(values, 3) ** 2) / 20))
    return max(measured, float(np.finfo(np.float64).eps) * magnitude)
