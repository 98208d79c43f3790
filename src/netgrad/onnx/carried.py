"""Shapes of what loops carry and scan, which the standard's inference leaves open.

What a Scan carries keeps its shape, by definition. What a Loop carries may change it, but most don't. So it
is assumed that a carried value keeps the shape that it has before the loop; if the body, inferred under this
assumption, gives the same shape back, then it does, in every iteration. Dims that the body changes or loses
are unknown. All loops of a model, nested ones too, are assumed and verified together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import onnx_ir

from netgrad.onnx.edit import all_values

_Dims: TypeAlias = "tuple[int | str | None, ...]"
_State: TypeAlias = "tuple[onnx_ir.Value | None, onnx_ir.Value, onnx_ir.Value, onnx_ir.Value]"


def infer_carried(model: onnx_ir.Model, infer: Callable[[], bool]) -> set[onnx_ir.Value]:
    """Give the inputs of bodies, and what Loop nodes carry out, the shape that they keep, in place.

    Args:
        model: A model whose shapes are inferred but for this.
        infer: Infers the model's shapes anew from what it says by now; False if that fails.

    Returns:
        Values that Loop nodes carry with another rank in each iteration, in and behind them, and all values
        that such a loop computes.
    """
    changing = _infer_looped(model, infer)
    while (_declare_scanned(model) or _declare_mapped(model)) and infer():
        pass
    return changing


def fed(node: onnx_ir.Node) -> list[onnx_ir.Value]:
    """The inputs of a node's body that are fed with what the node reads or carries, whatever that is."""
    if node.op_type not in ("Loop", "Scan", "SequenceMap") or node.domain not in ("", "ai.onnx"):
        return []
    inputs = list(node.attributes["body"].as_graph().inputs)
    if node.op_type == "Scan" and _is_batched(node):
        return []
    return inputs[2:] if node.op_type == "Loop" else inputs  # a Loop counts and decides by itself


def _infer_looped(model: onnx_ir.Model, infer: Callable[[], bool]) -> set[onnx_ir.Value]:
    states = _carried(model)
    changing: set[onnx_ir.Value] = set()
    if not states:
        return changing
    before = {value: value.shape for value in all_values(model)}
    assumed: dict[int, _Dims | None] = {}
    while True:
        for value in all_values(model):
            value.shape = before.get(value)
        for k, dims in assumed.items():
            for value in states[k][1:3]:
                if before[value] is None and dims is not None:
                    value.shape = onnx_ir.Shape(dims)
        if not infer():
            break
        revised = _revised(states, assumed)
        if revised == assumed:
            return changing
        for k, dims in assumed.items():
            _, inside, result, after = states[k]
            if dims is not None and after.shape is not None and after.shape.rank() != len(dims):
                changing |= {inside, result}
                if inside.graph is not None:
                    changing.update(value for node in inside.graph.all_nodes() for value in node.outputs)
        assumed = revised
    for value in all_values(model):
        value.shape = before.get(value)
    return changing


def _declare_scanned(model: onnx_ir.Model) -> bool:
    """Give the inputs of Scan bodies the type and shape of what they are fed; whether any was new."""
    found = False
    for graph in model.graphs():
        for node in graph:
            if node.op_type != "Scan" or node.domain not in ("", "ai.onnx") or _is_batched(node):
                continue
            body = node.attributes["body"].as_graph()
            scanned = node.attributes["num_scan_inputs"].as_int()
            states = len(node.inputs) - scanned
            axes = (
                node.attributes["scan_input_axes"].as_ints() if "scan_input_axes" in node.attributes else ()
            )
            for k, (source, inside) in enumerate(zip(node.inputs, body.inputs, strict=False)):
                if inside.type is None and source is not None and source.type is not None:
                    inside.type, found = source.type, True
                dims = _dims(source)
                if dims is None:
                    continue
                if k >= states:
                    axis = (axes[k - states] if axes else 0) % len(dims)
                    dims = dims[:axis] + dims[axis + 1 :]
                known = _dims(inside) or (None,) * len(dims)
                dims = tuple(new if old is None else old for old, new in zip(known, dims, strict=False))
                if dims != _dims(inside):
                    inside.shape, found = onnx_ir.Shape(dims), True
    return found


def _declare_mapped(model: onnx_ir.Model) -> bool:
    """Give the inputs of SequenceMap bodies the type and shape of what they are fed; whether any was new."""
    found = False
    for graph in model.graphs():
        for node in graph:
            if node.op_type != "SequenceMap" or node.domain not in ("", "ai.onnx"):
                continue
            body = node.attributes["body"].as_graph()
            for source, inside in zip(node.inputs, body.inputs, strict=False):
                if source is None or source.type is None:
                    continue
                if inside.type is None:
                    whole, found = source.type, True
                    inside.type = (
                        onnx_ir.TensorType(whole.dtype) if isinstance(whole, onnx_ir.SequenceType) else whole
                    )
                if inside.shape is None and source.shape is not None:
                    inside.shape, found = onnx_ir.Shape(_dims(source) or ()), True
    return found


def _is_batched(node: onnx_ir.Node) -> bool:
    """Whether a Scan is that of opset 8, which reads lengths first and feeds its body elements of a batch."""
    return len(node.inputs) > len(node.attributes["body"].as_graph().inputs)


def _carried(model: onnx_ir.Model) -> list[_State]:
    """Of each carried value: before the loop, in the body, behind the loop, and what the body makes of it."""
    states = [state for graph in model.graphs() for node in graph for state in _states_of(node)]
    for source, inside, *_ in states:
        if inside.type is None and source is not None:
            inside.type = source.type
    return [state for state in states if state[1].shape is None or state[2].shape is None]


def _states_of(node: onnx_ir.Node) -> list[_State]:
    if node.op_type != "Loop" or node.domain not in ("", "ai.onnx"):
        return []
    body = node.attributes["body"].as_graph()
    return list(zip(node.inputs[2:], body.inputs[2:], node.outputs, body.outputs[1:], strict=False))


def _revised(states: list[_State], assumed: dict[int, _Dims | None]) -> dict[int, _Dims | None]:
    """The assumptions with new ones for what is known by now, or else weakened by what was inferred."""
    found = {
        k: _dims(start)
        for k, (start, *_) in enumerate(states)
        if k not in assumed and _dims(start) is not None
    }
    if found:
        return {**assumed, **found}
    return {
        k: _common(_common(dims, _dims(states[k][0])), _dims(states[k][3])) for k, dims in assumed.items()
    }


def _dims(value: onnx_ir.Value | None) -> _Dims | None:
    if value is None or value.shape is None:
        return None
    return tuple(dim if isinstance(dim, int) else dim.value for dim in value.shape)


def _common(a: _Dims | None, b: _Dims | None) -> _Dims | None:
    """What two shapes agree in."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))
