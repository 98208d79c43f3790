"""Sums, means, extremes and their places over dims."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.onnx_import.node import Node
from netgrad.caffe2.onnx_import.registry import writes


@writes("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2")
def _reduce(n: Node) -> None:
    axes = n.axes(1)
    if not axes:
        if n.attribute("noop_with_empty_axes", 0):
            n.write("Copy")
            return
        axes = list(range(n.rank()))
    n.write(n.op.type, axes=axes, keepdims=n.attribute("keepdims", 1))


@writes("ArgMax", "ArgMin")
def _arg(n: Node) -> None:
    if n.attribute("select_last_index", 0):
        raise n.refused("of several extremes Caffe2 takes the first")
    n.write(n.op.type, axis=n.axis(n.attribute("axis", 0)), keepdims=n.attribute("keepdims", 1))


@writes("TopK")
def _top_k(n: Node) -> None:
    arguments: dict[str, Any] = {"axis": n.axis(n.attribute("axis", -1))}
    count: list[str] = []
    if n.info(1).constant is None:
        count = [n.inputs[1]]
    else:
        (arguments["k"],) = n.numbers(1)
    if n.attribute("largest", 1):
        n.write("TopK", [n.inputs[0], *count], n.outputs, **arguments)
        return
    values = n.fresh("negative")
    n.write("TopK", [n.step("Negative", n.inputs[:1]), *count], [values, n.outputs[1]], **arguments)
    n.write("Negative", [values])
