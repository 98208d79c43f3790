"""Rows in another order, space in batches, running sums over images; and their gradient operators."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.segments import beside, segment_ids, whole
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.caffe2.lowering.windows import is_nhwc
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.placing import joined, length, lengths, scatter_add, scatter_along

# ---- rows --------------------------------------------------------------------------------------------


@lowers("BatchPermutation")
def _permuted(c: Context, rows: Value, indices: Value) -> Value:
    return c.b.op("Gather", rows, indices, axis=0)


@lowers("BatchPermutationGradient")
def _permuted_gradient(c: Context, indices: Value, dy: Value) -> Value:
    return c.b.assume_like(scatter_along(c.b, dy, 0, whole(c.b, indices), c.b.shape_of(dy)), dy)


@lowers("SquareRootDivide")
def _square_root_divide(c: Context, rows: Value, scale: Value) -> Value:
    """Each row divided by the root of its number, unless that is 0."""
    assert rows.dtype is not None, "the element type of a blob is known"
    scale = c.b.cast(scale, rows.dtype)
    by = c.b.op("Sqrt", c.b.where(scale.equals(0.0), 1.0, scale))
    return rows / beside(c.b, by, rows)


# ---- sparse batches ----------------------------------------------------------------------------------


@lowers("BatchSparseToDense")
def _batch_to_dense(
    c: Context, sizes: Value, indices: Value, values: Value, like: Value | None = None
) -> Value:
    """A row per length, with values at their indices; values that share a place are added."""
    b = c.b
    if like is None and not c.has("dense_last_dim"):
        raise c.refused("the argument 'dense_last_dim' is missing")
    width = b.ints([c.argument("dense_last_dim", -1)]) if like is None else length(b, like, 1)
    rows = length(b, sizes, 0)
    places = segment_ids(b, sizes, length(b, indices, 0)) * width + whole(b, indices)
    shape = b.concat([rows, width], 0)
    dense = b.op("Reshape", scatter_add(b, values, 0, places, rows * width), shape)
    default = c.argument("default_value", 0.0)
    if not default:
        return dense
    marks = scatter_add(b, b.fill(b.shape_of(values), 1.0, ir.DataType.FLOAT), 0, places, rows * width)
    return b.where(b.op("Reshape", marks, shape) > 0.0, dense, default)


@lowers("BatchDenseToSparse")
def _batch_to_sparse(c: Context, sizes: Value, indices: Value, dense: Value) -> Value:
    """What lies at the indices of each row."""
    b = c.b
    places = segment_ids(b, sizes, length(b, indices, 0)) * length(b, dense, 1) + whole(b, indices)
    return b.op("Gather", b.reshape(dense, [-1]), places, axis=0)


# ---- space -------------------------------------------------------------------------------------------


def _block(c: Context) -> tuple[int, list[int]]:
    """The size of blocks, and the padding at the top, left, bottom and right."""
    if is_nhwc(c):
        raise c.refused("its channels must be behind the batch (order NCHW)")
    return c.argument("block_size", 2), [c.argument(f"pad_{side}", c.argument("pad", 0)) for side in "tlbr"]


@lowers("SpaceToBatch")
def _space_to_batch(c: Context, x: Value) -> Value:
    """The pixels at the same place of all blocks become an image of their own."""
    b, (size, (top, left, bottom, right)) = c.b, _block(c)
    image = b.op("Pad", x, b.ints([0, 0, top, left, 0, 0, bottom, right]))
    block = b.ints([size])
    front, height, width = lengths(b, image, 0, 2), length(b, image, 2) / block, length(b, image, 3) / block
    cut = b.op("Reshape", image, joined(b, [front, height, block, width, block]))
    moved = b.transpose(cut, [3, 5, 0, 1, 2, 4])
    return b.op("Reshape", moved, joined(b, [b.ints([-1]), length(b, x, 1), height, width]))


@lowers("BatchToSpace")
def _batch_to_space(c: Context, x: Value) -> Value:
    """The opposite of SpaceToBatch."""
    b, (size, (top, left, bottom, right)) = c.b, _block(c)
    cut = b.op("Reshape", x, joined(b, [b.ints([size, size, -1]), lengths(b, x, 1, 4)]))
    moved = b.transpose(cut, [2, 3, 4, 0, 5, 1])
    block = b.ints([size])
    whole_size = [length(b, x, axis) * block for axis in (2, 3)]
    image = b.op("Reshape", moved, joined(b, [b.ints([-1]), length(b, x, 1), *whole_size]))
    ends = b.ints([-bottom or 2**62, -right or 2**62])
    return b.op("Slice", image, b.ints([top, left]), ends, b.ints([2, 3]))


def _integral(b: Builder, x: Value) -> Value:
    padded = b.op("Pad", x, b.ints([0, 0, 1, 1, 0, 0, 0, 0]))
    return b.op("CumSum", b.op("CumSum", padded, b.constant(np.asarray(2))), b.constant(np.asarray(3)))


@lowers("IntegralImage")
def _integral_image(c: Context, x: Value) -> Value:
    """Sums over all pixels above and to the left, a row and a column of zeros first."""
    return _integral(c.b, x)


@lowers("IntegralImageGradient")
def _integral_image_gradient(c: Context, x: Value, dy: Value) -> list[Value]:
    return gradients(c.b, lambda b, given: [_integral(b, given[0])], [x], [dy])
