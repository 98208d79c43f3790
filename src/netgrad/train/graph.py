"""Appending to a finished graph with the node builder: losses, metrics and updates are written this way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from netgrad.core.errors import InvalidArgumentError, nearest
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.names import NameAuthority
from netgrad.onnx.view import Dim, TensorInfo, all_names, tensor_info, values_of
from netgrad.transforms.emit import Emitter, emit_all
from netgrad.transforms.select import listed


class GraphWriter:
    """Operators to be appended to one graph; nothing is changed before `finish`, but for new inputs.

    Attributes:
        graph: The graph.
        op: The builder that writes the operators.
    """

    def __init__(self, model: ir.Model, stem: str) -> None:
        """Begin to write.

        Args:
            model: Its graph receives the operators.
            stem: First part of the new nodes' names: what the operators are for.
        """
        self.graph = model.graph
        taken = all_names(self.graph)
        self.names = NameAuthority(taken)
        prefix, count = stem, 0
        while any(name.startswith(f"{prefix}/") for name in taken):
            count += 1
            prefix = f"{stem}_{count}"
        self.op = Builder(model.opset_imports[""], prefix)
        self._stem = stem
        self._values = {value.name: value for value in values_of(self.graph) if value.name}

    def read(self, name: str) -> Value:
        """The value called ``name``, whose present content is not taken for a constant.

        Raises:
            InvalidArgumentError: The graph has no such value.
        """
        if name not in self._values:
            raise InvalidArgumentError(
                f"the model has no value '{name}'{nearest(name, self._values)}",
                hint=f"its outputs are {listed(value.name or '' for value in self.graph.outputs)}",
            )
        return self.op.value(name, tensor_info(self._values[name], variable=True))

    def is_input(self, name: str) -> bool:
        """Whether the graph has an input called ``name``."""
        return any(value.name == name for value in self.graph.inputs)

    def new_input(self, wish: str, dtype: ir.DataType, shape: Sequence[Dim]) -> Value:
        """A new graph input; a taken name gets a numbered suffix."""
        name = self.names.unique(wish)
        value = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(list(shape)))
        self.graph.inputs.append(value)
        self._values[name] = value
        return self.op.value(name, TensorInfo(dtype, tuple(shape)))

    def finish(self, outputs: Mapping[str, Value]) -> dict[str, str]:
        """Append what contributes to ``outputs`` and make these outputs of the graph.

        Args:
            outputs: Values by the name that they are to get.

        Returns:
            The name that each got: the wished one, with a numbered suffix where that was taken.
        """
        emitter = Emitter(self.graph, self._values)
        emit_all(emitter, self.op.operators, [value.name for value in outputs.values()], lambda index: None)
        standing = set(self.graph.outputs)
        given: dict[str, str] = {}
        for wish, written in outputs.items():
            value = emitter.values[written.name]
            name = wish if value.name == wish else self.names.unique(wish)
            if value.producer() in emitter.generated and value not in standing:
                value.name = name
            elif value.name != name or value in standing:
                node = ir.Node("", "Identity", [value], outputs=[ir.Value(name=name)], name=name)
                self.graph.append(node)
                emitter.generated.add(node)
                value = node.outputs[0]
            if value.dtype is None and written.dtype is not None:
                value.dtype = written.dtype
            if value.shape is None and written.shape is not None:
                value.shape = ir.Shape(list(written.shape))
            standing.add(value)
            self.graph.outputs.append(value)
            given[wish] = name
        self._name_nodes(emitter)
        return given

    def _name_nodes(self, emitter: Emitter) -> None:
        """Node names that say what the nodes are for."""
        names = NameAuthority(
            node.name for node in self.graph.all_nodes() if node.name and node not in emitter.generated
        )
        for node in self.graph:
            if node in emitter.generated:
                node.name = names.unique(f"{self._stem}/{node.op_type}")
