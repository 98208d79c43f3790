"""Expanding the composite operators on the way of a gradient."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from netgrad.core.operator import Operator
from netgrad.onnx.expand import EXPANDED_FROM, expand
from netgrad.onnx.rules.source import OnnxRules
from netgrad.onnx.view import operators_of, subgraphs


def expand_composites(
    model: ir.Model,
    wrt: Sequence[str],
    targets: Sequence[str],
    rules: OnnxRules,
    graph: ir.Graph | None = None,
) -> list[str]:
    """Replace operators that have a function body but no rule, as far as they lie on the active path.

    Args:
        model: The model.
        wrt: Names of values of the graph to differentiate by.
        targets: Names of values of the graph to differentiate.
        rules: Says what has a rule.
        graph: The main graph, or one inside an operator.
    """
    around = model.graph if graph is None else graph
    active = between(around, wrt, targets)

    def on_path(node: ir.Node) -> bool:
        return any(output.name in active for output in node.outputs)

    # A node in a branch or a loop counts as on the path if the If or the Loop is.
    inside = {
        id(inner)
        for node in around
        if on_path(node)
        for graph in subgraphs(node)
        for inner in (graph, *graph.subgraphs())
    }

    def wanted(node: ir.Node) -> bool:
        if not on_path(node) and id(node.graph) not in inside and EXPANDED_FROM not in node.metadata_props:
            return False
        domain = "" if node.domain == "ai.onnx" else node.domain
        return rules.declaration(Operator(node.op_type, domain=domain, name=node.name or "")) is None

    return expand(model, wanted, keep=[*wrt, *targets])


def between(graph: ir.Graph, wrt: Sequence[str], targets: Sequence[str]) -> set[str]:
    """Names of the values of a graph on any path from ``wrt`` to ``targets``."""
    return on_paths(operators_of(graph), wrt, targets)


def on_paths(operators: Sequence[Operator], wrt: Sequence[str], targets: Sequence[str]) -> set[str]:
    """Names of the values on any path of these operators from ``wrt`` to ``targets``."""
    reached = set(wrt)
    for op in operators:
        if any(name in reached for name in op.inputs):
            reached.update(name for name in op.outputs if name)
    needed = set(targets)
    for op in reversed(operators):
        if any(name in needed for name in op.outputs):
            needed.update(name for name in op.inputs if name)
    return reached & needed
