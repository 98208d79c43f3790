"""Derivatives measured by central differences, each with an estimate of its own error.

The objective is ``sum(output * cotangent)`` over some outputs of a model. A difference quotient is wrong by
truncation (a step too large), by rounding (a step too small) and by kinks (a step across the corner of a
Relu); an `Estimate` says how wrong it may be, so that a wrong gradient can be told from a bad measurement.

Precision: the model is computed in float64, by ONNX Runtime if that has all kernels (convolutions are written
as products of matrices for it), else by the reference evaluator, provided this agrees with ONNX Runtime about
the model as it is; else as it is, with larger steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import onnx_ir

from netgrad.core.errors import RuntimeFailureError
from netgrad.onnx.edit import all_values
from netgrad.onnx.read import ModelSource, load
from netgrad.onnx.view import FLOATING
from netgrad.runtime.cut import cut, values_at
from netgrad.runtime.double_kernels import with_double_kernels
from netgrad.runtime.float64 import narrowed, to_float64
from netgrad.runtime.reference import ReferenceSession
from netgrad.runtime.session import Session
from netgrad.runtime.tensors import TensorSpec, fit_inputs, spec_of

_SAFETY = 4.0
"""Rounding of four function values goes into one quotient."""

_SHRINK = 2.0**-4
"""From one step to the next smaller one."""

_AGREEMENT = {
    onnx_ir.DataType.DOUBLE: 1e-6,
    onnx_ir.DataType.FLOAT: 1e-3,
    onnx_ir.DataType.FLOAT16: 5e-2,
    onnx_ir.DataType.BFLOAT16: 0.2,
}
"""How far, relative to the largest element, float64 and the model's own precision may be apart."""


_ENGINES = ("ONNX Runtime", "ONNX Runtime, with convolutions as products", "ONNX reference evaluator")


class Runner(Protocol):
    """What runs a model: `Session` or `ReferenceSession`."""

    @property
    def inputs(self) -> dict[str, TensorSpec]:
        """What it takes."""

    @property
    def outputs(self) -> dict[str, TensorSpec]:
        """What it gives."""

    def run(self, inputs: Mapping[str, Any], outputs: Iterable[str] | None = None) -> dict[str, Any]:
        """Run once."""


@dataclass(frozen=True)
class Estimate:
    """A measured derivative.

    Attributes:
        value: The derivative.
        error: How far from ``value`` the derivative may be; infinite where nothing finite was measured.
        left: The slope just before the point.
        right: The slope just after it.
        step: The step that was used.
        kink: The slopes before and after differ by more than curvature and rounding explain: the objective
            has a corner here, and every number between ``left`` and ``right`` is as good a derivative.
    """

    value: float
    error: float
    left: float
    right: float
    step: float
    kink: bool


def derivative(
    function: Callable[[float], float], *, rounding: float, target: float, largest: float
) -> Estimate:
    """Measure the derivative of ``function`` at 0.

    Central differences over h and h/2 with Richardson's extrapolation (Ridders 1982), for smaller and smaller
    h until the error estimate is below ``target`` or rounding takes over; the best is returned. The error
    estimate adds: the change by extrapolation; half of what the slopes left and right differ by beyond
    curvature (which halves with h, while a corner's difference stays); rounding over h. Where the function
    jumps, its differences do not become smaller with h, and nothing is measured.

    Args:
        function: A function of one number; it gives NaN where it has no value.
        rounding: Absolute rounding error of one value of ``function``.
        target: An error that is small enough.
        largest: The first h.
    """
    middle = function(0.0)
    best = Estimate(np.nan, np.inf, np.nan, np.nan, largest, False)
    step = largest
    while True:
        noise = _SAFETY * rounding / step
        if noise >= best.error:
            return best
        after, before, after_half, before_half = (function(t * step) for t in (1.0, -1.0, 0.5, -0.5))
        wide = (after - before) / (2 * step)
        narrow = (after_half - before_half) / step
        right, left = (after_half - middle) / (step / 2), (middle - before_half) / (step / 2)
        bend = abs(2 * (right - left) - (after + before - 2 * middle) / step)
        value = (4 * narrow - wide) / 3
        jump = abs(after_half - before_half) > max(0.75 * abs(after - before), _SAFETY * rounding)
        error = np.inf if jump else abs(value - narrow) + bend / 2 + noise
        if error < best.error:
            kink = error > target and bend > 4 * noise and bend > 0.5 * abs(right - left)
            best = Estimate(value, error, left, right, step, kink)
        if best.error <= target or step < np.finfo(np.float64).eps:
            return best
        step *= _SHRINK


class Objective:
    """``sum(output * cotangent)`` of a model as a function of some of its values.

    Attributes:
        precision: The type that the objective is computed in: ``"float64"`` or ``"the model's own"``.
        engine: What computes it: ``"ONNX Runtime"`` or ``"ONNX reference evaluator"``.
        point: The arrays at which derivatives are measured, by name.
        magnitude: Sum of the absolute values of all terms of the objective, at the point.
        norm: Square root of the sum of their squares.
        rounding: Absolute rounding error of one value of the objective.
    """

    def __init__(
        self,
        model: ModelSource,
        inputs: Mapping[str, Any],
        cotangents: Mapping[str, np.ndarray[Any, Any]],
        wrt: Sequence[str],
    ) -> None:
        """Find the most precise way to compute the objective.

        Args:
            model: The model; it is not changed.
            inputs: The model's inputs.
            cotangents: For each output that counts, an array of its shape.
            wrt: Values that will be varied: inputs, initializers, or outputs of operators, which are then cut
                off from what computes them, so that a name before them loses its influence through them.

        Raises:
            InvalidArgumentError: Inputs that do not fit, or unknown names.
            RuntimeFailureError: No way to compute the objective works, or it gives other values each time (a
                model that draws random numbers).
        """
        loaded = load(model)
        point = values_at(loaded, inputs, wrt)
        opened = cut(loaded, wrt, cotangents)
        specs = {v.name or "": spec_of(v, v.name in opened.graph.initializers) for v in opened.graph.inputs}
        # in the model's own types first, so that all runners are given the very same point
        feeds = fit_inputs(
            {name: array for name, array in {**inputs, **point}.items() if name in specs}, specs
        )
        self._cotangents = {name: np.asarray(array, np.float64) for name, array in cotangents.items()}
        found = most_precise(opened, feeds, list(cotangents))
        self._runner, self.engine, self.precision = found.runner, found.engine, found.precision
        wide = self.precision == "float64"
        # float32 in the middle makes steps that are too wide for neighbouring points to show them
        double = wide and not narrowed(found.model, wrt)
        self._epsilon = float(np.finfo(np.float64 if double else np.float32).eps)
        self._feeds = {name: widened(value) if wide else value for name, value in feeds.items()}
        self.point = {name: np.asarray(self._feeds[name]) for name in wrt}
        terms = self._terms(self._feeds)
        self.magnitude = float(sum(np.abs(term).sum() for term in terms.values()))
        self.norm = float(np.sqrt(sum(np.square(term).sum() for term in terms.values())))
        self.rounding = self._measure_rounding()
        if any(not np.array_equal(a, terms[n], equal_nan=True) for n, a in self._terms(self._feeds).items()):
            raise RuntimeFailureError(
                "the model gives other values each time it runs, so that its derivatives cannot be measured",
                hint="set its random operators to inference mode, or give them a seed",
            )

    def along(self, direction: Mapping[str, np.ndarray[Any, Any]], *, target: float = 0.0) -> Estimate:
        """The derivative along ``direction``, an array for each varied name, at the point."""
        moving = {name: np.asarray(array, np.float64) for name, array in direction.items()}

        def function(t: float) -> float:
            return self._value({name: self.point[name] + t * array for name, array in moving.items()})

        # truncation grows with h^4, rounding with 1/h
        largest = min(2.0**-5, max(self._relative_rounding, 1e-17) ** 0.2)
        return derivative(function, rounding=self.rounding, target=target, largest=largest)

    def element(self, name: str, index: tuple[int, ...], *, target: float = 0.0) -> Estimate:
        """The partial derivative by one element of ``name``, at the point."""
        scale = scale_of(self.point[name])
        direction = np.zeros(self.point[name].shape)
        direction[index] = scale
        found = self.along({name: direction}, target=target * scale)
        return Estimate(
            found.value / scale,
            found.error / scale,
            found.left / scale,
            found.right / scale,
            found.step * scale,
            found.kink,
        )

    @property
    def _relative_rounding(self) -> float:
        return self.rounding / self.magnitude if self.magnitude else 0.0

    def _terms(self, feeds: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
        results = self._runner.run(feeds, list(self._cotangents))
        terms = {}
        for name, cotangent in self._cotangents.items():
            array = np.asarray(results[name], np.float64)
            # a Range or Unique whose output changes its length has no value next to the point
            terms[name] = array * cotangent if array.shape == cotangent.shape else np.full((), np.nan)
        return terms

    def _value(self, moved: Mapping[str, np.ndarray[Any, Any]]) -> float:
        cast = {name: array.astype(self.point[name].dtype) for name, array in moved.items()}
        return float(sum(term.sum() for term in self._terms({**self._feeds, **cast}).values()))

    def _measure_rounding(self) -> float:
        """Rounding error of one value, from third differences over points close together.

        A smooth function has none, so what remains is noise (Hamming's difference table; Moré and Wild,
        Estimating computational noise, 2011). At least one rounding of the largest partial sum.
        """
        rng = np.random.default_rng(0)
        direction = {name: random_direction(array, rng) for name, array in self.point.items()}
        spacing = np.sqrt(self._epsilon)
        values = [
            self._value({name: self.point[name] + k * spacing * d for name, d in direction.items()})
            for k in range(7)
        ]
        third = np.diff(values, 3)
        third = third[np.isfinite(third)]
        measured = float(np.sqrt(np.mean(third**2) / 20)) if third.size else 0.0  # 20 = C(6, 3)
        return max(measured, self._epsilon * self.magnitude)


def random_direction(array: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Normal numbers in the shape of ``array``, as large as its elements are."""
    return np.asarray(rng.standard_normal(array.shape)) * scale_of(array)


def scale_of(array: np.ndarray[Any, Any]) -> float:
    """Root mean square of the elements, kept within 1e-3 and 1e3; 1 where they are all zero or none."""
    if not array.size:
        return 1.0
    size = float(np.sqrt(np.mean(np.square(array.astype(np.float64)))))
    return float(np.clip(size, 1e-3, 1e3)) if size > 0 else 1.0


@dataclass(frozen=True)
class Precise:
    """The most precise way to run a model that was found.

    Attributes:
        runner: Runs it.
        engine: ``"ONNX Runtime"`` or ``"ONNX reference evaluator"``.
        precision: ``"float64"`` or ``"the model's own"``.
        model: The model in that precision.
        results: The outputs asked for, by name.
        failure: Why ONNX Runtime cannot run the model as it is; None if it can.
    """

    runner: Runner
    engine: str
    precision: str
    model: onnx_ir.Model
    results: dict[str, Any]
    failure: RuntimeFailureError | None = None


def most_precise(model: onnx_ir.Model, feeds: Mapping[str, Any], outputs: Sequence[str]) -> Precise:
    """Run ``model`` as precisely as possible.

    float64 counts only where its results agree with those of ONNX Runtime on the model as it is.

    Args:
        model: The model; it is not changed.
        feeds: Inputs in the model's own types.
        outputs: Names of the outputs to compare and to return.

    Raises:
        RuntimeFailureError: Neither ONNX Runtime nor the reference evaluator can run the model.
    """
    native: Precise | None = None
    failure: RuntimeFailureError | None = None
    try:
        session = Session(model, memory_pattern=False)
        results = session.run(feeds, outputs)
        native = Precise(session, _ENGINES[0], "the model's own", model, results)
    except RuntimeFailureError as error:
        failure = error
    margin = max((_AGREEMENT[dtype] for dtype in float_types(model)), default=0.0)
    wide_model = to_float64(model)
    wide_feeds = {name: widened(value) for name, value in feeds.items()}
    _fix_shapes(wide_model, wide_feeds)
    makers: tuple[Callable[[], Runner], ...] = (
        lambda: Session(wide_model, memory_pattern=False),
        lambda: Session(with_double_kernels(wide_model.clone()), memory_pattern=False),
        lambda: ReferenceSession(wide_model),
    )
    for engine, make in zip(_ENGINES, makers, strict=True):
        try:
            runner = make()
            results = runner.run(wide_feeds, outputs)
        except RuntimeFailureError:
            continue
        if native is None or _agree(results, native.results, margin):
            return Precise(runner, engine, "float64", wide_model, results, failure)
    if native is None:
        assert failure is not None, "a model that gave no results failed"
        raise failure
    return native


def _fix_shapes(model: onnx_ir.Model, feeds: Mapping[str, Any]) -> None:
    """Give the inputs, in place, the shapes that they are fed with: known sizes make short forms."""
    for value in model.graph.inputs:
        array = feeds.get(value.name or "")
        if isinstance(array, np.ndarray):
            value.shape = onnx_ir.Shape(array.shape)


def _agree(wide: Mapping[str, Any], narrow: Mapping[str, Any], margin: float) -> bool:
    """Whether all results are the same up to ``margin`` times the largest element of each.

    A hundredth of that is granted relative to the largest element of all, for what cancelled to zero.
    """
    pairs = [(np.asarray(wide[name], np.float64), np.asarray(narrow[name], np.float64)) for name in narrow]
    overall = max((_largest(b) for _, b in pairs), default=0.0)
    for a, b in pairs:
        if a.shape != b.shape or not np.array_equal(np.isnan(a), np.isnan(b)):
            return False
        finite = np.isfinite(a) & np.isfinite(b)
        allowed = margin * (_largest(b) + 1e-2 * overall) + 1e-12
        if not (np.abs(a[finite] - b[finite]) <= allowed).all():
            return False
    return True


def _largest(array: np.ndarray[Any, Any]) -> float:
    """The largest finite absolute value; 0 where there is none."""
    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0))


def float_types(model: onnx_ir.Model) -> set[onnx_ir.DataType]:
    """The floating-point types that inputs, initializers and typed values of ``model`` have."""
    return {value.dtype for value in all_values(model) if value.dtype in FLOATING}


def widened(value: Any) -> Any:
    """Floating-point arrays in float64, anything else as it is; sequences element by element."""
    if isinstance(value, list) and any(isinstance(item, np.ndarray) for item in value):
        return [widened(item) for item in value]
    array = np.asarray(value)
    is_float = array.dtype.kind == "f" or (array.dtype.kind == "V" and "float" in array.dtype.name)
    return array.astype(np.float64) if is_float else array
