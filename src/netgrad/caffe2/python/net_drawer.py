"""Nets as graphs, in the language of Graphviz. ``dot`` makes pictures of them where it is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef, PlanDef
from netgrad.caffe2.python.utils import TryReadProtoWithClass

OP_STYLE = {"shape": "box", "color": "#0F9D58", "style": "filled", "fontcolor": "#FFFFFF"}
BLOB_STYLE = {"shape": "octagon"}


def _quoted(value: object) -> str:
    text = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


def _attributes(attributes: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={_quoted(value)}" for name, value in attributes.items())


class Node:
    """A node of a graph."""

    def __init__(self, name: str, **attributes: object) -> None:
        """Start a node with these attributes; ``label`` is what it shows."""
        self.name = name
        self.attributes = attributes

    def get_name(self) -> str:
        """The node's name, which no other node of its graph has."""
        return self.name

    def get_label(self) -> str:
        """What the node shows."""
        return str(self.attributes.get("label", self.name))

    def to_string(self) -> str:
        """The node in the language of Graphviz."""
        return f"{_quoted(self.name)} [{_attributes(self.attributes)}];"


class Edge:
    """An arrow from one node to another."""

    def __init__(self, source: Node, destination: Node) -> None:
        self.source = source
        self.destination = destination

    def get_source(self) -> str:
        """The name of the node that it comes from."""
        return self.source.name

    def get_destination(self) -> str:
        """The name of the node that it goes to."""
        return self.destination.name

    def to_string(self) -> str:
        """The arrow in the language of Graphviz."""
        return f"{_quoted(self.source.name)} -> {_quoted(self.destination.name)};"


class Graph:
    """A graph with nodes, arrows and graphs inside, as the package pydot has it."""

    def __init__(
        self, name: str, rankdir: str = "LR", kind: str = "digraph", label: str | None = None
    ) -> None:
        self.name = name
        self._kind = kind
        self._attributes = {"rankdir": rankdir, **({} if label is None else {"label": label})}
        self._nodes: list[Node] = []
        self._edges: list[Edge] = []
        self._graphs: list[Graph] = []

    def get_name(self) -> str:
        """The name."""
        return self.name

    def add_node(self, node: Node) -> None:
        """Add a node."""
        self._nodes.append(node)

    def add_edge(self, edge: Edge) -> None:
        """Add an arrow."""
        self._edges.append(edge)

    def add_subgraph(self, graph: Graph) -> None:
        """Add a graph inside this one."""
        self._graphs.append(graph)

    def get_nodes(self) -> list[Node]:
        """The nodes of its own."""
        return list(self._nodes)

    def get_edges(self) -> list[Edge]:
        """The arrows of its own."""
        return list(self._edges)

    def get_subgraphs(self) -> list[Graph]:
        """The graphs inside."""
        return list(self._graphs)

    def to_string(self) -> str:
        """The graph in the language of Graphviz."""
        own = [f"{name}={_quoted(value)};" for name, value in self._attributes.items()]
        inside: list[Any] = [*self._graphs, *self._nodes, *self._edges]
        parts = [*own, *(part.to_string() for part in inside)]
        lines = "\n".join(parts)
        return f"{self._kind} {_quoted(self.name)} {{\n{lines}\n}}"

    def create(self, format: str = "png") -> bytes:
        """A picture of the graph.

        Raises:
            RuntimeError: Graphviz isn't installed, or can't draw it.
        """
        if shutil.which("dot") is None:
            raise RuntimeError("pictures need Graphviz's program dot, which isn't installed")
        done = subprocess.run(
            ["dot", f"-T{format}"], input=self.to_string().encode(), capture_output=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"dot can't draw the graph: {done.stderr.decode().strip()}")
        return done.stdout

    def create_png(self) -> bytes:
        """A picture of the graph as PNG."""
        return self.create("png")

    def create_svg(self) -> bytes:
        """A picture of the graph as SVG."""
        return self.create("svg")

    def write(self, path: str, format: str = "raw") -> bool:
        """Write the graph to a file: its text, or a picture of another format."""
        content = self.to_string().encode() if format in ("raw", "dot") else self.create(format)
        with open(path, "wb") as file:
            file.write(content)
        return True

    def write_png(self, path: str) -> bool:
        """Write a picture of the graph."""
        return self.write(path, "png")

    def write_pdf(self, path: str) -> bool:
        """Write a picture of the graph."""
        return self.write(path, "pdf")

    def write_svg(self, path: str) -> bool:
        """Write a picture of the graph."""
        return self.write(path, "svg")

    def write_dot(self, path: str) -> bool:
        """Write the graph in the language of Graphviz."""
        return self.write(path, "dot")

    def write_raw(self, path: str) -> bool:
        """Write the graph in the language of Graphviz."""
        return self.write(path)


NodeProducer = Callable[[OperatorDef, int], Node]


def GetOpNodeProducer(append_output: bool, **kwargs: object) -> NodeProducer:
    """A function that makes the node of an operator, ``[name/]Type (op#index)``.

    Args:
        append_output: Whether the label names its outputs too.
        **kwargs: The style of the node.
    """

    def produce(op: OperatorDef, op_id: int) -> Node:
        label = f"{op.name}/{op.type}" if op.name else op.type
        label += f" (op#{op_id})"
        if append_output:
            label += "".join(f"\n{name}" for name in op.output)
        inputs, outputs = ", ".join(op.input), ", ".join(op.output)
        return Node(f"{label} ({inputs}) -> ({outputs})", label=label, **kwargs)

    return produce


def _operators(operators_or_net: Any) -> tuple[Sequence[OperatorDef], str | None]:
    if hasattr(operators_or_net, "Proto"):
        operators_or_net = operators_or_net.Proto()
    if isinstance(operators_or_net, NetDef):
        return operators_or_net.op, operators_or_net.name
    if not isinstance(operators_or_net, Iterable):
        raise TypeError(f"a net or a list of operators is drawn, not {operators_or_net!r}")
    return list(operators_or_net), None


def GetPydotGraph(
    operators_or_net: Any,
    name: str | None = None,
    rankdir: str = "LR",
    op_node_producer: NodeProducer | None = None,
    node_producer: NodeProducer | None = None,
) -> Graph:
    """A graph of operators, as boxes, and blobs, as octagons; what is written again is a node of its own.

    Args:
        operators_or_net: A net, its message, or a list of operators.
        name: Name of the graph; by default the net's.
        rankdir: Direction of Graphviz: ``LR``, ``TB``...
        op_node_producer: Makes the node of an operator; see `GetOpNodeProducer`.
        node_producer: The same.
    """
    produce = op_node_producer or node_producer or GetOpNodeProducer(False, **OP_STYLE)
    operators, own_name = _operators(operators_or_net)
    graph = Graph(name or own_name or "graph", rankdir)
    blobs: dict[str, Node] = {}
    versions: dict[str, int] = defaultdict(int)

    def blob(name: str) -> Node:
        if name not in blobs:
            blobs[name] = Node(f"{name}{versions[name]}", label=name, **BLOB_STYLE)
            graph.add_node(blobs[name])
        return blobs[name]

    for index, op in enumerate(operators):
        node = produce(op, index)
        graph.add_node(node)
        for read in op.input:
            graph.add_edge(Edge(blob(read), node))
        for written in op.output:
            if written in blobs:
                del blobs[written]
                versions[written] += 1
            graph.add_edge(Edge(node, blob(written)))
    return graph


def GetPydotGraphMinimal(
    operators_or_net: Any,
    name: str | None = None,
    rankdir: str = "LR",
    minimal_dependency: bool = False,
    op_node_producer: NodeProducer | None = None,
    node_producer: NodeProducer | None = None,
) -> Graph:
    """A graph of operators only, with an arrow from the writer of a blob to its reader.

    Args:
        operators_or_net: A net, its message, or a list of operators.
        name: Name of the graph; by default the net's.
        rankdir: Direction of Graphviz: ``LR``, ``TB``...
        minimal_dependency: Whether arrows are left out that others imply.
        op_node_producer: Makes the node of an operator; see `GetOpNodeProducer`.
        node_producer: The same.
    """
    produce = op_node_producer or node_producer or GetOpNodeProducer(False, **OP_STYLE)
    operators, own_name = _operators(operators_or_net)
    graph = Graph(name or own_name or "graph", rankdir)
    nodes = [produce(op, index) for index, op in enumerate(operators)]
    writer: dict[str, int] = {}
    before: list[set[int]] = []  # of each operator all that have to run before it
    for index, op in enumerate(operators):
        graph.add_node(nodes[index])
        direct = list(dict.fromkeys(writer[read] for read in op.input if read in writer))
        implied = {earlier for parent in direct for earlier in before[parent]}
        for parent in direct:
            if not (minimal_dependency and parent in implied):
                graph.add_edge(Edge(nodes[parent], nodes[index]))
        before.append(implied | set(direct))
        writer.update(dict.fromkeys(op.output, index))
    return graph


def GetOperatorMapForPlan(plan_def: PlanDef) -> dict[str, list[OperatorDef]]:
    """For each net that a plan's steps run, by its place among the steps, its operators."""
    nets = {net.name: list(net.op) for net in plan_def.network}
    found: dict[str, list[OperatorDef]] = {}
    for index, step in enumerate(plan_def.execution_step):
        pending = [(step, f"{index}_{step.name}")]
        while pending:
            current, place = pending.pop(0)
            if current.network:
                found[place] = [op for net in current.network for op in nets[net]]
            pending += [(inner, f"{place}/{at}_{inner.name}") for at, inner in enumerate(current.substep)]
    return found


def GetPlanGraph(plan_def: PlanDef, name: str | None = None, rankdir: str = "TB") -> Graph:
    """A graph of a plan, with a graph inside for each of its steps that runs nets."""
    graph = Graph(name or plan_def.name or "plan", rankdir)
    for place, operators in GetOperatorMapForPlan(plan_def).items():
        inside = GetPydotGraph(operators, place, rankdir)
        part = Graph(f"cluster_{place}", rankdir, "subgraph", label=place)
        renamed = {node.name: Node(f"{place}/{node.name}", **node.attributes) for node in inside.get_nodes()}
        for node in renamed.values():
            part.add_node(node)
        for edge in inside.get_edges():
            part.add_edge(Edge(renamed[edge.get_source()], renamed[edge.get_destination()]))
        graph.add_subgraph(part)
    return graph


def GetGraphInJson(operators_or_net: Any, output_filepath: str) -> None:
    """Write a net as JSON: ``nodes``, operators and blobs with their ids, and ``edges`` between them."""
    operators, _ = _operators(operators_or_net)
    ids: dict[str, int] = {}
    nodes: list[dict[str, Any]] = []
    edges: list[dict[str, int]] = []

    def blob(name: str) -> int:
        if name not in ids:
            ids[name] = len(nodes)
            nodes.append({"id": ids[name], "label": name, "color": "blob"})
        return ids[name]

    for op in operators:
        own = len(nodes)
        nodes.append({"id": own, "label": op.type, "color": op.type})
        edges += [{"source": blob(name), "target": own} for name in op.input]
        for name in op.output:
            ids.pop(name, None)  # what is written again is another node
            edges.append({"source": own, "target": blob(name)})
    with open(output_filepath, "w") as file:
        json.dump({"nodes": nodes, "edges": edges}, file)


def GetGraphPngSafe(func: Callable[..., Graph], *args: Any, **kwargs: Any) -> bytes | None:
    """The picture of the graph that ``func`` makes, or None, with a word about it, if that fails."""
    try:
        graph = func(*args, **kwargs)
        assert isinstance(graph, Graph), f"{func.__name__} makes no graph"
        return graph.create_png()
    except Exception as error:
        print(f"Failed to draw graph: {error}", file=sys.stderr)
        return None


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw a file with a net or a plan: ``--input FILE --output_prefix PREFIX [--minimal]``."""
    import argparse

    parser = argparse.ArgumentParser(description="Caffe2 net drawer.")
    parser.add_argument("--input", required=True, help="a net or plan, as text or binary")
    parser.add_argument("--output_prefix", default="", help="how the files that are written begin")
    parser.add_argument("--minimal", action="store_true", help="operators only")
    parser.add_argument("--minimal_dependency", action="store_true", help="without arrows that others imply")
    parser.add_argument("--append_output", action="store_true", help="name outputs in operators")
    parser.add_argument("--rankdir", default="LR", help="direction of Graphviz")
    options = parser.parse_args(arguments)
    with open(options.input, "rb") as file:
        content = file.read()
    if options.input.endswith("plan") or b"execution_step" in content:
        graphs = {"plan": GetPlanGraph(TryReadProtoWithClass(PlanDef, content), rankdir=options.rankdir)}  # type: ignore[arg-type]
    else:
        net: Any = TryReadProtoWithClass(NetDef, content)
        produce = GetOpNodeProducer(options.append_output, **OP_STYLE)
        if options.minimal:
            graph = GetPydotGraphMinimal(
                net, None, options.rankdir, options.minimal_dependency, op_node_producer=produce
            )
        else:
            graph = GetPydotGraph(net, None, options.rankdir, produce)
        graphs = {net.name or "net": graph}
    for name, graph in graphs.items():
        graph.write(f"{options.output_prefix}{name}.dot")
        if shutil.which("dot"):
            graph.write_pdf(f"{options.output_prefix}{name}.pdf")


if __name__ == "__main__":
    main()
