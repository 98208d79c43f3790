"""Graphs of nodes, and parts of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.python.nomnigraph.nodes import Edge, NeuralNetData, NeuralNetOperator, Node
from netgrad.caffe2.running.errors import RunError


class Graph:
    """A directed graph, of any values."""

    def __init__(self) -> None:
        self._nodes: dict[Node, None] = {}

    @property
    def nodes(self) -> list[Node]:
        """All nodes, in the order in which they were created."""
        return list(self._nodes)

    def getMutableNodes(self) -> list[Node]:
        """All nodes; see `nodes`."""
        return self.nodes

    def createNode(self, value: Any) -> Node:
        """Add a node with no edges."""
        node = Node(value)
        self._nodes[node] = None
        return node

    def createEdge(self, tail: Node, head: Node) -> Edge:
        """Add an edge: the last one that ``tail`` has outwards, and ``head`` inwards."""
        edge = Edge(tail, head)
        tail.outgoing.append(edge)
        head.incoming.append(edge)
        return edge

    def deleteEdge(self, tail: Node | Edge, head: Node | None = None) -> None:
        """Take an edge away: itself, or the first from one node to another.

        Raises:
            RunError: There is none.
        """
        if isinstance(tail, Edge):
            edge = tail
        else:
            between = [edge for edge in tail.outgoing if edge.head is head]
            if not between:
                name = head.getName() if head is not None else "nothing"
                raise RunError(f"there is no edge from '{tail.getName()}' to '{name}'")
            edge = between[0]
        edge.tail.outgoing.remove(edge)
        edge.head.incoming.remove(edge)

    def deleteNode(self, node: Node) -> None:
        """Take a node and its edges away.

        Raises:
            RunError: The graph doesn't have it.
        """
        if node not in self._nodes:
            raise RunError(f"the graph has no node '{node.getName()}' of this kind any more")
        for edge in (*node.incoming, *node.outgoing):
            self.deleteEdge(edge)
        del self._nodes[node]

    def replaceNode(self, old: Node, new: Node) -> None:
        """Let all edges of one node be another's; the old one stays, without any."""
        move_incoming(old, new)
        move_outgoing(old, new)

    def __str__(self) -> str:
        return drawn(self._nodes)

    __repr__ = __str__


class NNGraph(Graph):
    """The graph of a net: operators, and the tensors that they read and write."""

    def createNode(self, value: NeuralNetOperator | NeuralNetData | OperatorDef) -> Node:
        """Add a node for an operator or a tensor.

        Raises:
            RunError: It's neither, nor an operator's definition.
        """
        if isinstance(value, NeuralNetOperator | NeuralNetData):
            return super().createNode(value)
        if not isinstance(value, OperatorDef):
            raise RunError(f"a node is made of an operator, its definition, or a tensor, not of {value!r}")
        node = super().createNode(NeuralNetOperator(value.type))
        node.annotation.operator_def = value
        return node

    def createEdge(self, tail: Node, head: Node) -> Edge:
        """Add an edge: the next input or output of an operator.

        Raises:
            RunError: It isn't between an operator and a tensor.
        """
        if {tail.type, head.type} != {"Operator", "Tensor"}:
            raise RunError(
                f"an edge is between an operator and a tensor: '{tail.name}' is of type {tail.type}, "
                f"'{head.name}' of type {head.type}"
            )
        return super().createEdge(tail, head)

    @property
    def operators(self) -> list[Node]:
        """All operators, in the order in which they were created."""
        return [node for node in self._nodes if node.isOperator()]

    @property
    def tensors(self) -> list[Node]:
        """All tensors, in the order in which they were created."""
        return [node for node in self._nodes if node.isTensor()]


class NNSubgraph:
    """Some nodes of a graph."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self._nodes = dict.fromkeys(nodes)

    @property
    def nodes(self) -> list[Node]:
        """The nodes."""
        return list(self._nodes)

    def addNode(self, node: Node) -> None:
        """Add a node."""
        self._nodes[node] = None

    def hasNode(self, node: Node) -> bool:
        """Whether a node is among them."""
        return node in self._nodes

    def induceEdges(self) -> None:
        """Nothing to do: the edges between the nodes always count."""

    def __len__(self) -> int:
        return len(self._nodes)

    def __str__(self) -> str:
        return drawn(self._nodes)

    __repr__ = __str__


def move_incoming(old: Node, new: Node) -> None:
    """Let the edges that end at one node end at another, behind those that it has."""
    for edge in old.incoming:
        edge.head = new
    new.incoming += old.incoming
    old.incoming = []


def move_outgoing(old: Node, new: Node) -> None:
    """Let the edges that begin at one node begin at another, behind those that it has."""
    for edge in old.outgoing:
        edge.tail = new
    new.outgoing += old.outgoing
    old.outgoing = []


def drawn(nodes: Iterable[Node]) -> str:
    """Nodes, and the edges between them, in the language of Graphviz."""
    numbers = {node: number for number, node in enumerate(nodes)}
    lines = ["digraph G {", "rankdir=LR"]
    for node, number in numbers.items():
        label = node.getName().replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'{number} [label="{label}"{", shape=box" if node.isOperator() else ""}];')
        lines += [f"{number} -> {numbers[edge.head]};" for edge in node.outgoing if edge.head in numbers]
    return "\n".join([*lines, "}"]) + "\n"
