"""A net as a graph that can be changed, and written as a net again."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Mapping, Sequence

from netgrad.caffe2.caffe2_pb2 import DeviceOption, NetDef, OperatorDef
from netgrad.caffe2.python.core.net import Net
from netgrad.caffe2.python.nomnigraph.graph import NNGraph, NNSubgraph, move_incoming, move_outgoing
from netgrad.caffe2.python.nomnigraph.matching import NNMatchGraph
from netgrad.caffe2.python.nomnigraph.nodes import Edge, NeuralNetData, NeuralNetOperator, Node
from netgrad.caffe2.running.errors import RunError


class NNModule:
    """The graph of a net. Each value of a blob is a tensor of its own.

    Attributes:
        dataFlow: The graph.
    """

    def __init__(
        self, net: Net | NetDef | None = None, device_map: Mapping[str, DeviceOption] | None = None
    ) -> None:
        """Start with a net's operators, or with none.

        Args:
            net: The net.
            device_map: The devices of the blobs that the net reads, by name.

        Raises:
            RunError: ``net`` is no net, or ``device_map`` names a blob that it doesn't have.
        """
        self.dataFlow = NNGraph()
        self._inputs: dict[str, None] = {}
        self._outputs: list[str] = []
        if net is None:
            return
        definition = net.Proto() if isinstance(net, Net) else net
        if not isinstance(definition, NetDef):
            raise RunError(f"NNModule is made of a core.Net or a caffe2_pb2.NetDef, not of {net!r}")
        self._inputs = dict.fromkeys(definition.external_input)
        self._outputs = list(definition.external_output)
        latest: dict[str, Node] = {}
        for op in definition.op:
            self._add(op, latest)
        self._set_devices(device_map or {})

    def _add(self, op: OperatorDef, latest: dict[str, Node]) -> None:
        node = self.dataFlow.createNode(op)
        for name in op.input:
            if name not in latest:
                latest[name] = self.dataFlow.createNode(NeuralNetData(name))
            self.dataFlow.createEdge(latest[name], node)
        for name in op.output:
            latest[name] = self.dataFlow.createNode(NeuralNetData(name))
            self.dataFlow.createEdge(node, latest[name])

    def _set_devices(self, devices: Mapping[str, DeviceOption]) -> None:
        found = {tensor.name for tensor in self.tensors}
        unused = [name for name in devices if name not in found]
        if unused:
            raise RunError(f"the net has no blobs that the map of devices names: {', '.join(unused)}")
        for tensor in self.tensors:
            if tensor.name in devices:
                tensor.annotation.device_option = devices[tensor.name]

    @property
    def controlFlow(self) -> list[Node]:
        """The operators in the order in which they run: as created, but after those that they read from."""
        operators = {node: place for place, node in enumerate(self.operators)}
        waiting = {node: len(node.getOperatorPredecessors()) for node in operators}
        ready = [(place, node) for node, place in operators.items() if not waiting[node]]
        ordered: list[Node] = []
        while ready:
            _, node = heapq.heappop(ready)
            ordered.append(node)
            for after in node.getOperatorSuccessors():
                waiting[after] -= 1
                if not waiting[after]:
                    heapq.heappush(ready, (operators[after], after))
        if len(ordered) < len(operators):
            left = next(node for node in operators if waiting[node])
            raise RunError(f"the operator {left.name} reads what comes from its own result: there is a cycle")
        return ordered

    @property
    def nodes(self) -> list[Node]:
        """All operators and tensors."""
        return self.dataFlow.nodes

    @property
    def operators(self) -> list[Node]:
        """All operators, in the order in which they were created."""
        return self.dataFlow.operators

    @property
    def tensors(self) -> list[Node]:
        """All tensors, in the order in which they were created."""
        return self.dataFlow.tensors

    def createNode(self, value: NeuralNetOperator | NeuralNetData | OperatorDef) -> Node:
        """Add an operator or a tensor; see `NNGraph.createNode`."""
        return self.dataFlow.createNode(value)

    def deleteNode(self, node: Node) -> None:
        """Take a node and its edges away."""
        self.dataFlow.deleteNode(node)

    def createEdge(self, a: Node, b: Node) -> Edge:
        """Add an edge; see `NNGraph.createEdge`."""
        return self.dataFlow.createEdge(a, b)

    def deleteEdge(self, a: Node | Edge, b: Node | None = None) -> None:
        """Take an edge away; see `Graph.deleteEdge`."""
        self.dataFlow.deleteEdge(a, b)

    def replaceNode(self, old_node: Node, new_node: Node) -> None:
        """Let all edges of one node be another's."""
        self.dataFlow.replaceNode(old_node, new_node)

    def replaceProducer(self, tensor: Node, new_producer: Node) -> None:
        """Let another operator write a tensor."""
        for edge in list(tensor.incoming):
            self.deleteEdge(edge)
        self.createEdge(new_producer, tensor)

    def replaceAllUsesWith(self, old_tensor: Node, new_tensor: Node) -> None:
        """Let the operators that read one tensor read another."""
        move_outgoing(old_tensor, new_tensor)

    def replaceAsConsumer(self, old_consumer: Node, new_consumer: Node) -> None:
        """Let an operator read what another one read."""
        move_incoming(old_consumer, new_consumer)

    def replaceSubgraph(
        self, subgraph: NNSubgraph, new_node: Node, inputs: Sequence[Node], outputs: Sequence[Node]
    ) -> None:
        """Put an operator in the place of some nodes.

        Args:
            subgraph: The nodes that go, but for those among ``inputs`` and ``outputs``.
            new_node: The operator.
            inputs: The tensors that it reads.
            outputs: The tensors that it writes.

        Raises:
            RunError: An operator that stays reads a tensor that goes.
        """
        kept = {*inputs, *outputs}
        gone = [node for node in subgraph.nodes if node not in kept]
        for node in gone:
            for reader in node.getConsumers() if node.isTensor() else ():
                if reader not in gone:
                    raise RunError(f"{reader.name} reads '{node.name}', which is not among the outputs given")
        for node in gone:
            self.deleteNode(node)
        for tensor in inputs:
            self.createEdge(tensor, new_node)
        for tensor in outputs:
            self.replaceProducer(tensor, new_node)

    def deleteSubgraph(self, subgraph: NNSubgraph) -> None:
        """Take nodes and their edges away."""
        for node in subgraph.nodes:
            self.deleteNode(node)

    def createUniqueDataNode(self, prefix: str = "_unique") -> Node:
        """Add a tensor under a name that no other one has: ``prefix``, or with a number behind it."""
        taken = {tensor.name for tensor in self.tensors} | set(self._inputs)
        names = itertools.chain([prefix], (f"{prefix}_{number}" for number in itertools.count()))
        return self.createNode(NeuralNetData(next(name for name in names if name not in taken)))

    def match(self, pattern: NNMatchGraph) -> Iterator[NNSubgraph]:
        """The places where a pattern matches."""
        for node in self.nodes:
            found = pattern.match_at(node)
            if len(found):
                yield found

    def convertToCaffe2Proto(self, old_proto: NetDef | None = None) -> NetDef:
        """The graph as a net.

        Args:
            old_proto: A net whose name, type and other settings are taken over.

        Raises:
            RunError: There is a cycle, or an operator would read another value of a blob than the graph says.
        """
        net = NetDef()
        if old_proto is not None:
            net.CopyFrom(old_proto)
            net.ClearField("op")
        held: dict[str, Node] = {}
        for node in self.controlFlow:
            for tensor in node.inputs:
                if held.setdefault(tensor.name, tensor) is not tensor and (
                    held[tensor.name].hasProducer() or tensor.hasProducer()
                ):
                    raise RunError(
                        f"{node.name} reads '{tensor.name}', which another operator has overwritten by then; "
                        "give one of the tensors a name of its own (createUniqueDataNode)"
                    )
            held.update((tensor.name, tensor) for tensor in node.outputs)
            op = net.op.add()
            op.CopyFrom(node.annotation.operator_def)
            op.input[:] = [tensor.name for tensor in node.inputs]
            op.output[:] = [tensor.name for tensor in node.outputs]
        read = {
            tensor.name: None
            for node in self.controlFlow
            for tensor in node.inputs
            if not tensor.hasProducer()
        }
        net.external_input[:] = list({**self._inputs, **read})
        net.external_output[:] = self._outputs
        return net
