"""Changes of nets that leave what they compute as it is, but let them run with fewer operators."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from netgrad.caffe2.arguments import Arguments, make_argument
from netgrad.caffe2.caffe2_pb2 import CPU, NetDef
from netgrad.caffe2.python import core, workspace
from netgrad.caffe2.python.nomnigraph import NeuralNetData, NNModule
from netgrad.caffe2.python.nomnigraph.nodes import Node
from netgrad.caffe2.running.errors import RunError
from netgrad.core.errors import nearest

_Array = np.ndarray[Any, Any]


def _add_nnpack(nn: NNModule, outputs: set[str]) -> None:
    for node in nn.operators:
        op = node.annotation.operator_def
        if op.type == "Conv" and op.device_option.device_type == CPU and _order(node) == "NCHW":
            op.engine = "NNPACK"
            node.annotation.operator_def = op


def _fuse_relu(nn: NNModule, outputs: set[str]) -> None:
    for conv in [node for node in nn.operators if node.name == "Conv"]:
        definition = conv.annotation.operator_def
        relu = _only_reader(conv, outputs)
        if definition.engine != "NNPACK" or relu is None or relu.name != "Relu":
            continue
        (result,) = relu.outputs
        image = conv.inputs[0]
        if result.name == image.name:  # a convolution can't write what it reads
            renamed = _renamable(nn, (image, result), outputs)
            if renamed is None:
                continue
            renamed.value = NeuralNetData(_free_name(nn, renamed.name))
        definition.arg.append(make_argument("activation", "Relu"))
        conv.annotation.operator_def = definition
        _let_write(nn, conv, relu)


def _renamable(nn: NNModule, tensors: tuple[Node, Node], outputs: set[str]) -> Node | None:
    """The first tensor that may have any name: one that an operator writes, and that isn't an output."""
    for tensor in tensors:
        if tensor.hasProducer() and (tensor is not _last_of(nn, tensor.name) or tensor.name not in outputs):
            return tensor
    return None


def _last_of(nn: NNModule, name: str) -> Node | None:
    written = [tensor for op in nn.controlFlow for tensor in op.outputs if tensor.name == name]
    return written[-1] if written else None


def _fuse_normalization(nn: NNModule, outputs: set[str]) -> None:
    for conv in [node for node in nn.operators if node.name == "Conv"]:
        normalized = _only_reader(conv, outputs)
        if normalized is None or not _is_fixed_normalization(normalized, conv):
            continue
        _, *parameters = normalized.inputs
        scale, shift, mean, variance = (_value_of(node, normalized) for node in parameters)
        epsilon = float(Arguments(normalized.annotation.operator_def).get("epsilon", 1e-5))
        factors = scale / np.sqrt(variance + epsilon)
        weights = _value_of(conv.inputs[1], conv)
        bias = _value_of(conv.inputs[2], conv) if len(conv.inputs) > 2 else np.zeros_like(mean)
        _set(nn, conv, 1, weights * factors.reshape(-1, *[1] * (weights.ndim - 1)))
        _set(nn, conv, 2, (bias - mean) * factors + shift)
        _let_write(nn, conv, normalized)


def _is_fixed_normalization(node: Node, conv: Node) -> bool:
    """Whether an operator normalizes by moments that it reads."""
    if node.name != "SpatialBN" or len(node.inputs) != 5 or _order(node) != _order(conv):
        return False
    return bool(Arguments(node.annotation.operator_def).get("is_test", 0)) and len(node.outputs) == 1


def _value_of(tensor: Node, reader: Node) -> _Array:
    if tensor.hasProducer() or not workspace.HasBlob(tensor.name):
        raise RunError(
            f"{reader.name} is changed together with its parameters, and '{tensor.name}' has no value",
            hint="run the net that writes the parameters first",
        )
    return np.asarray(workspace.FetchBlob(tensor.name), np.float64)


def _set(nn: NNModule, conv: Node, place: int, value: _Array) -> None:
    """Give an operator other parameters; under their old name if nothing else in the net reads it."""
    if place < len(conv.inputs) and len(conv.inputs[place].consumers) == 1:
        name = conv.inputs[place].name
    else:
        taken = {tensor.name for tensor in nn.tensors} | set(workspace.Blobs())
        prefix = "_weights" if place == 1 else "_bias"
        name = next(name for number in itertools.count() if (name := f"{prefix}{number}") not in taken)
        tensor = nn.createNode(NeuralNetData(name))
        if place < len(conv.inputs):
            edge = conv.incoming[place]
            edge.tail.outgoing.remove(edge)
            edge.tail = tensor
            tensor.outgoing.append(edge)
        else:
            nn.createEdge(tensor, conv)
    workspace.FeedBlob(name, value.astype(np.float32))


def _order(node: Node) -> str:
    order: bytes | str = Arguments(node.annotation.operator_def).get("order", b"NCHW")
    return order.decode() if isinstance(order, bytes) else order


def _only_reader(conv: Node, outputs: set[str]) -> Node | None:
    """The operator that alone reads what another one writes, if the net doesn't give it away."""
    (result,) = conv.outputs
    readers = result.consumers
    return readers[0] if len(readers) == 1 and result.name not in outputs else None


def _let_write(nn: NNModule, first: Node, second: Node) -> None:
    """Let an operator write at once what the next one makes of its result."""
    (between,), (result,) = first.outputs, second.outputs
    nn.deleteNode(between)
    nn.deleteNode(second)
    nn.createEdge(first, result)


def _free_name(nn: NNModule, prefix: str) -> str:
    node = nn.createUniqueDataNode(prefix)
    name = node.getName()
    nn.deleteNode(node)
    return name


_CHANGES: dict[str, Callable[[NNModule, set[str]], None]] = {
    "AddNNPACK": _add_nnpack,
    "FuseConvBN": _fuse_normalization,
    "FuseNNPACKConvRelu": _fuse_relu,
}


class Transformer:
    """Changes of nets by name: ``AddNNPACK``, ``FuseNNPACKConvRelu`` and ``FuseConvBN``.

    ``Transformer().FuseConvBN(net)`` changes the net.
    """

    @classmethod
    def runTransform(cls, transform_name: str, net: core.Net) -> None:
        """Change a net.

        Args:
            transform_name: ``AddNNPACK`` names the engine NNPACK at convolutions on the processor.
                ``FuseNNPACKConvRelu`` puts a Relu into such a convolution before it, as its argument
                ``activation``. ``FuseConvBN`` puts a normalization by given moments (``is_test``) into the
                weights and the bias of the convolution before it, in the current workspace.
            net: The net.

        Raises:
            AttributeError: There is no change of that name.
            RunError: A parameter that is to be changed has no value.
        """
        if transform_name not in _CHANGES:
            raise AttributeError(
                f"Transformation {transform_name} not found{nearest(transform_name, _CHANGES)}"
            )
        definition = net.Proto()
        graph = NNModule(net)
        _CHANGES[transform_name](graph, set(definition.external_output))
        changed: NetDef = graph.convertToCaffe2Proto(definition)
        definition.CopyFrom(changed)

    def __getattr__(self, transform_name: str) -> Callable[[core.Net], None]:
        return lambda net: self.runTransform(transform_name, net)


def fuseNNPACKConvRelu(net: core.Net) -> None:
    """Put a Relu into the convolution before it; see `Transformer.runTransform`."""
    Transformer.runTransform("FuseNNPACKConvRelu", net)


def fuseConvBN(net: core.Net) -> None:
    """Put a normalization into the convolution before it; see `Transformer.runTransform`."""
    Transformer.runTransform("FuseConvBN", net)
