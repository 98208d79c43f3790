"""Judging many random graphs, and what to record of them."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import onnx
import onnxruntime

from tests.onnx.random_graphs.graphs import recipe_of, sized
from tests.onnx.random_graphs.judge import judge


def verdict_of(seed: int) -> dict[str, Any]:
    """What became of one graph, as plain numbers."""
    warnings.simplefilter("ignore")
    graph = sized(recipe_of(seed))
    try:
        verdict = judge(graph)
    except Exception as error:
        return {"seed": seed, "nodes": graph.nodes, "failed": [f"{type(error).__name__}: {error}"[:400]]}
    operators = Counter(node.op_type for node in graph.model.graph.node)
    return {
        "seed": seed,
        "nodes": verdict.nodes,
        "compared": verdict.compared,
        "rejected": verdict.rejected,
        "zero": verdict.zero,
        "flipped": verdict.flipped,
        "failed": verdict.wrong,
        "symbolic": graph.recipe.symbolic,
        "operators": dict(operators),
    }


def summary(seed: int, verdicts: list[dict[str, Any]]) -> dict[str, Any]:
    """The totals, for the record."""

    def total(key: str) -> int:
        return sum(verdict.get(key, 0) for verdict in verdicts)

    operators = Counter[str]()
    for verdict in verdicts:
        operators.update(verdict.get("operators", {}))
    nodes = [verdict["nodes"] for verdict in verdicts]
    return {
        "seed": seed,
        "graphs": len(verdicts),
        "wrong": sum(bool(verdict["failed"]) for verdict in verdicts),
        "wrong_graphs": [verdict["seed"] for verdict in verdicts if verdict["failed"]],
        "nodes": sum(nodes),
        "fewest_nodes": min(nodes),
        "most_nodes": max(nodes),
        "with_symbolic_dims": total("symbolic"),
        "derivatives_compared": total("compared"),
        "derivatives_rejected": total("rejected"),
        "derivatives_that_are_zero": total("zero"),
        "float32_gradients_beside_a_corner": total("flipped"),
        "operators": dict(sorted(operators.items())),
        "onnx": onnx.__version__,
        "onnxruntime": onnxruntime.__version__,
    }
