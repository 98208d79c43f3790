"""The nodes of an ONNX graph as core operators, and what is known of each value's type."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from netgrad.core.operator import Operator
from netgrad.onnx.body import Body

Dim: TypeAlias = int | str | None
"""A size, a symbol that stands for one size throughout the model, or nothing known."""

# Constants above this many elements are weights or data; no rule looks at their values.
_LARGEST_VISIBLE_CONSTANT = 4096

FLOATING = frozenset(
    {
        ir.DataType.FLOAT,
        ir.DataType.DOUBLE,
        ir.DataType.FLOAT16,
        ir.DataType.BFLOAT16,
    }
)
"""The element types that a gradient can have."""


_TYPES = frozenset({ir.AttributeType.TYPE_PROTO, ir.AttributeType.TYPE_PROTOS})


class Structure(enum.Enum):
    """What a value is made of: one tensor, or several, or perhaps none."""

    TENSOR = "tensor"
    SEQUENCE = "sequence"
    OPTIONAL = "optional tensor"
    OPTIONAL_SEQUENCE = "optional sequence"

    @property
    def is_optional(self) -> bool:
        """Whether the value may hold nothing."""
        return self in (Structure.OPTIONAL, Structure.OPTIONAL_SEQUENCE)


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """What is known of one value before the net runs.

    Attributes:
        dtype: Element type, or None where unknown; of a sequence or an optional, that of its tensors.
        shape: Dims in order, or None where not even the rank is known; of a sequence or an optional, what
            is known of the shape of all its tensors.
        constant: The value itself where it is a small constant that no one may change, else None.
        structure: Whether the value is a tensor at all.
    """

    dtype: ir.DataType | None = None
    shape: tuple[Dim, ...] | None = None
    constant: np.ndarray | None = None
    structure: Structure = Structure.TENSOR

    @property
    def plain(self) -> TensorInfo:
        """The same without content: what is known of a value that may change."""
        return self if self.constant is None else replace(self, constant=None)

    @property
    def ir_type(self) -> ir.TypeProtocol | None:
        """The type as a model states it, None where the element type is unknown."""
        if self.dtype is None:
            return None
        found: ir.TypeProtocol = ir.TensorType(self.dtype)
        if self.structure in (Structure.SEQUENCE, Structure.OPTIONAL_SEQUENCE):
            found = ir.SequenceType(found)
        return ir.OptionalType(found) if self.structure.is_optional else found


def structure_of(type_: ir.TypeProtocol | None) -> Structure:
    """What a value of this type is made of; a tensor where the type is unknown."""
    if isinstance(type_, ir.OptionalType):
        inside = isinstance(type_.elem_type, ir.SequenceType)
        return Structure.OPTIONAL_SEQUENCE if inside else Structure.OPTIONAL
    return Structure.SEQUENCE if isinstance(type_, ir.SequenceType) else Structure.TENSOR


def dims_of(shape: ir.Shape | None) -> tuple[Dim, ...] | None:
    """The dims of an IR shape as integers, symbols and None."""
    if shape is None:
        return None
    return tuple(dim if isinstance(dim, int) else dim.value for dim in shape)


def tensor_info(value: ir.Value, *, variable: bool = False) -> TensorInfo:
    """What the model says of ``value``.

    Args:
        value: A value of the graph.
        variable: True for a value whose content may change between runs (a weight that is asked for, a
            graph input), so that its present content must not enter the gradient's structure.
    """
    constant = None
    tensor = value.const_value
    if tensor is not None and not variable and not value.is_graph_input():
        if tensor.size <= _LARGEST_VISIBLE_CONSTANT and tensor.dtype is not ir.DataType.STRING:
            constant = np.asarray(tensor.numpy())
        shape: tuple[Dim, ...] | None = tuple(tensor.shape.numpy())
        return TensorInfo(tensor.dtype, shape, constant)
    if tensor is not None:
        return TensorInfo(tensor.dtype, tuple(tensor.shape.numpy()), None)
    sparse = isinstance(value.type, ir.SparseTensorType)
    dtype = None if sparse or value.type is None else value.type.dtype
    return TensorInfo(dtype, dims_of(value.shape), None, structure_of(value.type))


def subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    """The graphs that ``node`` holds as attributes."""
    for attribute in node.attributes.values():
        if isinstance(attribute, ir.Attr):
            if attribute.type is ir.AttributeType.GRAPH:
                yield attribute.as_graph()
            elif attribute.type is ir.AttributeType.GRAPHS:
                yield from attribute.as_graphs()


def captured_values(node: ir.Node) -> list[ir.Value]:
    """Outer values that the graphs inside ``node`` read, at any depth, each once and in order of use."""
    captured: dict[ir.Value, None] = {}
    pending = [(graph, frozenset[ir.Value]()) for graph in subgraphs(node)]
    while pending:
        graph, outer_defined = pending.pop()
        defined = set(outer_defined)
        defined.update(graph.inputs)
        defined.update(graph.initializers.values())
        for inner in graph:
            for value in inner.inputs:
                if value is not None and value not in defined:
                    captured[value] = None
            defined.update(inner.outputs)
            pending.extend((nested, frozenset(defined)) for nested in subgraphs(inner))
        for value in graph.outputs:
            if value not in defined:
                captured[value] = None
    return list(captured)


def name_of(value: ir.Value | None) -> str:
    """The blob name of a value; ``""`` for an operand or an output that is left out."""
    if value is None:
        return ""
    assert value.name is not None, "a prepared graph names every value"
    return value.name


def operator_of(node: ir.Node) -> Operator:
    """One node as a core operator.

    Values that the node's subgraphs capture are appended to its inputs, so that no use of a value is
    hidden from the backward pass; a graph among its attributes is given as a `Body`, and a type as the whole
    attribute, because a type by itself does not say that it is one.
    """
    inputs = [name_of(value) for value in node.inputs]
    captured = tuple(name_of(value) for value in captured_values(node))
    attributes: dict[str, object] = {}
    for name, attribute in node.attributes.items():
        if isinstance(attribute, ir.Attr):
            if attribute.type is ir.AttributeType.GRAPH:
                attributes[name] = _body_of(attribute.as_graph(), captured)
            else:
                attributes[name] = attribute if attribute.type in _TYPES else attribute.value
    return Operator(
        type=node.op_type,
        inputs=(*inputs, *captured),
        outputs=tuple(name_of(value) for value in node.outputs),
        attributes=attributes,
        domain="" if node.domain in ("", "ai.onnx") else node.domain,
        name=node.name or "",
    )


def _body_of(graph: ir.Graph, captured: tuple[str, ...]) -> Body:
    return Body(
        tuple(name_of(value) for value in graph.inputs),
        tuple(name_of(value) for value in graph.outputs),
        captured,
        tuple(operators_of(graph)),
        value_types(graph),
    )


def operators_of(graph: ir.Graph) -> list[Operator]:
    """All nodes of ``graph`` as core operators, in the graph's order."""
    return [operator_of(node) for node in graph]


def values_of(graph: ir.Graph) -> Iterable[ir.Value]:
    """Every named value of the outer graph: inputs, initializers, node outputs."""
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        yield from (value for value in node.outputs if value.name)


def value_types(graph: ir.Graph, variables: Collection[str] = ()) -> dict[str, TensorInfo]:
    """What is known of every value of ``graph``, by name.

    Args:
        graph: A prepared graph.
        variables: Names whose present content must not be used (see `tensor_info`).
    """
    return {
        value.name: tensor_info(value, variable=value.name in variables)
        for value in values_of(graph)
        if value.name
    }


def all_names(graph: ir.Graph) -> set[str]:
    """Every value name used in ``graph`` and in the graphs inside it."""
    names = {value.name for value in values_of(graph) if value.name}
    for inner in graph.subgraphs():
        names.update(value.name for value in values_of(inner) if value.name)
    return names
