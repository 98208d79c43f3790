"""The one gradient test, over every row of the table."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import pytest

from tests.onnx.rules import cases
from tests.onnx.rules.table import (
    TOLERANCE,
    Arrays,
    Case,
    Runner,
    build,
    central_differences,
    disagreement,
    feeds,
    forward_runner,
    gradient_model,
    random_cotangents,
    run_gradient,
    runner,
    targets,
)


def _rows() -> list[Case]:
    rows: list[Case] = []
    for module in pkgutil.iter_modules(cases.__path__):
        rows += importlib.import_module(f"{cases.__name__}.{module.name}").CASES
    return rows


ROWS = _rows()
DIFFERENTIABLE = [row for row in ROWS if row.expected is None]
KINKS = [row for row in ROWS if row.expected is not None]


def _by_id(rows: Sequence[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", rows, ids=lambda row: row.id)


def _names(case: Case) -> list[str]:
    return [f"x{k}" for k in case.wrt_positions]


def _compare(case: Case, want: Arrays, got: Arrays, point: Arrays, dtype: str) -> None:
    for name, expected in want.items():
        assert got[name].dtype == point[name].dtype, f"{name}: {got[name].dtype}"
        wrong = disagreement(expected, got[name], TOLERANCE[dtype])
        assert not wrong, f"{case.type}, gradient of input {name}: {wrong}"


def test_rows_have_names_of_their_own() -> None:
    ids = [row.id for row in ROWS]
    assert len(set(ids)) == len(ids), sorted({name for name in ids if ids.count(name) > 1})


@_by_id(DIFFERENTIABLE)
def test_gradient_agrees_with_central_differences(case: Case) -> None:
    """Static shapes, random cotangent: in float64 where the operators exist, then in float32."""
    model, point = build(case), feeds(case)
    forward = forward_runner(case, model)
    outputs = forward(point)
    of, wrt = targets(case, outputs), _names(case)
    cotangents = random_cotangents(case, outputs, of)
    want = central_differences(forward, point, cotangents, wrt)
    # Such a row is there for shapes and for NaN.
    empty = any(array.size == 0 for array in [*point.values(), *outputs.values()])
    assert case.gradient_dtype == "float32" or any(np.any(g) for g in want.values()) or not wrt or empty, (
        "every difference is zero: the row cannot fail"
    )
    if case.gradient_dtype == "float64":
        got = run_gradient(gradient_model(model, wrt, of), point, cotangents, "float64")
        _compare(case, want, got, point, "float64")
    single = feeds(case, "float32")
    got = run_gradient(gradient_model(build(case, dtype="float32"), wrt, of), single, cotangents, "float32")
    _compare(case, want, got, single, "float32")


@_by_id([row for row in DIFFERENTIABLE if row.symbolic])
def test_gradient_with_symbolic_dims_is_the_same(case: Case) -> None:
    """Every dim unknown until the model runs."""
    dtype = case.gradient_dtype
    point, model = feeds(case, dtype), build(case, dtype=dtype)
    outputs = runner(model)(point)
    of, wrt = targets(case, outputs), _names(case)
    cotangents = random_cotangents(case, outputs, of)
    static = run_gradient(gradient_model(model, wrt, of), point, cotangents, dtype)
    free = build(case, symbolic=True, dtype=dtype)
    symbolic = run_gradient(gradient_model(free, wrt, of), point, cotangents, dtype)
    _compare(case, static, symbolic, point, dtype)


@_by_id(
    [
        row
        for row in DIFFERENTIABLE
        if row.fan_out and {0, 1} <= set(row.wrt_positions) and row.arrays()[0].shape == row.arrays()[1].shape
    ]
)
def test_same_value_fed_twice(case: Case) -> None:
    """Both inputs are one value: the two contributions add up."""
    model, point = build(case, shared=True), feeds(case, shared=True)
    forward = runner(model)
    outputs = forward(point)
    of = targets(case, outputs)
    cotangents = random_cotangents(case, outputs, of)
    want = central_differences(forward, point, cotangents, ["x0"])
    got = run_gradient(gradient_model(model, ["x0"], of), point, cotangents, "float64")
    _compare(case, want, got, point, "float64")


@_by_id([row for row in DIFFERENTIABLE if row.second_order and row.gradient_dtype == "float64"])
def test_second_order_agrees_with_central_differences_of_the_gradient(case: Case) -> None:
    model, point = build(case), feeds(case)
    outputs = runner(model)(point)
    of, wrt = targets(case, outputs), _names(case)
    first = gradient_model(model, wrt, of)
    proto = ir.to_proto(first.model)
    point = {**point, **{first.seeds[k]: c for k, c in random_cotangents(case, outputs, of).items()}}
    point = {value.name: point[value.name] for value in proto.graph.input}
    gradients = [first.outputs[name] for name in wrt]
    run = runner(proto)
    cotangents = random_cotangents(case, run(point), gradients)
    again = [*(name for name in wrt if name in point), *first.seeds.values()]
    want = central_differences(run, point, cotangents, again)
    got = run_gradient(gradient_model(first.model, again, gradients), point, cotangents, "float64")
    _compare(case, want, got, point, "float64")


def _mixed_differences(
    forward: Runner, point: Arrays, cotangents: Arrays, direction: Arrays, wrt: Sequence[str]
) -> tuple[Arrays, Arrays]:
    """Gradients, by inputs and by cotangents, of the slope of sum(output * cotangent) in a direction."""

    def along(arrays: Arrays, step: float) -> Arrays:
        moved = {name: arrays[name] + step * array for name, array in direction.items()}
        return forward({**arrays, **moved})

    def slopes(arrays: Arrays) -> Arrays:
        results = {}
        for name in cotangents:
            coarse, fine = (
                (along(arrays, step)[name] - along(arrays, -step)[name]) / (2 * step) for step in (2e-3, 1e-3)
            )
            results[name] = np.asarray((4 * fine - coarse) / 3)
        return results

    return central_differences(slopes, point, cotangents, wrt), slopes(point)


@_by_id(
    [row for row in DIFFERENTIABLE if row.second_order and row.gradient_dtype == "float32" and row.forward]
)
def test_second_order_in_float32_agrees_with_differences_of_the_forward(case: Case) -> None:
    """Where the gradient exists in float32 only: second differences of the row's forward in float64."""
    forward, point = forward_runner(case, build(case)), feeds(case)
    outputs = forward(point)
    of, wrt = targets(case, outputs), _names(case)
    cotangents = random_cotangents(case, outputs, of)
    direction = random_cotangents(case, point, wrt)
    by_input, by_cotangent = _mixed_differences(forward, point, cotangents, direction, wrt)

    first = gradient_model(build(case, dtype="float32"), wrt, of)
    seeds = {first.seeds[name]: array.astype(np.float32) for name, array in cotangents.items()}
    single = {**feeds(case, "float32"), **seeds}
    second = gradient_model(first.model, [*wrt, *seeds], [first.outputs[name] for name in wrt])
    weights = {first.outputs[name]: direction[name] for name in wrt}
    got = run_gradient(second, single, weights, "float32")
    want = {**by_input, **{first.seeds[name]: array for name, array in by_cotangent.items()}}
    _compare(case, want, got, single, "float32")


@_by_id(KINKS)
def test_kinks_follow_the_convention(case: Case) -> None:
    """At points without a derivative: the documented choice, for a cotangent of ones."""
    dtype = case.gradient_dtype
    model, point = build(case, dtype=dtype), feeds(case, dtype)
    outputs = runner(model)(point)
    of, wrt = targets(case, outputs), _names(case)
    cotangents = {name: np.ones(outputs[name].shape) for name in of}
    got = run_gradient(gradient_model(model, wrt, of), point, cotangents, dtype)
    want = {name: np.asarray(g, np.float64) for name, g in zip(wrt, case.expected or (), strict=True)}
    _compare(case, want, got, point, dtype)
