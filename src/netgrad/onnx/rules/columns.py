"""Gradient rule of Col2Im."""

from __future__ import annotations

import numpy as np

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.placing import count_up


@rule("Col2Im", attributes=("dilations", "pads", "strides"), not_differentiable=(1, 2))
def col2im(op: RuleContext, dy: Value) -> tuple[Value, None, None]:
    """Y = sum of the blocks in the columns of X, each at its place; dX = the blocks of dY at these places.

    X is (N, C B, L) with B elements a block and L blocks; element k of block o lies at
    ``o stride + k dilation - pad`` along each axis, and what lies outside of the image is lost.
    """
    b, rank = op.builder, op.required(1).dim(0)
    if not isinstance(rank, int):
        rank = op.rank(op.output) - 2
    strides = op.attribute("strides") or [1] * rank
    dilations = op.attribute("dilations") or [1] * rank
    pads = op.attribute("pads") or [0] * (2 * rank)
    padded = dy
    if any(pads):
        padded = b.op("Pad", dy, b.ints([0, 0, *pads[:rank], 0, 0, *pads[rank:]]))
    for axis in range(rank):  # each axis becomes two: element of the block, and block
        places = _places(op, axis, strides[axis], dilations[axis], pads[axis] + pads[rank + axis])
        padded = b.op("Gather", padded, places, axis=2 + 2 * axis)
    order = [0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2)]
    blocks = b.transpose(padded, order)
    return b.reshape_like(blocks, op.input), None, None


def _places(op: RuleContext, axis: int, stride: int, dilation: int, pads: int) -> Value:
    """Places of the elements of all blocks along one axis of the padded image: (block size, blocks)."""
    b, image, block = op.builder, op.required(1), op.required(2)
    size = op.output.dim(2 + axis)
    if isinstance(size, int) and block.constant is not None:
        elements = int(block.constant[axis])
        count = (size + pads - (elements - 1) * dilation - 1) // stride + 1
        grid = np.arange(elements)[:, None] * dilation + np.arange(count) * stride
        return b.constant(grid.astype(np.int64))
    one, step = b.ints([1]), b.ints([stride])
    width = b.slice(block, 0, axis, axis + 1)
    room = b.slice(image, 0, axis, axis + 1) + b.ints([pads]) - (width - one) * b.ints([dilation]) - one
    within = b.reshape(count_up(b, width), [-1, 1]) * b.ints([dilation])
    return within + count_up(b, room / step + one) * step
