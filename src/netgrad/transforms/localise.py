"""Which operator makes a gradient wrong: each one on the path by itself, then the values between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir

from netgrad.core.errors import NetgradError
from netgrad.core.operator import Operator
from netgrad.onnx.rules.choices import Choices
from netgrad.onnx.view import FLOATING, Structure, captured_values, operator_of, structure_of
from netgrad.runtime.cut import cut, values_at
from netgrad.transforms.check import Problem, compare, pose
from netgrad.transforms.grad import Gradient, differentiate
from netgrad.transforms.report import CheckReport, Culprit, Verdict

_ENOUGH = 5
"""Culprits after which the search ends: one wrong rule is usually used many times."""


def localise(
    problem: Problem,
    report: CheckReport,
    choices: Choices,
    *,
    seed: int,
    tolerance: float | None,
) -> CheckReport:
    """Add to ``report`` which operators make the gradient wrong.

    Every operator between the names that disagree and the targets becomes a model of its own, whose gradient
    is checked at the values that its inputs have in the whole model. If all are right by themselves, the
    gradients of the values between them are checked from the targets backwards, and the first wrong one is
    named: then contributions are added up wrongly, or get lost.

    Args:
        problem: What was checked.
        report: Its result.
        choices: What the caller chose for single operators.
        seed: Of everything random.
        tolerance: See `check`.
    """
    wrong = [entry.name for entry in report.entries if entry.verdict is Verdict.DISAGREE]
    forward = _forward(problem.gradient)
    active = _active(forward, wrong, set(problem.gradient.seeds))
    culprits: list[Culprit] = []
    tried = [node for node in forward if any(value.name in active for value in node.outputs)]
    names = {name for node in tried for name in operator_of(node).inputs if name}
    arrays = values_at(problem.gradient.model, _all_inputs(problem), sorted(names))
    for node in tried:
        culprits += _alone(problem, node, arrays, active, choices, seed, tolerance)
        if len(culprits) >= _ENOUGH:
            return replace(report, culprits=tuple(culprits), note="the search ended here; there may be more")
    note = "" if culprits else _between(problem, forward, active, choices, seed, tolerance)
    return replace(report, culprits=tuple(culprits), note=note)


def _forward(gradient: Gradient) -> list[onnx_ir.Node]:
    """The forward nodes within the gradient model, in order."""
    written = {name for op in gradient.forward for name in op.outputs if name}
    return [node for node in gradient.model.graph if any(value.name in written for value in node.outputs)]


def _active(forward: list[onnx_ir.Node], sources: list[str], targets: set[str]) -> set[str]:
    """Names of the floating-point tensors between ``sources`` and ``targets``, both included.

    A value on the way that is no tensor, a sequence, is looked through.
    """
    reached = set(sources)
    for node in forward:
        if any(value is not None and value.name in reached for value in _read(node)):
            reached.update(value.name for value in node.outputs if value.name and _is_float(value))
    needed = set(targets)
    for node in reversed(forward):
        if any(value.name in needed for value in node.outputs):
            needed.update(value.name for value in _read(node) if value is not None and value.name)
    values = (value for node in forward for value in (*_read(node), *node.outputs))
    others = {v.name for v in values if v is not None and structure_of(v.type) is not Structure.TENSOR}
    return (reached & needed) - others


def _read(node: onnx_ir.Node) -> Iterator[onnx_ir.Value | None]:
    yield from node.inputs
    yield from captured_values(node)


def _is_float(value: onnx_ir.Value) -> bool:
    return value.dtype is None or value.dtype in FLOATING


def _alone(
    problem: Problem,
    node: onnx_ir.Node,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    active: set[str],
    choices: Choices,
    seed: int,
    tolerance: float | None,
) -> list[Culprit]:
    """The inputs of ``node`` for which its gradient is wrong by itself."""
    op = operator_of(node)
    targets = [name for name in op.outputs if name in active]
    wrt = [name for name in dict.fromkeys(op.inputs) if name in active]
    if not wrt or not targets:
        return []
    try:
        single = _single(problem.gradient.model, node, arrays, set(wrt))
        feeds = {value.name or "": arrays[value.name or ""] for value in single.graph.inputs}
        posed = pose(single, feeds, wrt, targets, seed, choices.within(op))
        found = compare(posed, seed=seed, tolerance=tolerance)
    except NetgradError:
        return []  # what cannot be tried by itself is left to the search between the operators
    declared = problem.gradient.rules.declaration(op)
    rule = "" if declared is None else declared.source
    return [
        Culprit(op.type, op.name, rule, entry.name, op.inputs.index(entry.name), entry.error, entry.worst)
        for entry in found.entries
        if entry.verdict is Verdict.DISAGREE
    ]


def _all_inputs(problem: Problem) -> Mapping[str, Any]:
    """Everything that the gradient model takes."""
    seeds = {problem.gradient.seeds[name]: array for name, array in problem.cotangents.items()}
    return {**problem.inputs, **seeds}


def _single(
    model: onnx_ir.Model, node: onnx_ir.Node, arrays: Mapping[str, np.ndarray[Any, Any]], fed: set[str]
) -> onnx_ir.Model:
    """A model of ``node`` alone; what is not in ``fed`` and constant in ``model`` stays constant."""
    sources = [
        value.name
        for value in dict.fromkeys(_read(node))
        if value is not None and value.name
        if value.name in fed or value.producer() is not None or value.is_graph_input()
    ]
    single = cut(model, sources, [value.name for value in node.outputs if value.name])
    for value in single.graph.inputs:
        if structure_of(value.type) is Structure.TENSOR:
            value.shape = onnx_ir.Shape(arrays[value.name or ""].shape)
    return single


def _between(
    problem: Problem,
    forward: list[onnx_ir.Node],
    active: set[str],
    choices: Choices,
    seed: int,
    tolerance: float | None,
) -> str:
    """A line about the last value, in forward order, whose gradient is wrong."""
    targets = list(problem.gradient.seeds)
    for node in reversed(forward):
        op = operator_of(node)
        names = [name for name in dict.fromkeys(op.inputs) if name in active]
        if not names or not any(name in active for name in op.outputs):
            continue
        try:
            gradient = differentiate(problem.model, wrt=names, of=targets, cotangent="input", choices=choices)
            found = compare(replace(problem, gradient=gradient), seed=seed, tolerance=tolerance)
        except NetgradError:
            continue
        for entry in found.entries:
            if entry.verdict is Verdict.DISAGREE:
                return _accumulated(entry.name, op, forward)
    return "every operator's own gradient is right, and so are those of the values between them"


def _accumulated(name: str, op: Operator, forward: list[onnx_ir.Node]) -> str:
    readers = [node for node in forward if any(v is not None and v.name == name for v in _read(node))]
    listed = ", ".join(f"{node.op_type} '{node.name}'" for node in readers)
    return (
        f"every operator's own gradient is right, but that of '{name}', an input of {op.type} '{op.name}', "
        f"is wrong although those behind it are right: its {len(readers)} contributions are lost or added "
        f"up wrongly (readers: {listed})"
    )
