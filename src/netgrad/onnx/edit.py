"""Small changes to a graph: new nodes before or behind others, shared constants, names that are free."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import onnx_ir
from numpy.typing import NDArray

from netgrad.core.operator import Operator

AttributeValue: TypeAlias = int | float | str | Sequence[int] | Sequence[float]
"""What a new node's attribute can be given as."""

CONSTANT_MARK: Final = "netgrad.constant"
"""Metadata key on tensors that are no parameters (see ``weights``); it survives a file."""

ELEMENT: Final = "element"
"""Its value on a tensor of one element that was a Constant node: a parameter only at a parameter position."""

DERIVED: Final = "derived"
"""Its value on a tensor that netgrad computed or added: never a parameter."""

SETTING: Final = "setting"
"""Its value on a tensor that was an attribute and can be differentiated by, but is no weight."""

EXPANDED_FROM: Final = "netgrad.expanded_from"
"""Metadata key on nodes of an expansion: the type and name of the operator that they stand for."""


def graph_values(graph: onnx_ir.Graph) -> Iterator[onnx_ir.Value]:
    """Inputs, initializers and node outputs of one graph, without the graphs inside it."""
    yield from graph.inputs
    for value in graph.initializers.values():
        if not value.is_graph_input():
            yield value
    for node in graph:
        yield from node.outputs


_GRAPH_KINDS = frozenset({onnx_ir.AttributeType.GRAPH, onnx_ir.AttributeType.GRAPHS})


def inner_graphs(node: onnx_ir.Node) -> list[onnx_ir.Graph]:
    """The graphs in a node's attributes (the branches of If, the body of Loop and Scan)."""
    graphs: list[onnx_ir.Graph] = []
    for attribute in node.attributes.values():
        if attribute.type not in _GRAPH_KINDS or attribute.is_ref():
            continue
        if attribute.type == onnx_ir.AttributeType.GRAPH:
            graphs.append(attribute.as_graph())
        else:
            graphs.extend(attribute.as_graphs())
    return graphs


def all_graphs(model: onnx_ir.Model) -> list[onnx_ir.Graph]:
    """The model's graph and every graph inside it, the outer one first; functions are left out."""
    graphs = [model.graph]
    for graph in graphs:  # the list grows while it is walked
        for node in graph:
            graphs += inner_graphs(node)
    return graphs


def all_values(model: onnx_ir.Model) -> Iterator[onnx_ir.Value]:
    """The values of the model's graph and of every graph inside it."""
    for graph in all_graphs(model):
        yield from graph_values(graph)


def copied(tensor: onnx_ir.TensorProtocol, name: str, mark: str = "") -> onnx_ir.TensorProtocol:
    """A tensor object of another name, and marked, over the same memory.

    A tensor is shared with the model it was read from, so neither its name nor its metadata may be changed.
    """
    if isinstance(tensor, onnx_ir.ExternalTensor):
        copy: onnx_ir.TensorProtocol = onnx_ir.ExternalTensor(
            tensor.location,
            tensor.offset,
            tensor.length,
            tensor.dtype,
            shape=tensor.shape,
            name=name,
            base_dir=tensor.base_dir,
        )
    elif tensor.dtype == onnx_ir.DataType.STRING:
        strings = np.array(tensor.numpy(), dtype=object)
        copy = onnx_ir.StringTensor(strings, shape=onnx_ir.Shape(tensor.shape.numpy()), name=name)
    else:
        shape = onnx_ir.Shape(tensor.shape.numpy())
        copy = onnx_ir.Tensor(tensor.numpy(), dtype=tensor.dtype, shape=shape, name=name)
    copy.metadata_props.update(tensor.metadata_props)
    if mark:
        copy.metadata_props[CONSTANT_MARK] = mark
    return copy


def constant_of(value: onnx_ir.Value | None) -> NDArray[Any] | None:
    """The content of an initializer, or None for what is computed, fed or left out."""
    if value is None or value.producer() is not None or value.const_value is None or value.is_graph_input():
        return None
    return value.const_value.numpy()


class CannotRewriteError(Exception):
    """A node has no equivalent in the wanted form; the message says why; who catches it names the node."""


def as_operator(node: onnx_ir.Node) -> Operator:
    """A node as an operator of the core without its attributes: what messages say of it."""
    return Operator(
        node.op_type,
        tuple("" if value is None else value.name or "" for value in node.inputs),
        tuple(value.name or "" for value in node.outputs),
        domain=node.domain,
        name=node.name or "",
    )


class Editor:
    """Changes the graphs of one model in place; every name it gives is new in the whole model.

    Attributes:
        model: The model that is changed.
    """

    def __init__(self, model: onnx_ir.Model) -> None:
        self.model = model
        self._names = {value.name or "" for value in all_values(model)} | {""}
        self._nodes = {node.name or "" for graph in all_graphs(model) for node in graph} | {""}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], onnx_ir.Value] = {}
        self._numbers: dict[str, int] = {}

    def fresh(self, wanted: str) -> str:
        """``wanted``, or with a number behind it, as a value name that the model does not use yet."""
        return self._free(wanted, self._names)

    def fresh_node(self, wanted: str) -> str:
        """The same for the name of a node."""
        return self._free(wanted, self._nodes)

    def _free(self, wanted: str, taken: set[str]) -> str:
        name = wanted
        while name in taken:  # the counter makes many requests for one name linear together
            self._numbers[wanted] = self._numbers.get(wanted, 0) + 1
            name = f"{wanted}_{self._numbers[wanted]}"
        taken.add(name)
        return name

    def constant(self, array: NDArray[np.generic], hint: str) -> onnx_ir.Value:
        """An initializer of the main graph with this content; equal constants are one initializer."""
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.initializer(onnx_ir.Tensor(array), self.fresh(hint), DERIVED)
        return self._constants[key]

    def initializer(self, tensor: onnx_ir.TensorProtocol, name: str, mark: str = "") -> onnx_ir.Value:
        """A new initializer of the main graph.

        Args:
            tensor: Its content; it is not changed.
            name: Its name, which must be free.
            mark: What ``CONSTANT_MARK`` says of it: ``ELEMENT``, ``DERIVED`` or nothing.
        """
        if mark or tensor.name != name:
            tensor = copied(tensor, name, mark)
        value = onnx_ir.Value(
            name=name,
            type=onnx_ir.TensorType(tensor.dtype),
            shape=onnx_ir.Shape(tensor.shape.numpy()),
            const_value=tensor,
        )
        self.model.graph.register_initializer(value)
        return value

    def _node(
        self,
        origin: onnx_ir.Node,
        operator: str,
        inputs: Sequence[onnx_ir.Value | None],
        attributes: dict[str, onnx_ir.Attr],
    ) -> onnx_ir.Node:
        return onnx_ir.Node(
            "",
            operator,
            inputs,
            list(attributes.values()),
            name=self.fresh_node(f"{origin.name or origin.op_type}_{operator}"),
            version=origin.version,
            metadata_props=dict(origin.metadata_props),
        )

    def before(
        self,
        node: onnx_ir.Node,
        operator: str,
        inputs: Sequence[onnx_ir.Value | None],
        hint: str,
        **attributes: AttributeValue,
    ) -> onnx_ir.Value:
        """Insert a one-output operator of the default domain before ``node``; give its output."""
        new = self._node(node, operator, inputs, _attributes(attributes))
        new.outputs[0].name = self.fresh(hint)
        _graph(node).insert_before(node, new)
        return new.outputs[0]

    def behind(
        self,
        value: onnx_ir.Value,
        operator: str,
        *more: onnx_ir.Value,
        **attributes: AttributeValue,
    ) -> onnx_ir.Value:
        """Insert ``operator(value, *more)`` behind the node that writes ``value``, for all readers.

        The new output takes over the name, type, shape and place among the graph's outputs.
        """
        producer = value.producer()
        assert producer is not None, "only a node's output can be changed behind the node"
        uses = list(value.uses())
        new = self._node(producer, operator, (value, *more), _attributes(attributes))
        self.take_over(value, new.outputs[0], uses)
        _graph(producer).insert_after(producer, new)
        return new.outputs[0]

    def take_over(
        self,
        old: onnx_ir.Value,
        new: onnx_ir.Value,
        uses: Sequence[tuple[onnx_ir.Node, int]] | None = None,
    ) -> None:
        """Give ``new`` the name, the readers and the place among the graph's outputs of ``old``.

        Args:
            old: A node's output; it gets another name.
            new: Another node's output; where its type or shape is unknown it gets those of ``old``.
            uses: The readers; default: all of them.
        """
        name = old.name
        assert name is not None, "values of a graph have names"
        new.type = new.type if new.type is not None else old.type
        new.shape = new.shape if new.shape is not None else old.shape
        graph = old.graph
        for node, index in list(old.uses()) if uses is None else uses:
            node.replace_input_with(index, new)
        if graph is not None and old.is_graph_output():
            for index, output in enumerate(graph.outputs):
                if output is old:
                    graph.outputs[index] = new
        old.name = self.fresh(f"{name}_before")
        new.name = name


def _graph(node: onnx_ir.Node) -> onnx_ir.Graph:
    assert node.graph is not None, "a node of a model belongs to a graph"
    return node.graph


def _attributes(
    attributes: dict[str, AttributeValue],
) -> dict[str, onnx_ir.Attr]:
    return {name: onnx_ir.convenience.convert_attribute(name, value) for name, value in attributes.items()}
