"""From gradient operators to nodes of a graph: what no one reads is left out, what is equal is shared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from netgrad.core.operator import Operator
from netgrad.core.result import BackwardPass
from netgrad.onnx.attributes import attributes_key
from netgrad.onnx.body import Body, captured_of, live
from netgrad.onnx.edit import CONSTANT_MARK, DERIVED
from netgrad.onnx.names import NameAuthority
from netgrad.onnx.provenance import Provenance, record
from netgrad.onnx.rules.source import OnnxRules
from netgrad.onnx.sequence_sums import add_to_single_tensors
from netgrad.onnx.view import TensorInfo, all_names
from netgrad.transforms.simplify import simplified


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
        self._root = self
        self._reserved: set[str] = set()
        self._inner_names: NameAuthority | None = None  # of values in bodies, made for the first one
        self._constants: dict[Any, ir.Value] = {}
        self._written: dict[Any, Sequence[ir.Value]] = {}
        for node in graph:
            if node.op_type == "Shape" and len(node.outputs) == 1:
                operands = tuple(node.inputs)
                self._written[("Shape", "", operands, attributes_key(_plain(node)), 1)] = node.outputs

    def reserve(self, names: Iterable[str]) -> None:
        """Names that will be written to the graph: no value inside a body gets one of them."""
        self._reserved.update(names)

    def content(self, name: str) -> np.ndarray[Any, Any] | None:
        """What a value of the graph holds, where that is constant."""
        value = self.values.get(name)
        if value is None or value.const_value is None or value.is_graph_input():
            return None
        return np.asarray(value.const_value.numpy())

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
        stem = f"{provenance.forward_name}/grad" if provenance and provenance.forward_name else "grad"
        name = self._root._names.unique(f"{stem}/{op.type}")
        inside = len(captured_of(op))  # what the bodies read is no operand of the node
        attributes = {
            key: self._body(value, operands[len(operands) - inside :], f"{name}/{key}", provenance)
            if isinstance(value, Body)
            else value
            for key, value in op.attributes.items()
        }
        node = ir.Node(
            op.domain,
            op.type,
            operands[: len(operands) - inside],
            ir.convenience.convert_attributes(attributes),
            outputs=[self._output(written) for written in op.outputs],
            name=name,
        )
        if provenance is not None:
            record(node, provenance)
        self.graph.append(node)
        self.generated.add(node)
        return node

    def _output(self, name: str) -> ir.Value:
        return ir.Value(name=name)

    def _body(
        self, body: Body, captured: Sequence[ir.Value | None], name: str, provenance: Provenance | None
    ) -> ir.Graph:
        """A body as a graph; every value in it gets a name that is new in the whole model."""
        root = self._root
        if root._inner_names is None:
            root._inner_names = NameAuthority([*all_names(root.graph), *root.values, *root._reserved])
        inputs = [
            _typed(root._inner_names.unique(f"{name}/{given}"), body.types.get(given, TensorInfo()))
            for given in body.inputs
        ]
        graph = ir.Graph(inputs, [], nodes=[], name=name)
        outer = {formal: value for formal, value in zip(body.captured, captured, strict=True) if value}
        inner = _BodyEmitter(root, graph, {**outer, **dict(zip(body.inputs, inputs, strict=True))}, name)
        for index in live(body.operators, body.outputs):
            op = body.operators[index]
            inner.emit(op, provenance)
            if op.type == "SequenceAt":  # inference knows nothing of lists that start empty
                _state(inner.values[op.outputs[0]], body.types.get(op.outputs[0], TensorInfo()))
        for written in body.outputs:
            value = inner.values[written]
            if value.producer() not in inner.generated or value in graph.outputs:
                # An output must be written in the graph itself, and be listed once.
                value = inner.copied(value)
            _state(value, body.types.get(written, TensorInfo()))  # a Scan needs at least the rank
            graph.outputs.append(value)
        return graph

    def _constant(self, name: str, tensor: ir.TensorProtocol) -> ir.Value:
        content = np.asarray(tensor.numpy())
        key = (tensor.dtype, content.shape, content.tobytes())
        value = self._constants.get(key)
        if value is None:
            stored = ir.Tensor(content, dtype=tensor.dtype, name=name)
            stored.metadata_props[CONSTANT_MARK] = DERIVED  # no weight of the gradient model
            value = ir.Value(
                name=name,
                type=ir.TensorType(tensor.dtype),
                shape=ir.Shape(content.shape),
                const_value=stored,
            )
            self.graph.register_initializer(value)
            self._constants[key] = value
        return value


def _state(value: ir.Value, info: TensorInfo) -> None:
    """Say of a value what is known of it."""
    if value.type is None and info.dtype is not None:
        value.type = info.ir_type
    if value.shape is None and info.shape is not None:
        value.shape = ir.Shape(info.shape)


class _BodyEmitter(Emitter):
    """Writes to a graph inside an operator; constants go to the main graph."""

    def __init__(self, root: Emitter, graph: ir.Graph, values: Mapping[str, ir.Value], name: str) -> None:
        super().__init__(graph, values)
        self._root = root
        self._name = name

    def copied(self, value: ir.Value) -> ir.Value:
        """``value`` under another name, written by this graph."""
        copy = self._output("copy")
        name = self._root._names.unique(f"{self._name}/copy")
        node = ir.Node("", "Identity", [value], outputs=[copy], name=name)
        self.graph.append(node)
        self.generated.add(node)
        return copy

    def _output(self, name: str) -> ir.Value:
        names = self._root._inner_names
        assert names is not None, "made with the first body"
        return ir.Value(name=names.unique(f"{self._name}/{name}") if name else "")

    def _constant(self, name: str, tensor: ir.TensorProtocol) -> ir.Value:
        names = self._root._inner_names
        assert names is not None, "made with the first body"
        return self._root._constant(names.unique(f"{self._name}/{name}"), tensor)


def _typed(name: str, info: TensorInfo) -> ir.Value:
    return ir.Value(
        name=name,
        type=info.ir_type,
        shape=None if info.shape is None else ir.Shape(info.shape),
    )


def emit_all(
    emitter: Emitter,
    operators: Sequence[Operator],
    wanted: Collection[str],
    provenance: Callable[[int], Provenance | None],
) -> None:
    """Write the operators that contribute to ``wanted``; ``provenance`` maps an index to its note."""
    shortened = add_to_single_tensors(operators, wanted, emitter.values)
    final = simplified([op for op, _ in shortened], emitter.content)
    emitter.reserve(name for op in final.operators for name in op.outputs)
    for index in live(final.operators, {final.same.get(name, name) for name in wanted}):
        emitter.emit(final.operators[index], provenance(shortened[index][1]))
    for name in wanted:
        if name in final.same:
            emitter.values[name] = emitter.values[final.same[name]]


def provenance_of_backward(
    operators: Sequence[Operator], backward: BackwardPass, rules: OnnxRules
) -> Callable[[int], Provenance | None]:
    """From the index of a gradient operator to a note of its forward operator and rule."""

    def provenance(index: int) -> Provenance | None:
        origin = backward.origins[index]
        if origin is None:
            return None
        forward = operators[origin]
        declared = rules.declaration(forward)
        kind = f"{forward.domain}::{forward.type}" if forward.domain else forward.type
        return Provenance(forward.name, kind, "" if declared is None else declared.source)

    return provenance


def _plain(node: ir.Node) -> dict[str, Any]:
    return {name: attribute.value for name, attribute in node.attributes.items()}
