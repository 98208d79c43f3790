"""Finding a pattern in a net's graph."""

from __future__ import annotations

from collections.abc import Iterator

from netgrad.caffe2.python.nomnigraph.graph import NNSubgraph
from netgrad.caffe2.python.nomnigraph.nodes import NeuralNetData, NeuralNetOperator, Node


class MatchNode:
    """A node of a pattern: what a node of the graph has to be like."""

    def __init__(self, wanted: NeuralNetOperator | NeuralNetData | None, strict: bool) -> None:
        self._wanted = wanted
        self.strict = strict
        self.heads: list[MatchNode] = []
        self.tails: list[MatchNode] = []

    def accepts(self, node: Node) -> bool:
        """Whether a node may stand for it, by its kind and, if strict, the number of edges outwards."""
        if self.strict and len(node.outgoing) != len(self.heads):
            return False
        if isinstance(self._wanted, NeuralNetOperator):
            return node.isOperator() and node.getName() == self._wanted.getName()
        return node.isTensor() if self._wanted is not None else True


class NNMatchGraph:
    """A pattern of operators and tensors."""

    def __init__(self) -> None:
        self._nodes: list[MatchNode] = []

    def createNode(
        self, node: NeuralNetOperator | NeuralNetData | None = None, strict: bool = False
    ) -> MatchNode:
        """Add a node.

        Args:
            node: An operator, for operators of its type; a tensor, for tensors of any name; None for both.
            strict: Whether nothing but what the pattern says may come after it.
        """
        self._nodes.append(MatchNode(node, strict))
        return self._nodes[-1]

    def createEdge(self, tail: MatchNode, head: MatchNode) -> None:
        """Add an edge."""
        tail.heads.append(head)
        head.tails.append(tail)

    def getMutableNodes(self) -> list[MatchNode]:
        """The pattern's nodes."""
        return list(self._nodes)

    def match_at(self, node: Node) -> NNSubgraph:
        """The nodes that the pattern matches if ``node`` stands for its first; else none.

        The first node of the pattern is the first one that no edge leads to.
        """
        if not self._nodes:
            return NNSubgraph()
        first = next((one for one in self._nodes if not one.tails), self._nodes[0])
        stack: list[Iterator[tuple[MatchNode, Node]]] = [iter([(first, node)])]
        chosen: dict[MatchNode, Node] = {}
        order: list[MatchNode] = []
        # Depth first, and back where a choice doesn't work out: patterns are small, but not always trees.
        while stack:
            while len(order) >= len(stack):
                del chosen[order.pop()]
            pair = next(stack[-1], None)
            if pair is None:
                stack.pop()
                continue
            wanted, candidate = pair
            if candidate in chosen.values() or not wanted.accepts(candidate) or not _fits(*pair, chosen):
                continue
            chosen[wanted] = candidate
            order.append(wanted)
            following = _next(chosen)
            if following is None:
                return NNSubgraph(chosen.values())
            stack.append(iter(following))
        return NNSubgraph()


def _fits(wanted: MatchNode, candidate: Node, chosen: dict[MatchNode, Node]) -> bool:
    """Whether the edges between a node and those that are chosen are there, as often as the pattern says."""
    heads = [edge.head for edge in candidate.outgoing]
    tails = [edge.tail for edge in candidate.incoming]
    return all(
        heads.count(chosen[one]) >= wanted.heads.count(one) for one in wanted.heads if one in chosen
    ) and all(tails.count(chosen[one]) >= wanted.tails.count(one) for one in wanted.tails if one in chosen)


def _next(chosen: dict[MatchNode, Node]) -> list[tuple[MatchNode, Node]] | None:
    """A node of the pattern beside those that are chosen, with what may stand for it, if there is any."""
    for wanted, node in chosen.items():
        for one in wanted.heads:
            if one not in chosen:
                return [(one, edge.head) for edge in node.outgoing]
        for one in wanted.tails:
            if one not in chosen:
                return [(one, edge.tail) for edge in node.incoming]
    return None
