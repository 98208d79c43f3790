"""From gradient operators to nodes of a graph: what no one reads is left out, what is equal is shared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from netgrad.core.operator import Operator
from netgrad.onnx.attributes import attributes_key
from netgrad.onnx.provenance import Provenance, record


class NameAuthority:
    """Gives out names that are free in one graph; a taken name gets a numbered suffix.

    Attributes:
        taken: The names that are in use.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)
        self._next: dict[str, int] = {}

    def unique(self, wish: str) -> str:
        """``wish`` if it is free, else ``wish_1``, ``wish_2``, ...; the answer is taken from then on."""
        name = wish
        while name in self.taken:
            self._next[wish] = self._next.get(wish, 0) + 1
            name = f"{wish}_{self._next[wish]}"
        self.taken.add(name)
        return name


def live(operators: Sequence[Operator], wanted: Collection[str]) -> list[int]:
    """Indices of the operators that contribute to ``wanted``, in order."""
    needed = set(wanted)
    kept: list[int] = []
    for index in range(len(operators) - 1, -1, -1):
        op = operators[index]
        if any(name in needed for name in op.outputs if name):
            kept.append(index)
            needed.update(op.inputs)
    kept.reverse()
    return kept


class Emitter:
    """Appends gradient operators to a graph.

    Constants become initializers, one per content; an operator equal to one that stands already (same
    type, operands and attributes) is not written again. Generated operators are deterministic, so equal
    ones give equal results; forward nodes are never merged with each other.

    Args:
        graph: Receives the nodes. Its own nodes are left as they are.
        values: Named values that operators may read.
    """

    def __init__(self, graph: ir.Graph, values: Mapping[str, ir.Value]) -> None:
        self.graph = graph
        self.values = dict(values)
        self.generated: set[ir.Node] = set()
        self._names = NameAuthority([*self.values, *(node.name for node in graph.all_nodes() if node.name)])
        self._constants: dict[Any, ir.Value] = {}
        self._written: dict[Any, Sequence[ir.Value]] = {}
        for node in graph:
            if node.op_type == "Shape" and len(node.outputs) == 1:
                operands = tuple(node.inputs)
                self._written[("Shape", "", operands, attributes_key(_plain(node)), 1)] = node.outputs

    def emit(self, op: Operator, provenance: Provenance | None) -> None:
        """Write one operator (or find the equal one that stands already)."""
        if op.type == "Constant" and not op.domain:
            self.values[op.outputs[0]] = self._constant(op.outputs[0], op.attributes["value"])
            return
        operands = tuple(self.values[name] if name else None for name in op.inputs)
        key = (op.type, op.domain, operands, attributes_key(op.attributes), len(op.outputs))
        outputs = self._written.get(key)
        if outputs is None:
            outputs = self._node(op, operands, provenance).outputs
            self._written[key] = outputs
        for name, value in zip(op.outputs, outputs, strict=True):
            if name:
                self.values[name] = value

    def _node(
        self, op: Operator, operands: Sequence[ir.Value | None], provenance: Provenance | None
    ) -> ir.Node:
        outputs = [ir.Value(name=name) for name in op.outputs]
        stem = f"{provenance.forward_name}/grad" if provenance and provenance.forward_name else "grad"
        node = ir.Node(
            op.domain,
            op.type,
            operands,
            ir.convenience.convert_attributes(dict(op.attributes)),
            outputs=outputs,
            name=self._names.unique(f"{stem}/{op.type}"),
        )
        if provenance is not None:
            record(node, provenance)
        self.graph.append(node)
        self.generated.add(node)
        return node

    def _constant(self, name: str, tensor: ir.TensorProtocol) -> ir.Value:
        content = np.asarray(tensor.numpy())
        key = (tensor.dtype, content.shape, content.tobytes())
        value = self._constants.get(key)
        if value is None:
            value = ir.Value(
                name=name,
                type=ir.TensorType(tensor.dtype),
                shape=ir.Shape(content.shape),
                const_value=ir.tensor(content, dtype=tensor.dtype, name=name),
            )
            self.graph.register_initializer(value)
            self._constants[key] = value
        return value


def emit_all(
    emitter: Emitter,
    operators: Sequence[Operator],
    wanted: Collection[str],
    provenance: Callable[[int], Provenance | None],
) -> None:
    """Write the operators that contribute to ``wanted``; ``provenance`` maps an index to its note."""
    for index in live(operators, wanted):
        emitter.emit(operators[index], provenance(index))


def _plain(node: ir.Node) -> dict[str, Any]:
    return {name: attribute.value for name, attribute in node.attributes.items()}
