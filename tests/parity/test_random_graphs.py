"""Gradients of random graphs agree with PyTorch's autograd: some here, 2,000 in the record.

`make parity-random` renews the record.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from pathlib import Path

import pytest

from netgrad.onnx.rules.choices import Choices
from netgrad.onnx.rules.declaration import declarations
from netgrad.transforms.grad import differentiate
from tests.onnx.random_graphs import judge as judging
from tests.onnx.random_graphs.graphs import NEWEST, Recipe, build, recipe_of, sized
from tests.onnx.random_graphs.makers import MAKERS

torch = pytest.importorskip("torch", reason="parity with PyTorch needs torch (make parity)")

RECORD = Path(__file__).parents[2] / "benchmarks" / "results" / "random_graphs_pytorch.json"


@pytest.mark.parametrize("first", range(0, 50, 10))
def test_gradients_of_random_graphs(first: int) -> None:
    from tests.parity.random_graphs import MOST_SKIPPED, judge

    verdicts = [judge(sized(recipe_of(number))) for number in range(first, first + 10)]
    wrong = [line for verdict in verdicts for line in verdict.wrong]
    assert not wrong, "\n".join(wrong)
    assert sum(not verdict.unknown for verdict in verdicts) >= 8, "PyTorch's side has too few operators"
    compared = sum(verdict.compared for verdict in verdicts)
    assert compared > 50
    assert sum(verdict.skipped for verdict in verdicts) <= MOST_SKIPPED * compared


def test_the_interpreter_knows_every_operator_of_the_graphs() -> None:
    from tests.parity.torch_interpreter import inlined, unknown_operators

    unknown: set[str] = set()
    for name, maker in MAKERS.items():
        recipe = Recipe(0, min(maker.until, NEWEST), "any", False, 10_000, tuple((name, k) for k in range(4)))
        unknown.update(unknown_operators(inlined(build(recipe).model)))
    assert not unknown


@pytest.mark.parametrize("op_type", ["Sigmoid", "MatMul", "ReduceMean", "Gather"])
def test_a_rule_wrong_by_a_billionth_is_found(op_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.parity.random_graphs import judge

    declared = declarations()["", op_type]

    def changed(op, *cotangents):  # type: ignore[no-untyped-def]
        assert declared.function is not None
        found = declared.function(op, *cotangents)
        every = found if isinstance(found, (list, tuple)) else [found]
        scaled = [None if each is None else each * (1 + 1e-9) for each in every]
        return scaled if isinstance(found, (list, tuple)) else scaled[0]

    maker = {"MatMul": "matmul", "Gather": "gather"}.get(op_type, op_type)
    graph = build(Recipe(3, 18, "double", False, 100, ((maker, 1), ("Tanh", 2), ("Add", 3), (maker, 4))))
    assert op_type in {node.op_type for node in graph.model.graph.node}
    assert not judge(graph).wrong
    choices = Choices(declarations={("", op_type): dataclasses.replace(declared, function=changed)})
    monkeypatch.setattr(judging, "differentiate", functools.partial(differentiate, choices=choices))
    assert judge(graph).wrong


def test_an_operator_that_the_interpreter_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.parity.random_graphs import judge
    from tests.parity.torch_operators.table import OPERATORS

    graph = build(Recipe(3, 18, "double", False, 100, (("Tanh", 1), ("Add", 2))))
    monkeypatch.delitem(OPERATORS, "Tanh")
    verdict = judge(graph)
    assert (verdict.unknown, verdict.compared, verdict.wrong) == ("::Tanh", 0, [])


def test_the_record_is_of_2000_graphs_without_a_wrong_one() -> None:
    from tests.parity.random_graphs import MOST_SKIPPED

    record = json.loads(RECORD.read_text())
    assert record["graphs"] >= 2000
    assert record["wrong"] == 0
    assert record["gradients_skipped"] <= MOST_SKIPPED * record["gradients_compared"]
