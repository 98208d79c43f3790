"""Folding: shape arithmetic whose result is known, and If nodes whose condition is.

Only integers, booleans and what is computed from them is folded: never anything that depends on a tensor that
could be asked for as a parameter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx_ir
from numpy.typing import NDArray

from netgrad.onnx.constants import FLOATS, Lifting
from netgrad.onnx.edit import CONSTANT_MARK, constant_of, inner_graphs
from netgrad.onnx.shapes import infer_shapes

Array = NDArray[Any]

_LARGEST = 4096
"""Elements of a tensor that is still folded: enough for shapes, index ranges and small masks."""

_OPERATORS = """
    Abs Add And Cast CastLike Ceil Concat ConstantOfShape Div Equal Expand Flatten Floor Gather
    GatherElements GatherND Greater GreaterOrEqual Identity Less LessOrEqual Max Min Mod Mul Neg Not Or Pow
    Range Reciprocal ReduceMax ReduceMin ReduceProd ReduceSum Reshape Round ScatterElements ScatterND Shape
    Sign Size Slice Sqrt Squeeze Sub Tile Transpose Unsqueeze Where Xor
"""
_FOLDED = frozenset(_OPERATORS.split())
_UNKNOWN_DIM = -(2**62)  # stands for an unknown dim while elements are picked out of a shape


def fold(model: onnx_ir.Model, *, keep: Collection[str] = ()) -> list[str]:
    """Fold constant shape arithmetic and constant If nodes, in place, until nothing is left to fold.

    Shapes must have been inferred; they are inferred anew after an If was folded.

    Args:
        model: The model, without functions, in a form that ``lift`` has left.
        keep: Names of values whose nodes stay, and on which nothing folded may depend.

    Returns:
        What was done, one readable line each.
    """
    folded: Counter[str] = Counter()
    branches = 0
    while True:
        folding = _Folding(model, keep)
        folding.graph(model.graph)
        folded.update(folding.folded)
        branches += folding.branches
        if not folding.branches:
            break
        infer_shapes(model)  # an If hides the shapes of what it gives
    actions = [f"replaced {branches} If nodes of constant condition by their branch"] if branches else []
    if folded:
        kinds = ", ".join(f"{count} {operator}" for operator, count in sorted(folded.items()))
        actions.append(f"folded {folded.total()} nodes of constant shape arithmetic ({kinds})")
    return actions


class _Folding:
    """One walk over a model in topological order."""

    def __init__(self, model: onnx_ir.Model, keep: Collection[str]) -> None:
        self.folded: Counter[str] = Counter()
        self.branches = 0
        self._opset = model.opset_imports[""]
        self._keep = frozenset(keep)
        self._lifting = Lifting(model)
        self._known: dict[onnx_ir.Value, Array] = {}

    def graph(self, graph: onnx_ir.Graph) -> None:
        for node in list(graph):
            if node.graph is not graph:
                continue  # it was only there for a node that is folded by now
            if node.domain == "" and node.op_type == "If":
                condition = self._value(node.inputs[0])
                branches = [node.attributes.get(name) for name in ("then_branch", "else_branch")]
                well_formed = all(b is not None and b.type == onnx_ir.AttributeType.GRAPH for b in branches)
                if condition is not None and condition.size == 1 and well_formed:
                    self._replace_by_branch(node, graph, bool(condition.reshape(())))
                    continue
            for inner in inner_graphs(node):
                self.graph(inner)
            if node.domain == "" and node.op_type in _FOLDED and len(node.outputs) == 1:
                self._fold(node)

    def _fold(self, node: onnx_ir.Node) -> None:
        output = node.outputs[0]
        result = self._evaluate(node)
        if result is None or result.size > _LARGEST:
            return
        self._known[output] = result
        if output.is_graph_output() or output.name in self._keep:
            return
        self.folded[node.op_type] += 1
        producers = [value.producer() for value in node.inputs if value is not None]
        self._lifting.node(node, onnx_ir.Tensor(result), derived=True)
        self._drop(producers)

    def _value(self, value: onnx_ir.Value | None) -> Array | None:
        """The content of a value that may be folded."""
        if value is None or value.name in self._keep:
            return None
        if value in self._known:
            return self._known[value]
        tensor = value.const_value
        if tensor is None or tensor.size > _LARGEST or tensor.dtype == onnx_ir.DataType.STRING:
            return None
        if tensor.dtype in FLOATS and CONSTANT_MARK not in tensor.metadata_props:
            return None  # it may be a parameter
        return constant_of(value)

    def _evaluate(self, node: onnx_ir.Node) -> Array | None:
        if node.op_type in ("Shape", "Size"):
            dims = _dims(node)
            return None if dims is None or _UNKNOWN_DIM in dims else _size_or_shape(node, dims)
        if node.op_type == "CastLike":
            return self._cast_like(node)
        arrays: list[Array | None] = []
        for index, value in enumerate(node.inputs):
            array = self._value(value)
            if array is None and index == 0 and node.op_type in ("Gather", "Slice"):
                array = _partly_known_shape(value)
            if array is None and value is not None:
                return None
            arrays.append(array)
        if _would_be_large(node.op_type, arrays):
            return None
        result = _run(node, arrays, self._opset)
        if result is None or (result.dtype == np.int64 and (result == _UNKNOWN_DIM).any()):
            return None
        return result

    def _cast_like(self, node: onnx_ir.Node) -> Array | None:
        """A constant in the element type of a value whose content need not be known."""
        array, like = self._value(node.inputs[0]), node.inputs[1]
        if array is None or like is None or like.dtype is None or node.attributes:
            return None
        return array.astype(like.dtype.numpy()) if like.dtype in FLOATS else None

    def _replace_by_branch(self, node: onnx_ir.Node, graph: onnx_ir.Graph, condition: bool) -> None:
        """Put the chosen branch in the place of an If; what it gives gets the names of the If's outputs."""
        self.branches += 1
        editor = self._lifting.editor
        branch = node.attributes["then_branch" if condition else "else_branch"].as_graph()
        results = list(branch.outputs)
        branch.outputs.clear()
        nodes = list(branch)
        branch.remove(nodes)
        graph.insert_before(node, nodes)
        for inner in nodes:
            for output in inner.outputs:
                if output.name and not self._lifting.is_unique(output.name):
                    output.name = editor.fresh(output.name)
        moved = set(nodes)
        for output, result in zip(node.outputs, results, strict=True):
            if result.producer() not in moved:  # a value from outside, or one that the If gives twice
                result = editor.before(node, "Identity", (result,), f"{output.name}_branch")
            else:
                moved.discard(result.producer())
            editor.take_over(output, result)
        producers = [value.producer() for value in node.inputs if value is not None]
        discard(node)
        self._drop(producers)

    def _drop(self, nodes: Sequence[onnx_ir.Node | None]) -> None:
        """Remove nodes that nobody reads any more, and what was there only for them."""
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            if node is None or node.graph is None:
                continue
            if any(v.uses() or v.is_graph_output() or v.name in self._keep for v in node.outputs):
                continue
            waiting += [value.producer() for value in node.inputs if value is not None]
            discard(node)


def discard(node: onnx_ir.Node) -> None:
    """Remove a node whose outputs nobody reads, and detach its inner graphs from outer values."""
    for inner in inner_graphs(node):
        inner.outputs.clear()
        for other in reversed(list(inner)):
            discard(other)
    if node.graph is not None:
        node.graph.remove(node, safe=True)


def _dims(node: onnx_ir.Node) -> list[int] | None:
    """The part of its input's shape that a Shape or Size node gives, with a mark for unknown dims."""
    value = node.inputs[0]
    if value is None or value.shape is None:
        return None
    dims = [dim if isinstance(dim, int) else _UNKNOWN_DIM for dim in value.shape]
    start, end = node.attributes.get("start"), node.attributes.get("end")
    return dims[0 if start is None else start.as_int() : len(dims) if end is None else end.as_int()]


def _size_or_shape(node: onnx_ir.Node, dims: list[int]) -> Array:
    return np.array(dims if node.op_type == "Shape" else np.prod(dims, dtype=np.int64), np.int64)


def _partly_known_shape(value: onnx_ir.Value | None) -> Array | None:
    """A shape of which some dims are known: enough where only these are picked."""
    producer = value.producer() if value is not None else None
    if producer is None or producer.domain != "" or producer.op_type != "Shape":
        return None
    dims = _dims(producer)
    return None if dims is None else np.array(dims, np.int64)


def _would_be_large(operator: str, arrays: Sequence[Array | None]) -> bool:
    """Whether an operator that makes much out of little would make too much."""
    known = [array for array in arrays if array is not None]
    if operator in ("ConstantOfShape", "Expand"):
        return bool(np.prod(known[-1], dtype=np.float64) > _LARGEST)
    if operator == "Tile":
        return bool(np.prod(known[-1], dtype=np.float64) * known[0].size > _LARGEST)
    if operator == "Range":
        start, limit, step = (float(array.reshape(())) for array in known)
        return step == 0 or abs((limit - start) / step) > _LARGEST
    return False


def _run(node: onnx_ir.Node, arrays: Sequence[Array | None], opset: int) -> Array | None:
    """Evaluate one node; None if it cannot be evaluated, which then shows when the model runs."""
    from onnx.reference import ReferenceEvaluator  # slow to import, and often there is nothing to fold

    names = ["" if array is None else f"x{index}" for index, array in enumerate(arrays)]
    proto = onnx_ir.to_proto(node)
    del proto.input[:], proto.output[:]
    proto.input.extend(names)
    proto.output.append("y")
    feeds = {name: array for name, array in zip(names, arrays, strict=True) if array is not None}
    inputs = [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in feeds]
    graph = onnx.helper.make_graph(
        [proto], "node", inputs, [onnx.helper.make_value_info("y", onnx.TypeProto())]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    try:
        with np.errstate(all="ignore"):
            (result,) = ReferenceEvaluator(model).run(None, feeds)
    except Exception:  # the evaluator raises whatever numpy raises on a wrong shape or index
        return None
    return np.asarray(result)
