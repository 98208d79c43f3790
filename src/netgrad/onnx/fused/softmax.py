"""Fused softmax."""

from __future__ import annotations

from netgrad.onnx.fused.definition import Writer, fused


@fused("BiasSoftmax", inputs="x bias", attributes="axis is_inner_broadcast")
def bias_softmax(w: Writer) -> None:
    """Y = softmax(X + bias) over all axes from ``axis`` on.

    The bias is as it was for the Add that the optimizer fused: it broadcasts as there, whatever
    ``is_inner_broadcast`` says of it.
    """
    axis = int(w.attribute("axis", 1))
    total = w.op("Add", "x", "bias")
    if axis == -1:
        w.op("Softmax", total, axis=-1, to="y")
        return
    if axis < 0:
        axis += w.rank(0)
    rows = w.op("Reshape", total, w.ints(*([0] * axis), -1))
    w.op("Reshape", w.op("Softmax", rows, axis=-1), w.op("Shape", total), to="y")
