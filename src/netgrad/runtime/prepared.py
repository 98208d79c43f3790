"""What is done to a model before ONNX Runtime gets it: names of nodes, weights beside the message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir

from netgrad.core.errors import InvalidArgumentError, InvalidModelError, nearest
from netgrad.runtime.values import NATIVE

_SHARED_FROM = 1 << 20
"""Initializers of at least this many bytes are shared with ONNX Runtime instead of serialised."""

_MESSAGE_LIMIT = 2**31 - 1
"""The most bytes that a protobuf message can have."""


def promote_initializers(model: onnx_ir.Model, names: Iterable[str]) -> None:
    """Make inputs of the initializers ``names``, without a default."""
    graph = model.graph
    for name in dict.fromkeys(names):
        value = graph.initializers.pop(name, None)
        if value is None:
            raise InvalidArgumentError(f"no initializer '{name}'{nearest(name, graph.initializers)}")
        tensor = value.const_value
        if tensor is not None:
            value.dtype, value.shape = tensor.dtype, onnx_ir.Shape(tensor.shape.numpy())
            value.const_value = None
        if not value.is_graph_input():
            graph.inputs.append(value)


def name_nodes(model: onnx_ir.Model) -> None:
    """Give a name of its own to each node that has none or shares one."""
    _name_apart([node for graph in model.graphs() for node in graph])


def name_apart(model: onnx.ModelProto) -> None:
    """Give a name of its own to each node of a message that has none or shares one."""
    nodes: list[Any] = []
    graphs = [model.graph]
    while graphs:
        for node in graphs.pop().node:
            nodes.append(node)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    graphs.append(attribute.g)
                graphs.extend(attribute.graphs)
    _name_apart(nodes)


def _name_apart(nodes: Sequence[Any]) -> None:
    taken: set[str] = {node.name for node in nodes if node.name}
    seen: set[str] = set()
    for index, node in enumerate(nodes):
        if node.name and node.name not in seen:
            seen.add(node.name)
            continue
        stem = node.name or f"{node.op_type}_{index}"
        name, number = stem, 1
        while name in taken:
            name, number = f"{stem}_{number}", number + 1
        node.name = name
        taken.add(name)
        seen.add(name)


def take_apart(model: onnx_ir.Model) -> tuple[bytes, dict[str, np.ndarray[Any, Any]]]:
    """The serialised model without its large initializers, and those by name.

    The initializers are replaced in ``model`` for the time of the serialisation only.
    """
    shared: dict[str, np.ndarray[Any, Any]] = {}
    originals: dict[str, onnx_ir.TensorProtocol] = {}
    graph = model.graph
    for name, value in graph.initializers.items():
        tensor = value.const_value
        if tensor is None or tensor.dtype not in NATIVE or tensor.nbytes < _SHARED_FROM:
            continue
        shared[name] = np.ascontiguousarray(tensor.numpy())
        originals[name] = tensor
        value.const_value = onnx_ir.ExternalTensor(
            "shared-memory",
            0,
            tensor.nbytes,
            tensor.dtype,
            shape=onnx_ir.Shape(tensor.shape.numpy()),
            name=name,
        )
    try:
        return serialised(onnx_ir.to_proto(model)), shared
    finally:
        for name, tensor in originals.items():
            graph.initializers[name].const_value = tensor


def serialised(proto: onnx.ModelProto) -> bytes:
    """A message as ONNX Runtime reads it.

    Raises:
        InvalidModelError: It is too large for that.
    """
    size = proto.ByteSize()
    if size > _MESSAGE_LIMIT:
        raise InvalidModelError(
            f"the model is too large for ONNX Runtime: {size / 1e9:.1f} GB without its initializers"
            "; keep large constants as initializers, not in Constant nodes or inner graphs"
        )
    return proto.SerializeToString()
