"""Gradients of random graphs of all operator families agree with central differences."""

from __future__ import annotations

import dataclasses
import functools

import pytest
from hypothesis import HealthCheck, assume, given, settings

from netgrad.onnx.rules.choices import Choices
from netgrad.onnx.rules.declaration import declarations
from netgrad.transforms.grad import differentiate
from tests.onnx.random_graphs import judge as judging
from tests.onnx.random_graphs.graphs import FEWEST, NEWEST, OLDEST, Recipe, build, recipes, sized
from tests.onnx.random_graphs.judge import Verdict, judge
from tests.onnx.random_graphs.makers import MAKERS

MOST_REJECTED = 0.01
"""Share of the derivatives that may lie too near to a corner to be measured."""


def test_gradients_of_random_graphs() -> None:
    verdicts: list[Verdict] = []

    @settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(recipes())
    def judged(recipe: Recipe) -> None:
        graph = sized(recipe)
        assume(graph.nodes >= FEWEST)
        verdict = judge(graph)
        assert not verdict.wrong, "\n".join(verdict.wrong)
        verdicts.append(verdict)

    judged()
    compared = sum(verdict.compared for verdict in verdicts)
    rejected = sum(verdict.rejected for verdict in verdicts)
    print(f"{len(verdicts)} graphs, {compared} derivatives, {rejected} rejected")
    assert compared > 200
    assert rejected <= MOST_REJECTED * compared


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_every_maker_alone(name: str) -> None:
    """Each with dims that are known and unknown, at the first and the last opset that has it."""
    maker = MAKERS[name]
    written = 0
    for seed, opset in enumerate((max(maker.since, OLDEST), min(maker.until, NEWEST))):
        recipe = Recipe(seed, opset, "any", bool(seed), 10_000, tuple((name, k) for k in range(4)))
        graph = build(recipe)
        written += graph.nodes
        verdict = judge(graph)
        assert not verdict.wrong, "\n".join(verdict.wrong)
        assert verdict.rejected <= verdict.compared / 10
    assert written, "the maker wrote nothing"


@pytest.mark.parametrize("op_type", ["Sigmoid", "MatMul", "ReduceMean", "Gather"])
def test_a_rule_wrong_by_a_thousandth_is_found(op_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = declarations()["", op_type]

    def changed(op, *cotangents):  # type: ignore[no-untyped-def]
        assert declared.function is not None
        found = declared.function(op, *cotangents)
        scaled = [
            None if c is None else c * 1.001 for c in (found if isinstance(found, (list, tuple)) else [found])
        ]
        return scaled if isinstance(found, (list, tuple)) else scaled[0]

    overrides = {("", op_type): dataclasses.replace(declared, function=changed)}
    maker = {"MatMul": "matmul", "Gather": "gather"}.get(op_type, op_type)
    graph = build(Recipe(3, 18, "double", False, 100, ((maker, 1), ("Tanh", 2), ("Add", 3), (maker, 4))))
    assert op_type in {node.op_type for node in graph.model.graph.node}
    assert not judge(graph).wrong
    monkeypatch.setattr(
        judging, "differentiate", functools.partial(differentiate, choices=Choices(declarations=overrides))
    )
    assert judge(graph).wrong
