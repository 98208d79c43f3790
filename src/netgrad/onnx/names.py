"""Names that are unique in the whole model, as runtimes and the backward pass need them."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir

from netgrad.onnx.edit import Editor, all_graphs, graph_values


class NameAuthority:
    """Gives out names that are free in one graph; a taken name gets a numbered suffix.

    Attributes:
        taken: The names that are in use.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)
        self._next: dict[str, int] = {}

    def unique(self, wish: str) -> str:
        """``wish`` if it is free, else ``wish_1``, ``wish_2``, ...; the answer is taken from then on."""
        name = wish
        while name in self.taken:
            self._next[wish] = self._next.get(wish, 0) + 1
            name = f"{wish}_{self._next[wish]}"
        self.taken.add(name)
        return name


def name_nodes(model: onnx_ir.Model) -> list[str]:
    """Give every node without a name, or with the name of an earlier one, a name of its own, in place.

    Returns:
        What was done, one readable line each.
    """
    editor = Editor(model)
    seen: set[str] = set()
    empty = repeated = 0
    for graph in all_graphs(model):
        for node in graph:
            if not node.name:
                node.name = editor.fresh_node(node.op_type)
                empty += 1
            elif node.name in seen:
                node.name = editor.fresh_node(node.name)
                repeated += 1
            seen.add(node.name)
    actions = [f"named {empty} nodes that had no name"] if empty else []
    return actions + ([f"renamed {repeated} nodes that had the name of another node"] if repeated else [])


def name_inner_values(model: onnx_ir.Model) -> list[tuple[onnx_ir.Graph, str, str]]:
    """Rename values of inner graphs that have the name of a value elsewhere; the main graph's names stay.

    Inlining a function twice, or in two graphs, makes such names, and a runtime may take one value for the
    other.

    Returns:
        Of each value that was renamed its graph, its old and its new name.
    """
    renamed = []
    editor = Editor(model)
    graphs = all_graphs(model)
    seen = {value.name for value in graph_values(graphs[0])}
    for graph in graphs[1:]:
        for value in graph_values(graph):
            if value.name and value.name in seen and value.const_value is None:
                renamed.append((graph, value.name, editor.fresh(value.name)))
                value.name = renamed[-1][2]
            seen.add(value.name)
    return renamed
