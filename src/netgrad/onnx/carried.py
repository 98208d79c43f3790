"""Shapes of what loops carry, which the standard's inference leaves open: they may change.

Most don't. So it is assumed that a carried value keeps the shape that it has before the loop; if the body,
inferred under this assumption, gives the same shape back, then it does, in every iteration. Dims that the
body changes or loses are unknown. All loops of a model, nested ones too, are assumed and verified together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import onnx_ir

from netgrad.onnx.edit import all_values

_Dims: TypeAlias = "tuple[int | str | None, ...]"
_State: TypeAlias = "tuple[onnx_ir.Value | None, onnx_ir.Value, onnx_ir.Value, onnx_ir.Value]"


def infer_carried(model: onnx_ir.Model, infer: Callable[[], bool]) -> None:
    """Give carried values of Loop nodes, before, in and behind the body, the shape that they keep, in place.

    Args:
        model: A model whose shapes are inferred but for this.
        infer: Infers the model's shapes anew from what it says by now; False if that fails.
    """
    states = _carried(model)
    if not states:
        return
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
            return
        assumed = revised
    for value in all_values(model):
        value.shape = before.get(value)


def _carried(model: onnx_ir.Model) -> list[_State]:
    """Of each carried value: before the loop, in the body, behind the loop, and what the body makes of it."""
    states: list[_State] = []
    for graph in model.graphs():
        for node in graph:
            if node.op_type != "Loop" or node.domain not in ("", "ai.onnx"):
                continue
            body = node.attributes["body"].as_graph()
            inside, after = body.inputs[2:], body.outputs[1:]
            states += list(zip(node.inputs[2:], inside, node.outputs, after, strict=False))
    return [state for state in states if state[1].shape is None or state[2].shape is None]


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
