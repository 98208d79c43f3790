"""Gradient rule of DynamicQuantizeLinear: its scale depends on the input, though its integers do not."""

from __future__ import annotations

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule

_STEPS = 255
"""Between the smallest and the largest number of eight bits."""


@rule("DynamicQuantizeLinear")
def dynamic_quantize_linear(op: RuleContext, dy: None, ds: Value | None, dzero: None) -> Value | None:
    """S = (max(X, 0) - min(X, 0)) / 255 over all of X; dX = dS / 255 at its ends, if they are not 0.

    Y and the zero point are integers.

    Kink: elements that tie for an end share its gradient equally, as in ReduceMax; an end of 0 gets none.

    Source: https://onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html.
    """
    assert dy is None, "there is no gradient of integers"
    assert dzero is None, "there is no gradient of integers"
    if ds is None:
        return None
    build, x = op.builder, op.input
    high, low = (op.emit(kind, x, keepdims=0) for kind in ("ReduceMax", "ReduceMin"))
    share = ds / float(_STEPS)
    upper = _at_end(op, high, high > 0.0, share)
    return build.assume_like(upper - _at_end(op, low, low < 0.0, share), x)


def _at_end(op: RuleContext, end: Value, counts: Value, share: Value) -> Value:
    """``share`` split evenly between the elements of X that are ``end``; 0 unless ``counts``."""
    build, dtype = op.builder, op.floating(share)
    attained = build.cast(op.input.equals(end), dtype)
    number = op.emit("ReduceSum", attained, keepdims=0)
    return attained * (share * build.cast(counts, dtype) / number)
