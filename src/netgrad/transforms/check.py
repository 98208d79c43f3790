"""Is a gradient right? The gradient model of netgrad against central differences of the model itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir

from netgrad.core.errors import InvalidArgumentError
from netgrad.onnx.lowering.lower import TRAINING
from netgrad.onnx.read import ModelSource, load
from netgrad.onnx.rules.choices import Choices, GradientChoices, choices_of
from netgrad.onnx.view import Structure, all_names, operators_of
from netgrad.runtime.cut import values_at
from netgrad.runtime.differences import (
    Estimate,
    Objective,
    float_types,
    most_precise,
    random_direction,
    scale_of,
)
from netgrad.runtime.float64 import narrowed
from netgrad.runtime.sample import sample_inputs
from netgrad.runtime.tensors import dtype_name
from netgrad.transforms.grad import Gradient, differentiate
from netgrad.transforms.lower import lower
from netgrad.transforms.report import CheckReport as CheckReport
from netgrad.transforms.report import Entry, Verdict, Worst

TOLERANCES = {
    onnx_ir.DataType.DOUBLE: 1e-5,
    onnx_ir.DataType.FLOAT: 3e-4,
    onnx_ir.DataType.FLOAT16: 3e-2,
    onnx_ir.DataType.BFLOAT16: 0.2,
}
"""How far a gradient may be from the measured one, relative to its size, by the type it is computed in."""

_EPSILONS = {
    onnx_ir.DataType.DOUBLE: 2.0**-52,
    onnx_ir.DataType.FLOAT: 2.0**-23,
    onnx_ir.DataType.FLOAT16: 2.0**-10,
    onnx_ir.DataType.BFLOAT16: 2.0**-7,
}
"""Spacing of the numbers next to 1."""

_CANCELLED = 30.0
"""A gradient may be off by so many roundings of the terms that cancelled in it."""

_NOTHING = 1e-7
"""A derivative this small next to the objective's terms is as good as zero."""

_CLEAR = 10.0
"""A measurement whose error is more than this many tolerances decides nothing."""

Progress = Callable[[int, int, str], None]
"""Is told how many of how many names are done, and which one comes next."""


@dataclass(frozen=True)
class Problem:
    """One gradient to check: what `compare` works on.

    Attributes:
        model: The model that is measured.
        gradient: Its gradient model, with ``cotangent="input"``.
        inputs: Arrays for all inputs.
        cotangents: An array for each target, in the model's own types.
    """

    model: onnx_ir.Model
    gradient: Gradient
    inputs: Mapping[str, Any]
    cotangents: Mapping[str, np.ndarray[Any, Any]]


def check(
    model: ModelSource,
    inputs: Mapping[str, Any] | None = None,
    *,
    wrt: str | Iterable[str] | None = None,
    of: str | Sequence[str] | None = None,
    seed: int = 0,
    directions: int = 2,
    elements: int = 64,
    tolerance: float | None = None,
    gradients: GradientChoices | None = None,
    progress: Progress | None = None,
) -> CheckReport:
    """Check the gradient of ``of`` with respect to ``wrt`` against central differences.

    The objective is ``sum(of * cotangent)`` with a random cotangent. For every name in ``wrt`` the derivative
    along random directions is measured, and every single element if there are no more than ``elements``. The
    model is measured in float64 where that is possible (see `netgrad.runtime.differences`), and so is its
    gradient. If they disagree, the operators between are checked one by one to name the culprit.

    Args:
        model: A path, bytes, an `onnx.ModelProto` or an `onnx_ir.Model`; it is not changed.
        inputs: Arrays by input name; what is missing is made up (see `sample_inputs`).
        wrt: Inputs, initializers or inner values; by default every weight.
        of: One or several outputs; by default the only one.
        seed: Of everything random.
        directions: Random directions for each name.
        elements: The most elements of a tensor that are measured one by one. Of a larger tensor that
            disagrees along a direction, this many are.
        tolerance: How far a gradient may be from the measured one, relative to its size; by default by the
            type that it is computed in (`TOLERANCES`). What the measurement may be wrong by is granted too.
        gradients: See `netgrad.grad`. A function is checked like any rule. What is stopped or goes straight
            through is no derivative, so a check disagrees there, and names the operators.
        progress: Is told which name comes next.

    Returns:
        The report; `CheckReport.ok` is the answer.

    Raises:
        InvalidModelError: The model cannot be read.
        InvalidArgumentError: A name is unknown, inputs do not fit or cannot be made up, or the objective is
            not a finite number at them.
        UnsupportedOperatorError: The gradient cannot be built.
        RuntimeFailureError: ONNX Runtime cannot run the model or its gradient.
    """
    loaded = load(model)
    if any(node.domain == TRAINING for node in loaded.graph.all_nodes()):
        loaded = lower(loaded)  # else nothing could run it, to measure it
    choices = choices_of(gradients)
    problem = pose(loaded, inputs, wrt, of, seed, choices)
    report = compare(
        problem, seed=seed, directions=directions, elements=elements, tolerance=tolerance, progress=progress
    )
    if any(entry.verdict is Verdict.DISAGREE for entry in report.entries):
        from netgrad.transforms.localise import localise  # imports this module

        report = localise(problem, report, choices, seed=seed, tolerance=tolerance)
    return report


def pose(
    model: onnx_ir.Model,
    inputs: Mapping[str, Any] | None,
    wrt: str | Iterable[str] | None,
    of: str | Sequence[str] | None,
    seed: int,
    choices: Choices,
) -> Problem:
    """Build the gradient model, and make up inputs and cotangents."""
    gradient = differentiate(model, wrt=wrt, of=of, cotangent="input", choices=choices)
    names = [*gradient.outputs, *gradient.seeds]
    for name in names:
        structure = gradient.rules.types[name].structure
        if structure is not Structure.TENSOR:
            raise InvalidArgumentError(
                f"'{name}' is a {structure.value}, and `check` measures by and of tensors",
                hint="check a model that makes the sequence of tensors that it takes (SequenceConstruct) and "
                "that gives a tensor of all that a sequence holds (ConcatFromSequence)",
            )
    feeds = sample_inputs(model, inputs, seed=seed)
    if not set(names) <= all_names(model.graph):
        # names that only the prepared form has; its forward part is then what is measured
        model = gradient.model
    rng = np.random.default_rng([seed, 1])
    cotangents = {}
    for name, value in values_at(model, feeds, gradient.seeds).items():
        if not np.isfinite(value.astype(np.float64)).all():
            raise InvalidArgumentError(
                f"'{name}' is not finite at the {'given' if inputs else 'made-up'} inputs, so there is no "
                "derivative to check",
                hint="give inputs for which the model is defined",
            )
        cotangents[name] = np.round(rng.standard_normal(value.shape), 2).astype(value.dtype)
    return Problem(model, gradient, feeds, cotangents)


def compare(
    problem: Problem,
    *,
    seed: int = 0,
    directions: int = 2,
    elements: int = 64,
    tolerance: float | None = None,
    progress: Progress | None = None,
    anywhere: bool = False,
) -> CheckReport:
    """Run the gradient model, measure the model, and say for each name whether they agree.

    Args:
        problem: The gradient.
        seed: See `check`.
        directions: See `check`.
        elements: See `check`.
        tolerance: See `check`.
        progress: See `check`.
        anywhere: Whether a gradient model that ONNX Runtime cannot run is run by the reference evaluator, as
            is right for a model that it cannot run either.
    """
    gradient = problem.gradient
    seeds = {gradient.seeds[name]: array for name, array in problem.cotangents.items()}
    wanted = list(gradient.outputs.values())
    found = most_precise(gradient.model, {**problem.inputs, **seeds}, wanted)
    if found.failure is not None and not anywhere:
        raise found.failure  # a gradient that cannot be run is no right gradient
    names = list(gradient.outputs)
    objectives = _objectives(problem, names)
    objective = objectives[names[0]]
    types = float_types(gradient.model)
    if found.precision == "float64":
        inner = [*names, *gradient.seeds.values()]
        # some operators are float32 by definition, in a float64 model too
        types = {onnx_ir.DataType.FLOAT if narrowed(found.model, inner) else onnx_ir.DataType.DOUBLE}
    if tolerance is None:
        tolerance = max((TOLERANCES[dtype] for dtype in types), default=0.0)
    epsilon = max((_EPSILONS[dtype] for dtype in types), default=0.0)
    entries = []
    for done, name in enumerate(names):
        if progress is not None:
            progress(done, len(names), name)
        array = np.asarray(found.results[gradient.outputs[name]])
        dtype = onnx_ir.DataType.from_numpy(values_at(problem.model, problem.inputs, [name])[name].dtype)
        rng = np.random.default_rng([seed, 2, done])
        measure = _Measure(objectives[name], tolerance, epsilon, directions, elements)
        entries.append(measure.entry(name, dtype_name(dtype), array, rng))
    return CheckReport(
        of=tuple(gradient.seeds),
        entries=tuple(entries),
        culprits=(),
        note="",
        precision=objective.precision,
        engine=objective.engine,
        gradient_precision=found.precision,
        tolerance=tolerance,
    )


def _objectives(problem: Problem, names: Sequence[str]) -> dict[str, Objective]:
    """What to measure each name by.

    A value that is varied is cut off from what computes it. So names that depend on others have an objective
    each, and all the others one together.
    """
    wanted = set(names)
    dependent: set[str] = set()
    for op in operators_of(problem.model.graph):
        if any(name in wanted or name in dependent for name in op.inputs):
            dependent.update(op.outputs)

    def objective(wrt: Sequence[str]) -> Objective:
        return Objective(problem.model, problem.inputs, problem.cotangents, wrt)

    free = [name for name in names if name not in dependent]
    found = dict.fromkeys(free, objective(free)) if free else {}
    return {name: found[name] if name in found else objective([name]) for name in names}


@dataclass(frozen=True)
class _Measure:
    """How the gradient by one name is compared with measurements.

    Sizes and errors of derivatives are per step of ``unit``: the typical size of the name's elements for an
    element, 1 for a direction, which has that size in it.

    Attributes:
        objective: What is measured.
        tolerance: The relative difference that is allowed.
        epsilon: Spacing of the type that the gradient is computed in.
        directions: Random directions for each name.
        elements: The most elements that are measured one by one.
    """

    objective: Objective
    tolerance: float
    epsilon: float
    directions: int
    elements: int

    def entry(self, name: str, dtype: str, gradient: np.ndarray[Any, Any], rng: np.random.Generator) -> Entry:
        """Compare along random directions, and elements where they are few or something is wrong."""
        point = self.objective.point[name]
        wide = gradient.astype(np.float64)
        if wide.shape != point.shape or not np.isfinite(wide).all():
            what = (
                f"shape {list(wide.shape)}" if wide.shape != point.shape else "elements that are not finite"
            )
            return Entry(
                name, point.shape, dtype, Verdict.DISAGREE, np.inf, 0, None, f"the gradient has {what}"
            )
        verdicts, errors = [], []
        for _ in range(self.directions if point.size else 0):
            direction = random_direction(point, rng)
            products = wide * direction
            size = float(np.sqrt(np.sum(products**2)))
            estimate = self.objective.along({name: direction}, target=0.1 * self._allowed(size, 1.0))
            verdicts.append(self._verdict(float(products.sum()), estimate, size, 1.0))
            errors.append(self._relative(float(products.sum()), estimate, size, 1.0))
        worst, checked = None, 0
        if point.size <= self.elements or Verdict.DISAGREE in verdicts:
            worst, checked, more = self._elements(name, wide, rng)
            verdicts += more
            if worst is not None:
                errors.append(worst.error)
        return Entry(
            name, point.shape, dtype, _overall(verdicts), max(errors, default=0.0), checked, worst, ""
        )

    def _elements(
        self, name: str, gradient: np.ndarray[Any, Any], rng: np.random.Generator
    ) -> tuple[Worst | None, int, list[Verdict]]:
        """Compare elements: all, or where they are many, half the largest gradients and half at random."""
        count = gradient.size
        chosen = np.arange(count)
        if count > self.elements:
            largest = np.argsort(-np.abs(gradient).reshape(-1), kind="stable")[: self.elements // 2]
            others = np.setdiff1d(chosen, largest)
            chosen = np.concatenate(
                [largest, rng.choice(others, self.elements - len(largest), replace=False)]
            )
        typical = float(np.sqrt(np.mean(gradient**2))) if count else 0.0
        unit = scale_of(self.objective.point[name])
        worst: Worst | None = None
        verdicts = []
        for flat in chosen:
            index = tuple(int(i) for i in np.unravel_index(int(flat), gradient.shape))
            size = max(abs(float(gradient[index])), typical)
            estimate = self.objective.element(name, index, target=0.1 * self._allowed(size, unit))
            verdict = self._verdict(float(gradient[index]), estimate, size, unit)
            verdicts.append(verdict)
            error = self._relative(float(gradient[index]), estimate, size, unit)
            if verdict is not Verdict.KINK and (worst is None or error > worst.error):
                worst = Worst(index, float(gradient[index]), estimate.value, error)
        return worst, len(chosen), verdicts

    def _allowed(self, size: float, unit: float) -> float:
        """How far a gradient of ``size`` may be off."""
        return self.tolerance * size + _CANCELLED * self.epsilon * self.objective.norm / unit

    def _verdict(self, gradient: float, estimate: Estimate, size: float, unit: float) -> Verdict:
        if not np.isfinite(estimate.error):
            return Verdict.UNCLEAR
        if abs(gradient - estimate.value) > self._allowed(size, unit) + 2 * estimate.error:
            return Verdict.DISAGREE
        nothing = max(_NOTHING * self.objective.norm, 1000 * self.objective.rounding) / unit
        if estimate.error <= _CLEAR * self._allowed(size, unit) or max(size, estimate.error) <= nothing:
            return Verdict.AGREE
        return Verdict.KINK if estimate.kink else Verdict.UNCLEAR

    def _relative(self, gradient: float, estimate: Estimate, size: float, unit: float) -> float:
        """The difference as a part of ``size``, as far as rounding and measurement do not explain it."""
        granted = self._allowed(0.0, unit) + estimate.error
        difference = max(0.0, abs(gradient - estimate.value) - granted)
        if difference == 0.0:
            return 0.0
        return difference / size if size and np.isfinite(difference) else float("inf")


def _overall(verdicts: Sequence[Verdict]) -> Verdict:
    for verdict in (Verdict.DISAGREE, Verdict.UNCLEAR, Verdict.KINK):
        if verdict in verdicts:
            return verdict
    return Verdict.AGREE
