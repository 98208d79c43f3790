"""An ONNX model as a pair of Caffe2 nets with the same names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.arguments import make_argument
from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.onnx_import.node import NUMBERS, Target
from netgrad.caffe2.onnx_import.operators import write_operators
from netgrad.caffe2.onnx_import.own import DOMAIN, take_over
from netgrad.caffe2.onnx_import.registry import WRITERS
from netgrad.caffe2.saved_model import SavedModel, init_net_of
from netgrad.core import InvalidArgumentError, InvalidModelError
from netgrad.core.errors import nearest
from netgrad.onnx.expand import expand
from netgrad.onnx.prepare import prepare
from netgrad.onnx.read import ModelSource, load
from netgrad.onnx.recurrent import RECURRENT
from netgrad.onnx.view import Dim, all_names, operators_of, value_types

_GROUP_NORM = 21  # the version from which its scale is one of channels, as Caffe2's is
_RAW = (ir.DataType.UINT8, ir.DataType.INT8)  # no fill writes their shape


def from_onnx(source: ModelSource, *, shapes: Mapping[str, Sequence[Dim]] | None = None) -> SavedModel:
    """Write an ONNX model in Caffe2's operators: initializers become parameters, and values keep their names.

    What Caffe2 takes as arguments (shapes, axes, bounds) has to be known; the others may be computed.
    Operators that Caffe2 has no word for are written as the standard defines them, if it does.

    Args:
        source: The model: whatever `netgrad.load` takes.
        shapes: Shapes of inputs, in place of those that the model says.

    Raises:
        InvalidModelError: The model can't be read.
        InvalidArgumentError: ``shapes`` names what is no input, or says another rank.
        UnsupportedOperatorError: Caffe2 can't express an operator in its form; all of them are named.
    """
    model = load(source)
    _set_shapes(model, shapes or {})
    target, graph = write_graph(model)
    net = target.net
    net.external_input.extend(value.name or "" for value in graph.inputs)
    net.external_input.extend(target.parameters)
    net.external_output.extend(value.name or "" for value in graph.outputs)
    return SavedModel(net, init_net_of(target.parameters, f"{net.name}_init"))


def write_graph(model: ir.Model, *, untyped: bool = False) -> tuple[Target, ir.Graph]:
    """Write the operators of a model, which may be changed.

    Args:
        model: The model.
        untyped: Whether its inputs may be without a type.

    Returns:
        The net without its external inputs and outputs, with the parameters, and the prepared graph.
    """
    model = prepare(model, opaque=take_over(model)).model
    opset = model.opset_imports[""]
    outputs = [value.name or "" for value in model.graph.outputs]
    expand(model, lambda node: _is_expanded(node, opset), keep=outputs)
    graph = model.graph
    if not untyped:
        _check_inputs(graph)
    types = value_types(graph)
    net = NetDef(name=graph.name or "net")
    target = Target(net, types, all_names(graph))
    write_operators(operators_of(graph), opset, target, outputs)
    _write_constant_outputs(graph, target)
    _add_parameters(graph, target)
    return target, graph


def _is_expanded(node: ir.Node, opset: int) -> bool:
    """Whether an operator is written as the standard defines it."""
    if node.domain == DOMAIN:
        return False
    if node.domain not in ("", "ai.onnx"):
        return True
    if node.op_type == "GroupNormalization" and opset < _GROUP_NORM:
        return True
    return node.op_type not in WRITERS and node.op_type not in RECURRENT


def _set_shapes(model: ir.Model, shapes: Mapping[str, Sequence[Dim]]) -> None:
    inputs = {value.name or "": value for value in model.graph.inputs}
    for name, shape in shapes.items():
        if name not in inputs:
            raise InvalidArgumentError(f"the model has no input '{name}'{nearest(name, inputs)}")
        value = inputs[name]
        if value.shape is not None and len(value.shape) != len(shape):
            raise InvalidArgumentError(
                f"the shape of '{name}' has {len(shape)} dims, and the model's input has {len(value.shape)}"
            )
        value.shape = ir.Shape(shape)
    if shapes:  # what the model says of values in between was told with the shapes before
        for node in model.graph.all_nodes():
            for output in node.outputs:
                if not output.is_graph_output():
                    output.shape = None
        for output in model.graph.outputs:
            output.shape = None


def _check_inputs(graph: ir.Graph) -> None:
    for value in graph.inputs:
        if not isinstance(value.type, ir.TensorType) or value.dtype not in NUMBERS:
            raise InvalidModelError(
                f"input '{value.name}' is {value.type}, and Caffe2 has no blobs of that type"
            )


def _write_constant_outputs(graph: ir.Graph, target: Target) -> None:
    """Copies, where an output of the model is a constant: a blob that the net doesn't write is no result."""
    for value in graph.outputs:
        if value.is_initializer() and value.const_value is not None:
            name = target.fresh(f"{value.name}_value")
            target.parameters[name] = value.const_value.numpy()
            target.net.op.append(OperatorDef(type="Copy", name="", input=[name], output=[value.name or ""]))


def _add_parameters(graph: ir.Graph, target: Target) -> None:
    """The initializers that the written operators read."""
    read = {name for op in target.net.op for name in op.input}
    casts = []
    for name, value in graph.initializers.items():
        if name not in read or value.const_value is None:
            continue
        dtype = value.const_value.dtype
        if dtype not in NUMBERS:
            raise InvalidModelError(
                f"initializer '{name}' is of {dtype.name.lower()}, and Caffe2 has no tensors of it"
            )
        array = value.const_value.numpy()
        if dtype in _RAW:
            wide = target.fresh(f"{name}_int32")
            target.parameters[wide] = array.astype(np.int32)
            cast = OperatorDef(type="Cast", name="", input=[wide], output=[name])
            cast.arg.append(make_argument("to", NUMBERS[dtype]))
            casts.append(cast)
        else:
            target.parameters[name] = array
    if casts:
        rest = list(target.net.op)
        del target.net.op[:]
        target.net.op.extend([*casts, *rest])
