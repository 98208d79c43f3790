"""Writing standard operators in the place of one operator of another domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnx_ir
from numpy.typing import ArrayLike, NDArray

from netgrad.onnx.edit import (
    EXPANDED_FROM,
    SETTING,
    AttributeValue,
    CannotRewriteError,
    Editor,
)

FLOAT: Final = onnx_ir.DataType.FLOAT

_STRINGS = (onnx_ir.AttributeType.STRING, onnx_ir.AttributeType.STRINGS)


class Writer:
    """Writes what one node computes before the node, and then takes the node away.

    A lowering checks the whole form of its node first, and writes only when nothing is left to refuse.

    Attributes:
        node: The node.
        editor: The editor of its model.
    """

    def __init__(self, node: onnx_ir.Node, editor: Editor) -> None:
        self.node = node
        self.editor = editor
        self._written: set[onnx_ir.Value] = set()
        node.metadata_props[EXPANDED_FROM] = f"{node.op_type} '{node.name}'"  # new nodes take it over

    # ---- the node ---------------------------------------------------------------------------------------

    def attribute(self, name: str, default: Any = None) -> Any:
        """The attribute ``name``, or ``default``."""
        given = self.node.attributes.get(name)
        return default if given is None else given.value

    def floats(self, name: str) -> NDArray[np.float32]:
        """The attribute ``name`` as a vector; empty if the node does not have it."""
        return np.array(self.attribute(name, ()), np.float32)

    def input(self, index: int = 0) -> onnx_ir.Value:
        """Input ``index``, which must be there.

        Raises:
            CannotRewriteError: It is left out.
        """
        value = self.node.inputs[index] if index < len(self.node.inputs) else None
        if value is None:
            raise CannotRewriteError(f"its input {index} is left out")
        return value

    def is_read(self, index: int) -> bool:
        """Whether anybody wants output ``index``."""
        if index >= len(self.node.outputs):
            return False
        output = self.node.outputs[index]
        return bool(output.uses()) or output.is_graph_output()

    # ---- new tensors ------------------------------------------------------------------------------------

    def parameter(self, what: str, content: ArrayLike, *, setting: bool = False) -> onnx_ir.Value:
        """An initializer ``<node>_<what>`` that can be differentiated by.

        Args:
            what: The name of the attribute that it was.
            content: Its content.
            setting: Whether it is no weight: it follows the data, or was chosen by hand.
        """
        tensor = onnx_ir.Tensor(np.ascontiguousarray(np.asarray(content, np.float32)))
        name = self.editor.fresh(f"{self.node.name}_{what}")
        return self.editor.initializer(tensor, name, SETTING if setting else "")

    def constant(self, content: ArrayLike, dtype: Any = np.float32) -> onnx_ir.Value:
        """An initializer that is no parameter."""
        return self.editor.constant(np.asarray(content, dtype), f"{self.node.name}_constant")

    def ints(self, *values: int) -> onnx_ir.Value:
        """A constant 1-D int64 tensor."""
        return self.constant(values, np.int64)

    def texts(self, words: Sequence[str]) -> onnx_ir.Value:
        """A constant 1-D tensor of texts."""
        tensor = onnx_ir.StringTensor(np.array([word.encode() for word in words], dtype=object))
        return self.editor.initializer(tensor, self.editor.fresh(f"{self.node.name}_texts"))

    # ---- new operators ----------------------------------------------------------------------------------

    def op(self, operator: str, *inputs: onnx_ir.Value | None, **attributes: AttributeValue) -> onnx_ir.Value:
        """Write one operator of the default domain; give its output."""
        hint = f"{self.node.name}_{operator.lower()}"
        value = self.editor.before(self.node, operator, inputs, hint, **attributes)
        self._written.add(value)
        return value

    def node_with_graph(
        self, operator: str, inputs: Sequence[onnx_ir.Value | None], graph: onnx_ir.Attr, outputs: int
    ) -> Sequence[onnx_ir.Value]:
        """Write an operator of the default domain that has a graph as attribute; give its outputs."""
        place = self.node.graph
        assert place is not None, "a node of a model belongs to a graph"
        name = self.editor.fresh_node(f"{self.node.name}_{operator}")
        properties = dict(self.node.metadata_props)
        node = onnx_ir.Node(
            "", operator, inputs, [graph], num_outputs=outputs, name=name, metadata_props=properties
        )
        for output in node.outputs:
            output.name = self.editor.fresh(f"{self.node.name}_{operator.lower()}")
        for inner in graph.as_graph():
            inner.name = self.editor.fresh_node(f"{self.node.name}_{inner.op_type}")
            inner.metadata_props.update(properties)
        place.insert_before(self.node, node)
        self._written.update(node.outputs)
        return node.outputs

    def cast(self, value: onnx_ir.Value, dtype: onnx_ir.DataType) -> onnx_ir.Value:
        """``value`` with elements of ``dtype``; itself if it is known to have them."""
        return value if value.dtype == dtype else self.op("Cast", value, to=int(dtype))

    def floating(self, index: int = 0) -> onnx_ir.Value:
        """Input ``index`` in float32, in which the operators of the domain compute."""
        return self.cast(self.input(index), FLOAT)

    def rows_fit(self, features: int) -> None:
        """See that input 0 can be (features,) or (batch, features).

        Raises:
            CannotRewriteError: It is known to have another shape.
        """
        shape = self.input().shape
        if shape is None:
            return
        if shape.rank() not in (1, 2):
            raise CannotRewriteError(f"its input has {shape.rank()} axes, not one or two")
        if isinstance(shape[-1], int) and shape[-1] != features:
            raise CannotRewriteError(f"its input has {shape[-1]} features, and its attributes {features}")

    def rows(self, value: onnx_ir.Value, features: int) -> onnx_ir.Value:
        """``value``, which is input 0 or its cast, with a batch axis if it has none."""
        shape = self.input().shape
        if shape is not None and shape.rank() == 2:
            return value
        return self.op("Reshape", value, self.ints(-1, features))

    def batch(self) -> int | str | None:
        """The size of the batch, as far as it is known."""
        shape = self.input().shape
        if shape is None:
            return None
        if shape.rank() < 2:
            return 1
        return shape[0] if isinstance(shape[0], int) else shape[0].value

    def finish(
        self,
        index: int,
        value: onnx_ir.Value,
        dtype: onnx_ir.DataType | None,
        shape: Sequence[int | str | None] | onnx_ir.Shape | None,
    ) -> None:
        """Give ``value`` the name and the readers of output ``index``."""
        output = self.node.outputs[index]
        if value not in self._written:
            value = self.op("Identity", value)
        self._written.discard(value)  # it cannot be two outputs
        value.type = output.type if dtype is None else onnx_ir.TensorType(dtype)
        value.shape = None if shape is None else onnx_ir.Shape(list(shape))
        self.editor.take_over(output, value)

    def remove(self) -> None:
        """Take the node away, once all outputs that are read have been given."""
        graph = self.node.graph
        assert graph is not None, "a node of a model belongs to a graph"
        graph.remove(self.node, safe=True)
