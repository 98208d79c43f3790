"""Changes of nets as graphs."""

from __future__ import annotations

from netgrad.caffe2.arguments import make_argument
from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.python.nomnigraph import NeuralNetOperator, NNModule
from netgrad.caffe2.python.nomnigraph.nodes import Node

_TO_LAST, _TO_FIRST = "NCHW2NHWC", "NHWC2NCHW"


def transpose_network(nn: NNModule) -> None:
    """Let all convolutions with the order NCHW work in the order NHWC.

    Their images and weights are brought into that order before, and their results out of it; a result that
    goes into further convolutions stays in it for them. Each tensor is brought into it once.
    """
    in_last: dict[Node, Node] = {}  # tensor to the same in the other order
    for conv in [node for node in nn.operators if node.name == "Conv"]:
        definition = conv.annotation.operator_def
        order = [arg for arg in definition.arg if arg.name == "order"]
        if order and order[0].s != b"NCHW":
            continue
        _set_order(definition)
        conv.annotation.operator_def = definition
        for edge in conv.incoming[:2]:
            tensor = edge.tail
            if tensor not in in_last:
                in_last[tensor] = _through(nn, _TO_LAST, tensor)
            tensor.outgoing.remove(edge)
            edge.tail = in_last[tensor]
            edge.tail.outgoing.append(edge)
        for edge in conv.outgoing:
            result = edge.head
            last = nn.createUniqueDataNode(result.name)
            result.incoming.remove(edge)
            edge.head = last
            last.incoming.append(edge)
            back = nn.createNode(NeuralNetOperator(_TO_FIRST))
            nn.createEdge(last, back)
            nn.createEdge(back, result)
            _use_instead(nn, result, last)
            in_last[result] = last


def _set_order(definition: OperatorDef) -> None:
    kept = [arg for arg in definition.arg if arg.name != "order"]
    del definition.arg[:]
    definition.arg.extend([*kept, make_argument("order", "NHWC")])


def _through(nn: NNModule, type_: str, tensor: Node) -> Node:
    """What an operator that is added makes of a tensor."""
    result = nn.createUniqueDataNode(tensor.name)
    operator = nn.createNode(NeuralNetOperator(type_))
    nn.createEdge(tensor, operator)
    nn.createEdge(operator, result)
    return result


def _use_instead(nn: NNModule, tensor: Node, last: Node) -> None:
    """Where a tensor has been brought into the other order already, use what is in that order anyway."""
    for reader in [node for node in tensor.consumers if node.name == _TO_LAST]:
        (changed,) = reader.outputs
        nn.replaceAllUsesWith(changed, last)
        nn.deleteNode(changed)
        nn.deleteNode(reader)
