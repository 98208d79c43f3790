"""Convolutions, average pools and LRN in float64 on ONNX Runtime, which has no float64 kernels for them.

They are written in terms of operators that have: the elements of every window are sliced out, and multiplied
or added. That takes more memory and time than a convolution in float32, and far less than the reference
evaluator. It serves measuring derivatives and nothing else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

_END = np.iinfo(np.int64).max


def with_double_kernels(model: ir.Model) -> ir.Model:
    """Rewrite, in place, what ONNX Runtime cannot compute in float64; other nodes stay as they are.

    Nodes whose form is not covered (padding given by ``auto_pad``, ``ceil_mode``, a kernel of unknown shape)
    stay too, and the runtime will say so.

    Args:
        model: A float64 model.

    Returns:
        The same model.
    """
    for node in list(model.graph):
        lowering = _LOWERINGS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if lowering is None:
            continue
        tape = ir.tape.Tape()
        result = lowering(_Writer(tape, node), node)
        if result is None:
            continue
        for number, written in enumerate(tape.nodes):
            written.name = f"{node.name}/double/{number}"
            for value in written.outputs:
                value.name = f"{node.outputs[0].name}/double/{number}"
        ir.convenience.replace_nodes_and_values(
            model.graph, node, [node], list(tape.nodes), [node.outputs[0]], [result]
        )
    return model


class _Writer:
    """Writes the nodes that take a node's place."""

    def __init__(self, tape: ir.tape.Tape, node: ir.Node) -> None:
        self._tape = tape
        self._node = node

    def op(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        return self._tape.op(op_type, list(inputs), attributes or None)

    def constant(self, array: Any) -> ir.Value:
        return self.op("Constant", value=ir.tensor(np.asarray(array)))

    def ints(self, *values: int) -> ir.Value:
        return self.constant(np.asarray(values, np.int64))

    def attribute(self, name: str, default: Any) -> Any:
        given = self._node.attributes.get(name)
        return default if given is None else given.value

    def padded(self, x: ir.Value, head: Sequence[int], tail: Sequence[int], axes: Sequence[int]) -> ir.Value:
        """``x`` with zeros before and after each of ``axes``; x has no more axes than the last of them."""
        if not any(head) and not any(tail):
            return x
        rank = max(axes) + 1
        pads = [0] * (2 * rank)
        for axis, before, after in zip(axes, head, tail, strict=True):
            pads[axis], pads[rank + axis] = before, after
        return self.op("Pad", x, self.ints(*pads))

    def taps(
        self, x: ir.Value, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
    ) -> list[ir.Value]:
        """For each kernel position, the elements that all windows have there: shape (N, C, windows..)."""
        axes = self.ints(*range(2, 2 + len(kernel)))
        steps = self.ints(*strides)
        found = []
        for position in itertools.product(*map(range, kernel)):
            starts = [k * d for k, d in zip(position, dilations, strict=True)]
            left = [(n - 1 - k) * d for n, k, d in zip(kernel, position, dilations, strict=True)]
            ends = [-rest if rest else _END for rest in left]
            found.append(self.op("Slice", x, self.ints(*starts), self.ints(*ends), axes, steps))
        return found


def _windows(writer: _Writer, x: ir.Value, kernel: Sequence[int]) -> list[ir.Value] | None:
    """The taps of a node with the usual attributes of windows, or None where the form is not covered."""
    if writer.attribute("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or writer.attribute("ceil_mode", 0):
        return None
    rank = len(kernel)
    pads = list(writer.attribute("pads", [0] * (2 * rank)))
    strides = list(writer.attribute("strides", [1] * rank))
    dilations = list(writer.attribute("dilations", [1] * rank))
    axes = range(2, 2 + rank)
    padded = writer.padded(x, pads[:rank], pads[rank:], axes)
    return writer.taps(padded, kernel, strides, dilations)


def _conv(writer: _Writer, node: ir.Node) -> ir.Value | None:
    """Y = W X over windows: per group, a matrix of kernels times the matrix of window elements."""
    x, w = node.inputs[0], node.inputs[1]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    assert x is not None, "Conv requires its input"
    assert w is not None, "Conv requires its kernel"
    if w.shape is None or not w.shape.is_static():
        return None
    outputs, inputs, *kernel = w.shape.numpy()
    groups = int(writer.attribute("group", 1))
    taps = _windows(writer, x, kernel)
    if taps is None:
        return None
    elements = inputs * len(taps)
    stacked = writer.op(
        "Concat", *(writer.op("Unsqueeze", tap, writer.ints(2)) for tap in taps), axis=2
    )  # (N, C, kernel, windows..)
    columns = writer.op("Reshape", stacked, writer.ints(0, groups, elements, -1))
    kernels = writer.op("Reshape", w, writer.ints(groups, outputs // groups, elements))
    product = writer.op("MatMul", kernels, columns)
    shape = writer.op("Shape", taps[0])
    batch = writer.op("Slice", shape, writer.ints(0), writer.ints(1))
    spatial = writer.op("Slice", shape, writer.ints(2), writer.ints(_END))
    whole = writer.op("Concat", batch, writer.ints(outputs), spatial, axis=0)
    result = writer.op("Reshape", product, whole)
    if bias is not None:
        column = writer.op("Reshape", bias, writer.ints(1, outputs, *([1] * len(kernel))))
        result = writer.op("Add", result, column)
    return result


def _average_pool(writer: _Writer, node: ir.Node) -> ir.Value | None:
    """Y = mean over each window, of what lies inside the tensor or of the padding too."""
    x = node.inputs[0]
    assert x is not None, "AveragePool requires its input"
    kernel = [int(size) for size in writer.attribute("kernel_shape", [])]
    taps = _windows(writer, x, kernel)
    if taps is None:
        return None
    total = writer.op("Sum", *taps)
    if writer.attribute("count_include_pad", 0) or not any(writer.attribute("pads", [0])):
        return writer.op("Div", total, writer.constant(np.float64(len(taps))))
    ones = writer.op("Add", writer.op("Mul", x, writer.constant(0.0)), writer.constant(1.0))
    inside = _windows(writer, ones, kernel)
    assert inside is not None, "the same form was covered for the input"
    return writer.op("Div", total, writer.op("Sum", *inside))


def _global_average_pool(writer: _Writer, node: ir.Node) -> ir.Value | None:
    x = node.inputs[0]
    assert x is not None, "GlobalAveragePool requires its input"
    if x.shape is None:
        return None
    axes = list(range(2, len(x.shape)))
    opset = node.version or (node.graph.opset_imports.get("", 0) if node.graph is not None else 0)
    if opset >= 18:
        return writer.op("ReduceMean", x, writer.ints(*axes))
    return writer.op("ReduceMean", x, axes=axes)


def _lrn(writer: _Writer, node: ir.Node) -> ir.Value | None:
    """Y = X / (bias + alpha / size * sum over neighbouring channels of X^2)^beta."""
    x = node.inputs[0]
    assert x is not None, "LRN requires its input"
    if x.shape is None:
        return None
    size = int(writer.attribute("size", 1))
    alpha = float(writer.attribute("alpha", np.float32(1e-4)))
    beta = float(writer.attribute("beta", 0.75))
    bias = float(writer.attribute("bias", 1.0))
    rank = len(x.shape)
    head, tail = (size - 1) // 2, size // 2
    pads = [0] * (2 * rank)
    pads[1], pads[rank + 1] = head, tail
    squares = writer.op("Pad", writer.op("Mul", x, x), writer.ints(*pads))
    taps = [
        writer.op(
            "Slice",
            squares,
            writer.ints(k),
            writer.ints(k + 1 - size if k + 1 < size else _END),
            writer.ints(1),
        )
        for k in range(size)
    ]
    scaled = writer.op("Mul", writer.op("Sum", *taps), writer.constant(alpha / size))
    base = writer.op("Add", scaled, writer.constant(bias))
    return writer.op("Div", x, writer.op("Pow", base, writer.constant(beta)))


_LOWERINGS: dict[str, Callable[[_Writer, ir.Node], ir.Value | None]] = {
    "AveragePool": _average_pool,
    "Conv": _conv,
    "GlobalAveragePool": _global_average_pool,
    "LRN": _lrn,
}
