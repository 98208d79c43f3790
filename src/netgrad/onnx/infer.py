"""Element type and shape of one node's outputs, by the standard's own inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper

from netgrad.onnx.attributes import attributes_key
from netgrad.onnx.view import Dim, Structure, TensorInfo


@cache
def schema_of(op_type: str, opset: int, domain: str = "") -> onnx.defs.OpSchema | None:
    """The schema of an operator at an opset version, or None where the installed onnx knows none."""
    try:
        return onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None


def attribute_default(schema: onnx.defs.OpSchema, name: str) -> Any:
    """The default that the schema gives to an attribute, or None where it gives none."""
    attribute = schema.attributes.get(name)
    if attribute is None or not attribute.default_value.name:
        return None
    value = helper.get_attribute_value(attribute.default_value)
    return value.decode() if isinstance(value, bytes) else value


def _type_proto(info: TensorInfo) -> onnx.TypeProto | None:
    if info.dtype is None:
        return None
    proto = helper.make_tensor_type_proto(int(info.dtype), None if info.shape is None else list(info.shape))
    if info.structure in (Structure.SEQUENCE, Structure.OPTIONAL_SEQUENCE):
        proto = helper.make_sequence_type_proto(proto)
    return helper.make_optional_type_proto(proto) if info.structure.is_optional else proto


def _info(proto: onnx.TypeProto | None) -> TensorInfo:
    structure = Structure.TENSOR
    if proto is not None and proto.HasField("optional_type"):
        proto, structure = proto.optional_type.elem_type, Structure.OPTIONAL
    if proto is not None and proto.HasField("sequence_type"):
        proto = proto.sequence_type.elem_type
        structure = Structure.OPTIONAL_SEQUENCE if structure.is_optional else Structure.SEQUENCE
    if proto is None or not proto.HasField("tensor_type") or not proto.tensor_type.elem_type:
        return TensorInfo()
    dtype = ir.DataType(proto.tensor_type.elem_type)
    if not proto.tensor_type.HasField("shape"):
        return TensorInfo(dtype, structure=structure)
    dims: list[Dim] = []
    for dim in proto.tensor_type.shape.dim:
        dims.append(dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None))
    return TensorInfo(dtype, tuple(dims), structure=structure)


def attribute_proto(name: str, value: Any) -> onnx.AttributeProto:
    """An attribute as ONNX writes it. Numbers and lists of them go the short way: there are many."""
    plain = value[0] if isinstance(value, list | tuple) and value else value
    if isinstance(plain, int | float | str):
        return helper.make_attribute(name, value)
    (attribute,) = ir.convenience.convert_attributes({name: value})
    proto = ir.serde.serialize_attribute(attribute)
    assert isinstance(proto, onnx.AttributeProto), "an attribute is written as an attribute"
    return proto


def infer_node(
    op_type: str,
    domain: str,
    opset: int,
    inputs: Sequence[TensorInfo | None],
    attributes: Mapping[str, Any],
    outputs: int,
) -> list[TensorInfo]:
    """Infer the outputs of one node.

    Args:
        op_type: Operator type.
        domain: Operator domain.
        opset: Version of that domain.
        inputs: What is known of each input; None for an operand that is left out.
        attributes: Python values or `onnx_ir.Attr` of the node's attributes.
        outputs: How many outputs the node has.

    Returns:
        One entry per output. Entries are empty where the standard's inference says nothing.
    """
    schema = schema_of(op_type, opset, domain)
    if schema is None:
        return [TensorInfo()] * outputs
    if not all(map(_is_plain, attributes.values())) or any(map(_is_long, inputs)):
        return _inferred(schema, opset, inputs, attributes, outputs)
    symbols: dict[str, str] = {}
    renamed = [None if info is None else _renamed(info, symbols) for info in inputs]
    key = (
        *(op_type, domain, opset, outputs, attributes_key(attributes)),
        *(None if info is None else _info_key(info) for info in renamed),
    )
    found = _known.get(key)
    if found is None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        found = _known[key] = _inferred(schema, opset, renamed, attributes, outputs)
    names: dict[Dim, Dim] = {new: old for old, new in symbols.items()}
    return [
        info
        if info.shape is None
        else TensorInfo(
            info.dtype,
            tuple(names.get(dim) if isinstance(dim, str) else dim for dim in info.shape),
            structure=info.structure,
        )
        for info in found
    ]


_known: dict[Any, list[TensorInfo]] = {}
"""What was inferred, for operators on operands of the same types: models repeat themselves.

Names of dims are numbered in the order of their use, since only their equality counts.
"""

_MOST_KNOWN = 1 << 14


_SMALL = 1 << 10  # bytes of a tensor that may be part of what is known


def _is_plain(value: Any) -> bool:
    """Whether an attribute is numbers or texts, or a small tensor."""
    if isinstance(value, list | tuple):
        return all(isinstance(one, int | float | str) for one in value)
    return isinstance(value, int | float | str) or (isinstance(value, ir.Tensor) and value.nbytes <= _SMALL)


def _is_long(info: TensorInfo | None) -> bool:
    """Whether an operand is a constant that would be kept, and is not small."""
    constant = None if info is None else info.constant
    return constant is not None and constant.ndim <= 1 and constant.nbytes > _SMALL


def _renamed(info: TensorInfo, names: dict[str, str]) -> TensorInfo:
    """The same with other names of dims; one that has no new name yet gets the next number."""
    if info.shape is None or not any(isinstance(dim, str) for dim in info.shape):
        return info
    shape = tuple(
        [names.setdefault(dim, f"d{len(names)}") if isinstance(dim, str) else dim for dim in info.shape]
    )
    return TensorInfo(info.dtype, shape, info.constant, info.structure)


def _info_key(info: TensorInfo) -> Any:
    constant = info.constant
    content = None
    if constant is not None and constant.ndim <= 1:
        content = (constant.dtype.str, constant.shape, constant.tobytes())
    return info.dtype, info.shape, info.structure, content


def _inferred(
    schema: onnx.defs.OpSchema,
    opset: int,
    inputs: Sequence[TensorInfo | None],
    attributes: Mapping[str, Any],
    outputs: int,
) -> list[TensorInfo]:
    domain = schema.domain
    names = ["" if info is None else f"i{k}" for k, info in enumerate(inputs)]
    node = onnx.NodeProto(op_type=schema.name, domain=domain)
    node.input.extend(names)
    node.output.extend(f"o{k}" for k in range(outputs))
    for name, value in attributes.items():
        node.attribute.append(attribute_proto(name, value))
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for name, info in zip(names, inputs, strict=True):
        if info is None:
            continue
        proto = _type_proto(info)
        if proto is None:
            return [TensorInfo()] * outputs
        types[name] = proto
        if info.constant is not None and info.constant.ndim <= 1:
            data[name] = numpy_helper.from_array(np.asarray(info.constant), name)
    try:
        inferred = onnx.shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=[helper.make_opsetid(domain, opset)]
        )
    except onnx.shape_inference.InferenceError:
        # The checker judges the finished model; here an operator that cannot be inferred is only unknown.
        return [TensorInfo()] * outputs
    return [_info(inferred.get(f"o{k}")) for k in range(outputs)]
