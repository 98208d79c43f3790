"""Writing the nodes that compute a node in float64, and looking at its windows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

END = np.iinfo(np.int64).max
"""To the end, as a bound of Slice."""


class Writer:
    """Writes the nodes that take a node's place."""

    def __init__(self, tape: ir.tape.Tape, node: ir.Node, opset: int) -> None:
        self._tape = tape
        self._node = node
        self.opset = opset

    def op(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """Write a node of one output."""
        return self._tape.op(op_type, list(inputs), attributes or None)

    def constant(self, array: Any) -> ir.Value:
        """Write a constant."""
        return self.op("Constant", value=ir.tensor(np.asarray(array)))

    def ints(self, *values: int) -> ir.Value:
        """Write a constant 1-D int64 tensor."""
        return self.constant(np.asarray(values, np.int64))

    def sizes(self, x: ir.Value, start: int, end: int = END) -> ir.Value:
        """The dims of ``x`` from ``start`` to before ``end``."""
        shape = self.op("Shape", x)
        return self.op("Slice", shape, self.ints(start), self.ints(end))

    def attribute(self, name: str, default: Any) -> Any:
        """An attribute of the node that is replaced."""
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
            ends = [-rest if rest else END for rest in left]
            found.append(self.op("Slice", x, self.ints(*starts), self.ints(*ends), axes, steps))
        return found


def padded_input(writer: Writer, x: ir.Value, rank: int) -> tuple[ir.Value, list[int], list[int]] | None:
    """The padded input, strides and dilations of a node with windows; None where the form is not covered."""
    if writer.attribute("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or writer.attribute("ceil_mode", 0):
        return None
    pads = list(writer.attribute("pads", [0] * (2 * rank)))
    strides = list(writer.attribute("strides", [1] * rank))
    dilations = list(writer.attribute("dilations", [1] * rank))
    return writer.padded(x, pads[:rank], pads[rank:], range(2, 2 + rank)), strides, dilations


def taps_of(writer: Writer, x: ir.Value, kernel: Sequence[int]) -> list[ir.Value] | None:
    """The taps of a node with windows, or None where the form is not covered."""
    form = padded_input(writer, x, len(kernel))
    return None if form is None else writer.taps(form[0], kernel, form[1], form[2])


def static_shape(value: ir.Value) -> tuple[int, ...] | None:
    """The shape where every dim is known."""
    return value.shape.numpy() if value.shape is not None and value.shape.is_static() else None


def content_of(value: ir.Value | None) -> Any:
    """The content of an initializer, or None."""
    return None if value is None or value.const_value is None else value.const_value.numpy()
