"""Constants into initializers: what was written as Constant or ConstantOfShape nodes becomes a tensor."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir

from netgrad.onnx.edit import DERIVED, ELEMENT, Editor, all_graphs, all_values, constant_of

FLOATS = frozenset(
    {
        onnx_ir.DataType.FLOAT,
        onnx_ir.DataType.DOUBLE,
        onnx_ir.DataType.FLOAT16,
        onnx_ir.DataType.BFLOAT16,
    }
)

"""The types that gradients are computed in."""


_LARGEST = 2.0**40
"""Elements of a constant that can still be meant; numpy itself stops at about 2**60."""


_CONSTANT_FORMS = {
    "value": onnx_ir.AttributeType.TENSOR,
    "value_float": onnx_ir.AttributeType.FLOAT,
    "value_floats": onnx_ir.AttributeType.FLOATS,
    "value_int": onnx_ir.AttributeType.INT,
    "value_ints": onnx_ir.AttributeType.INTS,
    "value_string": onnx_ir.AttributeType.STRING,
    "value_strings": onnx_ir.AttributeType.STRINGS,
}


def is_float(value: onnx_ir.Value) -> bool:
    """Whether a value is of one of these types."""
    return value.dtype in FLOATS


def lift_constants(model: onnx_ir.Model, *, derived: bool = False) -> list[str]:
    """Make initializers of the main graph out of constants, in place.

    That is: of every Constant node, of every ConstantOfShape node of floating-point type whose shape is
    constant, and of every initializer of an inner graph. Names stay, unless an inner graph has a name that
    exists elsewhere, too. A constant that is the output of a graph stays one through an Identity node. A
    tensor of one element is marked as a constant, so that it does not pass for a parameter.

    Args:
        model: The model.
        derived: Whether all of these constants are certainly no parameters.

    Returns:
        What was done, one readable line each.
    """
    lifting = Lifting(model)
    done: Counter[str] = Counter()
    for graph in all_graphs(model):
        if graph is not model.graph:
            for value in list(graph.initializers.values()):
                if not value.is_graph_input() and value.const_value is not None:
                    lifting.initializer(value, graph)
                    done["initializers of inner graphs into initializers of the main graph"] += 1
        for node in list(graph):
            tensor = _constant(node)
            if tensor is not None:
                lifting.node(node, tensor, derived=derived)
                done[f"{node.op_type} nodes into initializers"] += 1
    return [f"made {count} {what}" for what, count in done.items()]


class Lifting:
    """Replaces values of one model by initializers of its main graph.

    Attributes:
        editor: The editor of the model.
    """

    def __init__(self, model: onnx_ir.Model) -> None:
        self.editor = Editor(model)
        self._main = model.graph
        self._owners = Counter(value.name or "" for value in all_values(model))

    def node(self, node: onnx_ir.Node, tensor: onnx_ir.TensorProtocol, *, derived: bool = False) -> None:
        """Replace a node of one output by an initializer that has the output's name.

        Args:
            node: The node; it is removed.
            tensor: What it computes.
            derived: Whether the tensor is certainly no parameter.
        """
        output = node.outputs[0]
        graph = node.graph
        assert graph is not None, "a node of a model belongs to a graph"
        if output.is_graph_output():
            self.editor.behind(output, "Identity")
        self._replace(output, tensor, graph, DERIVED if derived else ELEMENT if tensor.size == 1 else "")
        graph.remove(node, safe=True)

    def initializer(self, value: onnx_ir.Value, graph: onnx_ir.Graph) -> None:
        """Move an initializer of an inner graph to the main graph."""
        tensor = value.const_value
        assert tensor is not None, "an initializer has content"
        del graph.initializers[value.name or ""]
        if value.is_graph_output():
            copy = onnx_ir.Node("", "Identity", [value], name=self.editor.fresh_node("Identity"))
            copy.outputs[0].name = self.editor.fresh(f"{value.name}_output")
            copy.outputs[0].type, copy.outputs[0].shape = value.type, value.shape
            graph.append(copy)
            for index, output in enumerate(graph.outputs):
                if output is value:
                    graph.outputs[index] = copy.outputs[0]
        self._replace(value, tensor, graph, "")

    def is_unique(self, name: str) -> bool:
        """Whether only one value of the whole model, inner graphs included, had this name at the start."""
        return self._owners[name] < 2

    def _replace(
        self, value: onnx_ir.Value, tensor: onnx_ir.TensorProtocol, graph: onnx_ir.Graph, mark: str
    ) -> None:
        name = value.name or "constant"
        if graph is not self._main and not self.is_unique(name):
            name = self.editor.fresh(name)
        mark = mark if tensor.dtype in FLOATS else ""
        value.replace_all_uses_with(self.editor.initializer(tensor, name, mark))


def _constant(node: onnx_ir.Node) -> onnx_ir.TensorProtocol | None:
    """The tensor that a Constant or a ConstantOfShape node always gives, or None."""
    if node.domain != "" or node.op_type not in ("Constant", "ConstantOfShape"):
        return None
    if node.op_type == "ConstantOfShape":
        shape = constant_of(node.inputs[0]) if node.inputs else None
        value = node.attributes.get("value")
        if value is not None and value.type != onnx_ir.AttributeType.TENSOR:
            return None
        if shape is None or (shape < 0).any() or np.prod(shape, dtype=np.float64) > _LARGEST:
            return None
        fill = np.zeros(1, np.float32) if value is None else value.value.numpy()
        if onnx_ir.DataType.from_numpy(fill.dtype) not in FLOATS:
            return None  # shape arithmetic, which is folded where it can be
        # A view of one element, however large the shape: nothing is allocated until somebody writes to it.
        return onnx_ir.Tensor(np.broadcast_to(fill.reshape(()), shape.tolist()))
    if len(node.attributes) != 1:
        return None
    ((name, attribute),) = node.attributes.items()
    if attribute.type != _CONSTANT_FORMS.get(name):
        return None  # malformed, or a sparse tensor, which stays a node
    if name == "value":
        tensor: onnx_ir.TensorProtocol = attribute.value  # as_tensor() checks a protocol, which is slow
        return tensor
    if name in ("value_float", "value_floats"):
        return onnx_ir.Tensor(np.array(attribute.value, np.float32))
    if name in ("value_int", "value_ints"):
        return onnx_ir.Tensor(np.array(attribute.value, np.int64))
    words = [attribute.value] if name == "value_string" else list(attribute.value)
    array = np.array([word.encode() for word in words], dtype=object)
    return onnx_ir.StringTensor(array.reshape(()) if name == "value_string" else array)
