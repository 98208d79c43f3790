"""Sequences and optionals whose construction is known, taken apart into the tensors that they hold.

Exporters write a split into parts as SplitToSequence and SequenceAt, and stack a list by SequenceConstruct
and ConcatFromSequence. Where positions and numbers of tensors are known, these are Split and Concat, whose
gradients are a Concat and a Split; the gradient of a sequence is a Loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, TypeAlias

import numpy as np
import onnx_ir

from netgrad.onnx.constants import Lifting
from netgrad.onnx.edit import constant_of, inner_graphs
from netgrad.onnx.fold import discard

_MOST = 256
"""Tensors of a sequence that is still taken apart."""

_MAKERS = frozenset(
    {"SequenceConstruct", "SequenceEmpty", "SequenceInsert", "SequenceErase", "SplitToSequence", "Optional"}
)
"""What is dropped once nobody reads the sequence or the optional that it makes."""


_READERS = frozenset(
    {
        *("SequenceAt", "SequenceLength", "ConcatFromSequence"),
        *("OptionalGetElement", "OptionalHasElement"),
    }
)
"""What is replaced."""


def unpack(model: onnx_ir.Model, *, keep: Collection[str] = ()) -> list[str]:
    """Replace reads of known sequences and optionals by reads of what is in them, in place.

    Shapes must have been inferred, and are to be inferred anew if anything was done.

    Args:
        model: The model, without functions.
        keep: Names of values that stay, and that are not looked through.

    Returns:
        What was done, one readable line each.
    """
    if not any(node.op_type in _READERS for graph in model.graphs() for node in graph):
        return []
    unpacking = _Unpacking(model, keep)
    unpacking.graph(model.graph)
    if not unpacking.done:
        return []
    _drop_unread(model.graph, frozenset(keep))
    kinds = ", ".join(f"{count} {operator}" for operator, count in sorted(unpacking.done.items()))
    return [f"took sequences and optionals apart whose content is known ({kinds})"]


class _Piece:
    """A tensor of a sequence; one that is cut out of a larger tensor is cut when it is asked for."""

    def __init__(self, value: onnx_ir.Value | None, split: _Split | None = None, index: int = 0) -> None:
        self._value = value
        self._split = split
        self._index = index

    def value(self) -> onnx_ir.Value:
        """The tensor."""
        if self._value is None:
            assert self._split is not None, "what is not there yet is cut"
            self._value = self._split.output(self._index)
        return self._value

    @property
    def is_unnamed(self) -> bool:
        """Whether the model has no name of its own for the tensor."""
        return self._split is not None and not self._split.named[self._index]

    def name(self) -> None:
        """Say that the tensor has a name of the model's by now."""
        if self._split is not None:
            self._split.named[self._index] = True


class _Split:
    """The Split that stands for a SplitToSequence; it is written when one of its outputs is asked for."""

    def __init__(self, lifting: Lifting, node: onnx_ir.Node, sizes: list[int], axis: int, drop: bool) -> None:
        self._editor = lifting.editor
        self._node = node
        self._sizes = sizes
        self._axis = axis
        self._drop = drop
        self._outputs: list[onnx_ir.Value] = []
        self.named = [False] * len(sizes)

    def output(self, index: int) -> onnx_ir.Value:
        """Output ``index``; to be asked for once."""
        node, editor = self._node, self._editor
        name = node.outputs[0].name or "split"
        if not self._outputs:
            split = editor.constant(np.asarray(self._sizes, np.int64), f"{name}_sizes")
            first = editor.before(node, "Split", (node.inputs[0], split), f"{name}_0", axis=self._axis)
            producer = first.producer()
            assert producer is not None, "it was just written"
            producer.resize_outputs(len(self._sizes))
            for k, output in enumerate(producer.outputs[1:], 1):
                output.name = editor.fresh(f"{name}_{k}")
            self._outputs = list(producer.outputs)
        part = self._outputs[index]
        if not self._drop:
            return part
        axes = editor.constant(np.asarray([self._axis], np.int64), "axes")
        return editor.before(node, "Squeeze", (part, axes), f"{part.name}_dropped")


_List: TypeAlias = list[_Piece]


class _Unpacking:
    """One walk over a model in topological order."""

    def __init__(self, model: onnx_ir.Model, keep: Collection[str]) -> None:
        self.done: Counter[str] = Counter()
        self._keep = frozenset(keep)
        self._lifting = Lifting(model)
        self._lists: dict[onnx_ir.Value, _List] = {}
        self._held: dict[onnx_ir.Value, onnx_ir.Value | None] = {}  # by optional; None: it holds nothing

    def graph(self, graph: onnx_ir.Graph) -> None:
        """Walk over a graph and the graphs inside it."""
        for node in list(graph):
            for inner in inner_graphs(node):
                self.graph(inner)
            write = _WRITERS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
            if write is not None and node.graph is graph and len(node.outputs) == 1:
                write(self, node)

    # ---- what makes a sequence ----------------------------------------------------------------------

    def _know(self, node: onnx_ir.Node, content: _List | None) -> None:
        output = node.outputs[0]
        if content is not None and len(content) <= _MOST and output.name not in self._keep:
            self._lists[output] = content

    def _list(self, value: onnx_ir.Value | None) -> _List | None:
        return None if value is None else self._lists.get(value)

    def construct(self, node: onnx_ir.Node) -> None:
        self._know(node, [_Piece(value) for value in node.inputs if value is not None])

    def empty(self, node: onnx_ir.Node) -> None:
        self._know(node, [])

    def insert(self, node: onnx_ir.Node) -> None:
        content, new = self._list(node.inputs[0]), node.inputs[1]
        if content is None or new is None:
            return
        place = self._position(node, 2, len(content), len(content) + 1)
        if place is not None:
            self._know(node, [*content[:place], _Piece(new), *content[place:]])

    def erase(self, node: onnx_ir.Node) -> None:
        content = self._list(node.inputs[0])
        if content is None:
            return
        place = self._position(node, 1, len(content) - 1, len(content))
        if place is not None:
            self._know(node, [*content[:place], *content[place + 1 :]])

    def split(self, node: onnx_ir.Node) -> None:
        axis = _integer(node, "axis", 0)
        given = node.inputs[1] if len(node.inputs) > 1 else None
        sizes = self._sizes(node.inputs[0], given, axis)
        if sizes is not None and 0 < len(sizes) <= _MOST:
            drop = given is None and not _integer(node, "keepdims", 1)
            whole = _Split(self._lifting, node, sizes, axis, drop)
            self._know(node, [_Piece(None, whole, k) for k in range(len(sizes))])

    def identity(self, node: onnx_ir.Node) -> None:
        self._know(node, self._list(node.inputs[0]))
        source = node.inputs[0]
        if source in self._held and source is not None and node.outputs[0].name not in self._keep:
            self._held[node.outputs[0]] = self._held[source]

    # ---- what reads one -----------------------------------------------------------------------------

    def at(self, node: onnx_ir.Node) -> None:
        content = self._list(node.inputs[0])
        place = None if content is None else self._position(node, 1, None, len(content))
        if content is None or place is None:
            return
        piece = content[place]
        value, output = piece.value(), node.outputs[0]
        producer = value.producer()
        if piece.is_unnamed and producer is not None and producer.graph is node.graph:
            self._lifting.editor.take_over(output, value)
            piece.name()
        else:
            self._alias(node, value)
        self._finish(node)

    def length(self, node: onnx_ir.Node) -> None:
        content = self._list(node.inputs[0])
        if content is not None and node.outputs[0].name not in self._keep:
            self.done[node.op_type] += 1
            self._lifting.node(node, onnx_ir.Tensor(np.asarray(len(content), np.int64)), derived=True)

    def concat(self, node: onnx_ir.Node) -> None:
        content, editor = self._list(node.inputs[0]), self._lifting.editor
        if not content:
            return
        axis, name = _integer(node, "axis", 0), node.outputs[0].name
        parts = [piece.value() for piece in content]
        if _integer(node, "new_axis", 0):
            axes = editor.constant(np.asarray([axis], np.int64), "axes")
            parts = [editor.before(node, "Unsqueeze", (part, axes), f"{name}_part") for part in parts]
        editor.take_over(node.outputs[0], editor.before(node, "Concat", parts, f"{name}_joined", axis=axis))
        self._finish(node)

    # ---- optionals ----------------------------------------------------------------------------------

    def optional(self, node: onnx_ir.Node) -> None:
        if node.outputs[0].name not in self._keep:
            self._held[node.outputs[0]] = node.inputs[0] if node.inputs else None

    def get(self, node: onnx_ir.Node) -> None:
        source = node.inputs[0]
        if source is None:
            return
        held = self._held.get(source)
        if held is None and isinstance(source.type, onnx_ir.TensorType | onnx_ir.SequenceType):
            held = source  # what is no optional stands for itself
        if held is None:
            return
        alias = self._alias(node, held)
        content = self._list(held)
        if content is not None and alias.name not in self._keep:
            self._lists[alias] = content
        self._finish(node)

    def has(self, node: onnx_ir.Node) -> None:
        source = node.inputs[0] if node.inputs else None
        plain = source is not None and isinstance(source.type, onnx_ir.TensorType | onnx_ir.SequenceType)
        if node.outputs[0].name in self._keep or not (source is None or plain or source in self._held):
            return
        present = plain or (source is not None and self._held.get(source) is not None)
        self.done[node.op_type] += 1
        self._lifting.node(node, onnx_ir.Tensor(np.asarray(present)), derived=True)

    # ---- helpers ------------------------------------------------------------------------------------

    def _alias(self, node: onnx_ir.Node, value: onnx_ir.Value) -> onnx_ir.Value:
        editor = self._lifting.editor
        copy = editor.before(node, "Identity", (value,), f"{node.outputs[0].name}_copy")
        editor.take_over(node.outputs[0], copy)
        return copy

    def _finish(self, node: onnx_ir.Node) -> None:
        self.done[node.op_type] += 1
        discard(node)

    def _constant(self, value: onnx_ir.Value | None) -> Any:
        return None if value is None or value.name in self._keep else constant_of(value)

    def _position(self, node: onnx_ir.Node, index: int, default: int | None, count: int) -> int | None:
        """A position from the front, of ``count``; None where it is not known or does not exist."""
        given = node.inputs[index] if len(node.inputs) > index else None
        if given is None:
            place = default
        else:
            content = self._constant(given)
            place = None if content is None or content.size != 1 else int(content.reshape(()))
            if place is not None and place < 0:
                place += count if node.op_type != "SequenceInsert" else count - 1
        return place if place is not None and 0 <= place < count else None

    def _sizes(self, x: onnx_ir.Value | None, given: onnx_ir.Value | None, axis: int) -> list[int] | None:
        """Sizes of the parts along the axis, None where they are not known."""
        split = self._constant(given)
        if given is not None and split is None:
            return None
        if split is not None and split.ndim == 1:
            return [int(size) for size in split]
        dims = None if x is None or x.shape is None else list(x.shape)
        size = dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else None
        step = 1 if split is None else int(split)
        if not isinstance(size, int) or step <= 0:
            return None
        return [min(step, size - start) for start in range(0, size, step)]


_WRITERS: dict[str, Callable[[_Unpacking, onnx_ir.Node], None]] = {
    "SequenceConstruct": _Unpacking.construct,
    "SequenceEmpty": _Unpacking.empty,
    "SequenceInsert": _Unpacking.insert,
    "SequenceErase": _Unpacking.erase,
    "SplitToSequence": _Unpacking.split,
    "Identity": _Unpacking.identity,
    "SequenceAt": _Unpacking.at,
    "SequenceLength": _Unpacking.length,
    "ConcatFromSequence": _Unpacking.concat,
    "Optional": _Unpacking.optional,
    "OptionalGetElement": _Unpacking.get,
    "OptionalHasElement": _Unpacking.has,
}


def _integer(node: onnx_ir.Node, name: str, default: int) -> int:
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_int()


def _drop_unread(graph: onnx_ir.Graph, keep: frozenset[str]) -> None:
    """Remove what made sequences and optionals that nobody reads any more."""
    for node in reversed(list(graph)):
        for inner in inner_graphs(node):
            _drop_unread(inner, keep)
        copies_one = node.op_type == "Identity" and not isinstance(node.outputs[0].type, onnx_ir.TensorType)
        if node.domain not in ("", "ai.onnx") or not (node.op_type in _MAKERS or copies_one):
            continue
        if not any(v.uses() or v.is_graph_output() or v.name in keep for v in node.outputs):
            discard(node)
