"""The proof for one model: differentiated as it is shipped, checked, run, and held against differences.

What is measured is the forward part of the gradient model, in float64, after its outputs were found to be
those of the shipped file. Weights are varied together, each scaled so that all have the same share in the
derivative: a gradient that is wrong for one of them then shows, however small it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from netgrad.core.errors import RuntimeFailureError
from netgrad.onnx.prepare import prepare
from netgrad.onnx.read import load
from netgrad.onnx.view import FLOATING
from netgrad.runtime.differences import Estimate, Objective, Runner, derivative, random_direction, widened
from netgrad.runtime.double_kernels import with_double_kernels
from netgrad.runtime.float64 import to_float64
from netgrad.runtime.reference import ReferenceSession
from netgrad.runtime.session import Session
from netgrad.transforms.grad import Gradient, differentiate

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]

TOLERANCE = 1e-3
"""Of a derivative along a direction, relative to its terms; the measurement's error has to be below it."""

SAME_OUTPUT = 1e-3
"""Forward outputs of the gradient model and of the shipped file, relative to the largest element."""

SAME_DIRECTION = 0.98
"""Cosine between the gradients in the model's own types and in float64: deep Relu networks are chaotic."""

_SHARES = (1e3, 10.0, 1.0)
"""How many times its spread a weight may be moved more than others: less where nothing can be measured so,
because the movement crosses too many kinks of a deep Relu network."""

_GIVEN_BY_REFERENCE = 1 << 20  # bytes


@dataclass
class Proof:
    """What was found for one model.

    Attributes:
        name: The model.
        opset: As shipped.
        shipped: Nodes of the file, those of inner graphs included.
        prepared: Nodes of the prepared forward graph.
        gradient: Nodes of the model with the gradient by all weights.
        inputs: Number of float inputs, with the largest relative error; None without float inputs.
        weights: Number of weights, with the largest relative error.
        still: Weights and inputs whose gradient is zero at all points.
        refused: The message, where differentiation is refused.
        problems: What is wrong; empty if everything is right.
        seconds: Time that it took.
    """

    name: str
    opset: int
    shipped: int
    prepared: int = 0
    gradient: int = 0
    inputs: tuple[int, float] | None = None
    weights: tuple[int, float] | None = None
    still: list[str] = field(default_factory=list)
    refused: str = ""
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0


def count_nodes(model: ir.Model) -> int:
    """All nodes, those of inner graphs included."""
    return sum(1 for _ in model.graph.all_nodes())


def prove(
    name: str,
    path: Path,
    points: Sequence[Arrays],
    parameters: Arrays | None = None,
    *,
    group: int = 16,
) -> Proof:
    """Differentiate a model file by its inputs and by its weights, and compare with central differences.

    Args:
        name: What the model is called in the proof.
        path: The file, as shipped.
        points: Inputs to run it at.
        parameters: Values to take for initializers and constants, in place of those in the file.
        group: The most weights that are moved together.
    """
    start = time.perf_counter()
    shipped = load(path)
    graph = shipped.graph
    proof = Proof(name, shipped.opset_imports[""], count_nodes(shipped))
    defaults = set(graph.initializers)
    inputs = [v.name for v in graph.inputs if v.name and v.dtype in FLOATING and v.name not in defaults]
    targets = [v.name for v in graph.outputs if v.name and v.dtype in FLOATING]
    zero: dict[str, bool] = {}
    for what, wrt in (("inputs", inputs), ("weights", None)):
        if wrt is not None and not wrt:
            continue
        gradient = differentiate(path, wrt=wrt, of=targets, cotangent="input")
        _check(gradient.model)
        if what == "weights":
            proof.prepared = count_nodes(prepare(path).model)
            proof.gradient = count_nodes(differentiate(path, of=targets).model)
        _set_parameters(gradient.model, parameters or {})
        worst = 0.0
        for point in points:
            case = _Case(gradient, point, targets, proof.problems)
            case.same_outputs(_outputs(shipped, point, targets, parameters or {}))
            for key, is_zero in case.run().items():
                zero[key] = zero.get(key, True) and is_zero
            worst = max(worst, *case.errors(1 if what == "inputs" else group))
        found = (len(gradient.outputs), worst)
        if what == "inputs":
            proof.inputs = found
        else:
            proof.weights = found
    proof.still = [key for key, is_zero in zero.items() if is_zero]
    proof.seconds = time.perf_counter() - start
    return proof


class _Case:
    """A gradient model at one point."""

    def __init__(
        self, gradient: Gradient, point: Arrays, targets: Sequence[str], problems: list[str]
    ) -> None:
        self.gradient = gradient
        self.point = point
        self.targets = targets
        self.problems = problems
        names = {v.name for v in gradient.model.graph.inputs}
        self.feeds = {name: array for name, array in point.items() if name in names}
        self.session = Session(gradient.model, memory_pattern=False)
        self.cotangents: dict[str, Array] = {}
        self.wide: dict[str, Array] = {}

    def same_outputs(self, shipped: Arrays) -> None:
        """Compare the forward outputs with those of the shipped file, and draw cotangents of their shapes."""
        rng = np.random.default_rng(8)
        self.cotangents = {
            target: rng.standard_normal(array.shape).astype(array.dtype) for target, array in shipped.items()
        }
        seeds = {self.gradient.seeds[target]: array for target, array in self.cotangents.items()}
        self.given = {**self.feeds, **seeds}
        found = self.session.run(self.given, self.targets)
        for target, array in shipped.items():
            margin = SAME_OUTPUT * np.abs(array).max(initial=0.0)
            if found[target].shape != array.shape or not np.allclose(found[target], array, 0, margin):
                self.problems.append(f"the gradient model gives another '{target}' than the file")

    def run(self) -> dict[str, bool]:
        """Run the gradient as it is and in float64; says of each name whether its gradient is zero."""
        outputs = self.gradient.outputs
        found = self.session.run(self.given, outputs.values())
        narrow = {name: np.asarray(found[output], np.float64) for name, output in outputs.items()}
        del found, self.session
        runner = _wide_runner(self.gradient.model)
        found = runner.run({name: widened(array) for name, array in self.given.items()}, outputs.values())
        self.wide = {name: found[output] for name, output in outputs.items()}
        product = sum(float((narrow[k] * v).sum()) for k, v in self.wide.items())
        lengths = [sum(float((g**2).sum()) for g in gs.values()) for gs in (self.wide, narrow)]
        if not product >= SAME_DIRECTION * np.sqrt(lengths[0] * lengths[1]) or not np.isfinite(lengths).all():
            self.problems.append(f"in its own types the gradient by {_some(outputs)} points elsewhere")
        return {name: not array.any() for name, array in self.wide.items()}

    def errors(self, group: int) -> Iterator[float]:
        """Relative errors along random directions, each of which moves at most ``group`` tensors."""
        objective = Objective(self.gradient.model, self.given, self.cotangents, list(self.wide))
        if objective.precision != "float64":
            self.problems.append("the model cannot be measured in float64")
        rng = np.random.default_rng(7)
        names = [str(name) for name in rng.permutation(list(self.wide))]
        for first in range(0, len(names), group):
            moved = names[first : first + group]
            raw = {name: random_direction(objective.point[name], rng) for name in moved}
            for share in _SHARES:
                direction = self._shared(raw, share)
                terms = np.array([float((self.wide[name] * direction[name]).sum()) for name in moved])
                size = float(np.linalg.norm([np.linalg.norm(self.wide[n] * direction[n]) for n in moved]))
                scale = max(size, float(np.abs(terms).max()))
                estimate = objective.along(direction, target=1e-6 * scale)
                if estimate.error > TOLERANCE * scale:
                    estimate = _closely(objective, direction, target=1e-6 * scale)
                if abs(terms.sum() - estimate.value) > TOLERANCE * scale:
                    # A spike of the slope, narrower than the steps, looks smooth from afar.
                    nearest = _nearest(objective, direction, estimate)
                    estimate = nearest if nearest.error <= TOLERANCE * scale else estimate
                if estimate.error <= TOLERANCE * scale:
                    break
            if scale == 0.0:
                if abs(estimate.value) > 100 * objective.rounding / estimate.step:
                    self.problems.append(f"the gradient by {_some(moved)} is zero, {estimate.value} measured")
                continue
            error = abs(float(terms.sum()) - estimate.value) / scale
            if not error <= TOLERANCE or not estimate.error <= TOLERANCE * scale:
                self.problems.append(
                    f"by {_some(moved)}: {terms.sum():.9g}, measured {estimate.value:.9g} "
                    f"with an error of {estimate.error:.2g}"
                )
            yield error
        yield 0.0

    def _shared(self, direction: Arrays, most: float) -> dict[str, Array]:
        """A direction in which every tensor has the same share, or is moved at most ``most`` times as far."""
        sizes = {name: float(np.linalg.norm(self.wide[name] * d)) for name, d in direction.items()}
        largest = max(sizes.values())
        return {
            name: d * min(largest / sizes[name], most) if sizes[name] > 0 else d
            for name, d in direction.items()
        }


def _closely(objective: Objective, direction: Arrays, target: float) -> Estimate:
    """A derivative measured over steps so small that few kinks are crossed.

    Many kinks near the point look like rounding to `Objective`, which then keeps to steps that cross more of
    them. Here the rounding is taken to be that of the largest partial sum.
    """
    function, rounding = _along(objective, direction)
    estimate = derivative(function, rounding=rounding, target=target, largest=2.0**-18)
    return min(estimate, _nearest(objective, direction, estimate), key=lambda one: one.error)


def _nearest(objective: Objective, direction: Arrays, other: Estimate) -> Estimate:
    """The best of plain differences over the smallest steps, whose error is what half the step changes."""
    function, rounding = _along(objective, direction)
    estimates = []
    for step in (2.0**-k for k in (24, 27, 30, 33, 36, 39)):
        wide, narrow = ((function(h) - function(-h)) / (2 * h) for h in (step, step / 2))
        error = abs(wide - narrow) + 16 * rounding / step
        estimates.append(replace(other, value=narrow, error=error, step=step))
    return min(estimates, key=lambda one: one.error)


def _along(objective: Objective, direction: Arrays) -> tuple[Callable[[float], float], float]:
    """The objective along a direction, and the rounding error of one value."""

    def function(t: float) -> float:
        return objective._value({name: objective.point[name] + t * d for name, d in direction.items()})

    return function, float(np.finfo(np.float64).eps) * objective.magnitude


def _outputs(shipped: ir.Model, point: Arrays, targets: Sequence[str], parameters: Arrays) -> Arrays:
    """What the file gives at a point."""
    opened = shipped.clone()
    _set_parameters(opened, parameters)
    fed: dict[str, Array] = {}
    for node in list(opened.graph):
        for output in list(node.outputs):
            if output.name in parameters:  # a tensor that a node makes: the node is cut off
                value = ir.Value(name=output.name, type=ir.TensorType(ir.DataType.FLOAT), shape=output.shape)
                output.replace_all_uses_with(value)
                opened.graph.remove(node, safe=True)
                opened.graph.inputs.append(value)
                fed[output.name] = parameters[output.name]
    return Session(opened, memory_pattern=False).run({**point, **fed}, targets)


def _set_parameters(model: ir.Model, parameters: Arrays) -> None:
    initializers = model.graph.initializers
    for name, array in parameters.items():
        if name in initializers:
            initializers[name].const_value = ir.Tensor(array, name=name)


def _wide_runner(model: ir.Model) -> Runner:
    """Runs the model in float64."""
    wide = to_float64(model)
    try:
        return Session(wide, memory_pattern=False)
    except RuntimeFailureError:
        pass
    try:
        return Session(with_double_kernels(wide.clone()), memory_pattern=False)
    except RuntimeFailureError:
        return ReferenceSession(wide)


def _check(model: ir.Model) -> None:
    """`onnx.checker`, on the model with its large initializers as inputs: it takes no more than 2 GB."""
    model = model.clone()
    for value in list(model.graph.initializers.values()):
        if value.const_value is not None and value.const_value.nbytes > _GIVEN_BY_REFERENCE:
            model.graph.initializers.pop(value.name or "")
            model.graph.inputs.append(value)
    proto = ir.to_proto(model)
    assert isinstance(proto, onnx.ModelProto)
    onnx.checker.check_model(proto, full_check=True)


def _some(names: Any) -> str:
    listed = [f"'{name}'" for name in names]
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")
