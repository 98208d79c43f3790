"""Shape and type inference over a whole model."""

from __future__ import annotations

import onnx
import onnx.shape_inference
import onnx_ir

from netgrad.onnx.attention_shapes import imply_attention_shapes, is_attention
from netgrad.onnx.carried import fed, infer_carried
from netgrad.onnx.edit import all_graphs, all_values
from netgrad.onnx.ranks import imply_ranks
from netgrad.onnx.read import has_maps

_UNINFERRED = frozenset({"GroupNormalization", "MeanVarianceNormalization"})
"""Operators that the standard gives no inference; their output is like their first input."""

_OPAQUE = "netgrad.opaque"
"""A domain of which the standard knows nothing."""

_SMALL = 1024  # bytes; an initializer up to this size may hold a shape, and inference sees its content


def infer_shapes(model: onnx_ir.Model) -> set[onnx_ir.Value]:
    """Give every value of the model, in place, the type and shape that follow from what it reads.

    A dim is a number, one of the names that the model uses for dims already, or unknown (a dim whose value is
    None). What the model says of a value stays where inference knows less. A model that inference cannot
    read, or whose own shapes contradict each other, gets what can be had without them; nothing is raised.

    Returns:
        What has no shape to be had because a Loop changes its rank (see `infer_carried`).
    """
    _write_out_defaults(model)
    symbols = {
        dim.value
        for value in all_values(model)
        for dim in value.shape or ()
        if isinstance(dim, onnx_ir.SymbolicDim)
    }
    inferred = _inferred(model)
    if inferred is None:  # perhaps because of what the model says of values in between
        for graph in all_graphs(model):
            for node in graph:
                for output in node.outputs:
                    if not output.is_graph_output():
                        output.shape = None
        inferred = _inferred(model)
    while inferred is not None:
        _read_back(model.graph, inferred.graph, symbols)
        more = imply_attention_shapes(model)
        inferred = _inferred(model) if imply_ranks(model) or more else None
    return infer_carried(model, lambda: _infer_again(model, symbols))


def _infer_again(model: onnx_ir.Model, symbols: set[str | None]) -> bool:
    inferred = _inferred(model)
    if inferred is not None:
        _read_back(model.graph, inferred.graph, symbols)
    return inferred is not None


def _write_out_defaults(model: onnx_ir.Model) -> None:
    """Give STFT its default as an attribute: the standard's inference takes it for 0, but it is 1."""
    for graph in model.graphs():
        for node in graph:
            if (
                node.op_type == "STFT"
                and node.domain in ("", "ai.onnx")
                and "onesided" not in node.attributes
            ):
                node.attributes["onesided"] = onnx_ir.AttrInt64("onesided", 1)


def infer_shapes_anew(model: onnx_ir.Model) -> None:
    """Infer shapes without trusting what the model says of values in between and of its outputs.

    Tools that make a model's batch size dynamic often leave the former size everywhere else, and exporters
    give what a Loop carries the sizes that it starts with; a gradient written for these would be silently
    wrong. What the model says is taken only where nothing can be inferred, and of tensors: one shape for all
    tensors of a sequence or an optional is a claim that nobody checks.
    """
    stated = {
        value: value.shape
        for graph in all_graphs(model)
        for node in graph
        for value in (*node.outputs, *fed(node))
        if value.shape is not None
    }
    for value in stated:
        value.shape = None
    changing = infer_shapes(model)
    unknown = [v for v in stated if v.shape is None and _may_be_tensor(v) and v not in changing]
    for value in unknown:
        value.shape = stated[value]
    if unknown:
        infer_shapes(model)


def _may_be_tensor(value: onnx_ir.Value) -> bool:
    return not isinstance(value.type, onnx_ir.SequenceType | onnx_ir.OptionalType)


def _inferred(model: onnx_ir.Model) -> onnx.ModelProto | None:
    try:
        return onnx.shape_inference.infer_shapes(
            _inferable(_without_weights(model)), check_type=False, strict_mode=False, data_prop=True
        )
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return None


def _without_weights(model: onnx_ir.Model) -> onnx.ModelProto:
    """The model as a message in which large initializers are inputs: type and shape without the data."""
    graph = model.graph
    inputs = list(graph.inputs)
    initializers = list(graph.initializers.values())
    try:
        for value in initializers:
            if value.const_value is not None and value.const_value.nbytes > _SMALL:
                graph.initializers.pop(value.name or "")
                if not value.is_graph_input():
                    graph.inputs.append(value)
        return onnx_ir.to_proto(model)
    finally:
        graph.inputs[:] = inputs
        graph.initializers.clear()  # all of them, so that their order stays what it was
        for value in initializers:
            graph.initializers.add(value)


def _inferable(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The message, changed in place so that inference sees more.

    Operators that have no inference become Identity of their first input, and those whose inference is wrong
    become unknown. Inner graphs get their own copy of the integers that they read from the main graph:
    inference looks at no content from outside.
    """
    integers = {
        tensor.name: tensor
        for tensor in proto.graph.initializer
        if tensor.data_type in (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
    }
    proto.opset_import.add(domain=_OPAQUE, version=1)
    pending = [proto.graph]
    while pending:
        graph = pending.pop()
        if graph is not proto.graph:
            read = {name for node in graph.node for name in node.input}
            graph.initializer.extend(integers[name] for name in integers.keys() & read)
        for node in graph.node:
            if node.op_type in _UNINFERRED and node.domain in ("", "ai.onnx"):
                node.op_type = "Identity"
                del node.input[1:], node.attribute[:]
            if is_attention(node.domain, node.op_type):
                node.domain = _OPAQUE
            pending.extend(attribute.g for attribute in node.attribute if attribute.HasField("g"))
            pending.extend(graph for attribute in node.attribute for graph in attribute.graphs)
    return proto


def _read_back(graph: onnx_ir.Graph, proto: onnx.GraphProto, symbols: set[str | None]) -> None:
    types = {info.name: info.type for info in (*proto.value_info, *proto.output)}
    for node, node_proto in zip(graph, proto.node, strict=True):
        for output in node.outputs:
            if output.name in types and not has_maps(types[output.name]):
                _update(output, types[output.name], symbols)
        for attribute in node_proto.attribute:
            inner = node.attributes[attribute.name]
            if inner.type == onnx_ir.AttributeType.GRAPH:
                _read_back(inner.as_graph(), attribute.g, symbols)
            elif inner.type == onnx_ir.AttributeType.GRAPHS:
                for one, one_proto in zip(inner.as_graphs(), attribute.graphs, strict=True):
                    _read_back(one, one_proto, symbols)


def _update(value: onnx_ir.Value, proto: onnx.TypeProto, symbols: set[str | None]) -> None:
    new_type = onnx_ir.serde.deserialize_type_proto_for_type(proto)
    if new_type is not None and new_type.dtype != onnx_ir.DataType.UNDEFINED:
        value.type = new_type
    shape = onnx_ir.serde.deserialize_type_proto_for_shape(proto)
    if shape is None:
        return
    known = value.shape if value.shape is not None and value.shape.rank() == shape.rank() else None
    dims: list[int | str | None] = []
    for axis, dim in enumerate(shape):
        if isinstance(dim, int):
            dims.append(dim)
            continue
        # Inference invents names (unk__0) for dims that it can't tell; another run may give them to other
        # dims.
        name = dim.value if dim.value in symbols else None
        former = known[axis] if known is not None else None
        dims.append(former if isinstance(former, int) else name)
    value.shape = onnx_ir.Shape(dims)
