"""A model computed in float64 throughout, for measuring its derivatives.

Central differences of a float32 model keep three or four digits; of the same model in float64, nine or ten.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import onnx
import onnx_ir

from netgrad.onnx.edit import all_values
from netgrad.onnx.expand import expand, has_definition
from netgrad.onnx.infer import attribute_default, schema_of
from netgrad.onnx.read import ModelSource, load
from netgrad.onnx.shapes import infer_shapes
from netgrad.onnx.view import FLOATING, captured_values, subgraphs, values_of

_DOUBLE = onnx_ir.DataType.DOUBLE
_NARROW = FLOATING - {_DOUBLE}

_DTYPE_ATTRIBUTES = ("to", "dtype", "output_datatype", "softmax_precision")
"""Attributes that name the element type of what an operator gives or computes in."""

_STASHED_IN_FUNCTION = frozenset({"GroupNormalization", "RMSNormalization"})
"""Operators that are run through a function body which casts to ``stash_type``.

LayerNormalization has kernels that ignore it, and an evaluator that refuses any but float32's.
"""

_FLOAT32_INSIDE = frozenset({"AffineGrid", "CausalConvWithState", "LinearAttention"})
"""Operators that runtimes compute in float32 whatever they are given; their definitions can be widened."""


def to_float64(model: ModelSource) -> onnx_ir.Model:
    """A copy of ``model`` in which every floating-point value is float64.

    Inputs, initializers, constants, casts and types given as attributes are changed alike. Where an operator
    takes or gives float32 only (the scales of Resize), casts are put around it. Operators that would compute
    in float32 all the same are expanded into their definitions.

    Args:
        model: The model; it is not changed.
    """
    wide = load(model)
    infer_shapes(wide)  # casts go by types, and the nodes of a gradient have none of their own
    expand(
        wide,
        _narrow_inside(wide.opset_imports.get("", 0)),
        keep={*wide.graph.initializers, *(v.name or "" for v in wide.graph.outputs)},
    )
    containers: list[tuple[Any, dict[str, int]]] = [(wide.graph, wide.opset_imports)]
    containers += [(function, function.opset_imports) for function in wide.functions.values()]
    for container, opsets in containers:
        for node in list(onnx_ir.traversal.RecursiveGraphIterator(container)):
            opset = opsets.get("", onnx.defs.onnx_opset_version())
            _widen_attributes(node, opset)
            _cast_around(node, opset)
    for value in all_values(wide):
        _widen_value(value)
    return wide


def narrowed(model: onnx_ir.Model, names: Collection[str]) -> bool:
    """Whether what is computed from ``names`` passes a narrower type in a model that `to_float64` gave."""
    reached = {value for value in values_of(model.graph) if value.name in names}
    for node in onnx_ir.traversal.RecursiveGraphIterator(model.graph):
        if not any(value in reached for value in (*node.inputs, *captured_values(node))):
            continue
        for graph in subgraphs(node):
            reached.update(graph.inputs)
        to = node.attributes.get("to") if node.op_type == "Cast" else None
        if to is not None and not to.is_ref() and to.value in _NARROW:
            return True
        reached.update(node.outputs)
    return False


def _narrow_inside(opset: int) -> Callable[[onnx_ir.Node], bool]:
    """Whether runtimes compute a node in float32, or some output of it."""

    def narrow(node: onnx_ir.Node) -> bool:
        if node.domain not in ("", "ai.onnx"):
            return False
        if node.op_type == "LayerNormalization":  # the mean and the deviation of its kernels are float32
            return any(output.uses() or output.is_graph_output() for output in node.outputs[1:])
        schema = schema_of(node.op_type, opset)
        narrow = schema is not None and _float32_only(schema, schema.inputs, 0)
        return node.op_type in _FLOAT32_INSIDE or (narrow and has_definition(node, opset))

    return narrow


def _widen_value(value: onnx_ir.Value) -> None:
    tensor = value.const_value
    if tensor is not None and tensor.dtype in _NARROW:
        value.const_value = onnx_ir.tensor(np.asarray(tensor.numpy(), np.float64), name=value.name)
    value.type = _wide_type(value.type)


def _wide_type(type_: Any) -> Any:
    if isinstance(type_, (onnx_ir.SequenceType, onnx_ir.OptionalType)):
        return type(type_)(_wide_type(type_.elem_type))
    if isinstance(type_, onnx_ir.TensorType) and type_.dtype in _NARROW:
        return onnx_ir.TensorType(_DOUBLE)
    return type_


def _widen_attributes(node: onnx_ir.Node, opset: int) -> None:
    """Let the attributes of ``node`` speak of float64 where they speak of a narrower type."""
    if node.domain not in ("", "ai.onnx"):
        return
    for name, attribute in list(node.attributes.items()):
        if attribute.is_ref():
            continue
        if attribute.type == onnx_ir.AttributeType.TENSOR and attribute.as_tensor().dtype in _NARROW:
            _set_tensor(node, name, attribute.as_tensor().numpy())
        elif attribute.type == onnx_ir.AttributeType.TYPE_PROTO:
            stated = attribute.value
            wide = onnx_ir.TypeAndShape(_wide_type(stated.type), stated.shape)
            node.attributes[name] = onnx_ir.AttrTypeProto(name, wide)
    if node.op_type == "Constant":
        for name in ("value_float", "value_floats"):
            given = node.attributes.get(name)
            if given is not None and not given.is_ref():
                del node.attributes[name]
                _set_tensor(node, "value", np.asarray(given.value))
    if node.op_type == "ConstantOfShape" and "value" not in node.attributes:
        _set_tensor(node, "value", np.zeros(1))
    schema = schema_of(node.op_type, opset)
    for name in _DTYPE_ATTRIBUTES:
        given = node.attributes.get(name)
        if given is not None:
            current: Any = None if given.is_ref() else given.value
        elif node.op_type == "SequenceEmpty" and name == "dtype":
            current = int(onnx_ir.DataType.FLOAT)  # by its description; the schema gives no default
        else:
            current = None if schema is None else attribute_default(schema, name)
        if isinstance(current, int) and current in _NARROW:
            node.attributes[name] = onnx_ir.AttrInt64(name, int(_DOUBLE))
    if node.op_type in _STASHED_IN_FUNCTION:
        node.attributes["stash_type"] = onnx_ir.AttrInt64("stash_type", int(_DOUBLE))


def _set_tensor(node: onnx_ir.Node, name: str, array: Any) -> None:
    node.attributes[name] = onnx_ir.AttrTensor(name, onnx_ir.tensor(np.asarray(array, np.float64)))


def _cast_around(node: onnx_ir.Node, opset: int) -> None:
    """Put casts where the schema of ``node`` has float32 but not float64."""
    schema = None if node.domain not in ("", "ai.onnx") else schema_of(node.op_type, opset)
    if schema is None:
        return
    for index, value in enumerate(node.inputs):
        if value is not None and _float32_only(schema, schema.inputs, index):
            narrow = _cast(onnx_ir.DataType.FLOAT, value)
            node.prepend(narrow)
            node.replace_input_with(index, narrow.outputs[0])
    for index, value in enumerate(node.outputs):
        # the type may be unknown, where nothing was inferred: what can be float32 only is narrow
        narrow_or_unknown = value.dtype is None or value.dtype in _NARROW
        if narrow_or_unknown and _float32_only(schema, schema.outputs, index):
            wide = _cast(_DOUBLE, value)
            result = wide.outputs[0]
            result.name, result.type, result.shape = value.name, value.type, value.shape
            value.name, value.type, value.shape = f"{value.name}_narrow", None, None
            onnx_ir.convenience.replace_all_uses_with(value, result, replace_graph_outputs=True)
            wide.replace_input_with(0, value)
            node.append(wide)


def _cast(to: onnx_ir.DataType, value: onnx_ir.Value) -> onnx_ir.Node:
    return onnx_ir.Node("", "Cast", [value], [onnx_ir.AttrInt64("to", int(to))])


def _float32_only(schema: onnx.defs.OpSchema, formals: Any, index: int) -> bool:
    """Whether the operand at ``index`` can be float32 and cannot be float64."""
    if not formals:
        return False
    formal = formals[min(index, len(formals) - 1)]
    allowed = next(
        (set(c.allowed_type_strs) for c in schema.type_constraints if c.type_param_str == formal.type_str),
        {formal.type_str},
    )
    return "tensor(float)" in allowed and "tensor(double)" not in allowed
