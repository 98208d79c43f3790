"""Operators that move elements: reshaping, turning, joining, cutting and padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netgrad.caffe2.caffe2_pb2 import TensorProto
from netgrad.caffe2.onnx_import.node import Node
from netgrad.caffe2.onnx_import.registry import writes

_INT64 = TensorProto.INT64


def _reshaped(n: Node, x: str, shape: Sequence[int], output: str | None = None) -> str:
    """Written on the node's output unless told otherwise; 0 stands for the dim that is there."""
    found = n.outputs[0] if output is None else output
    return n.write("Reshape", [x], [found, n.fresh("old_shape")], shape=list(shape))


@writes("Reshape")
def _reshape(n: Node) -> None:
    """A 0 in Caffe2's Reshape is 0 where there are no elements; with allowzero, others can't have any."""
    if n.info(1).constant is not None:
        _reshaped(n, n.inputs[0], n.numbers(1))
    else:
        n.write("Reshape", n.inputs, [n.outputs[0], n.fresh("old_shape")])


@writes("Flatten")
def _flatten(n: Node) -> None:
    axis = n.attribute("axis", 1)
    n.write("Flatten", axis=axis if axis >= 0 else n.axis(axis))


@writes("Squeeze")
def _squeeze(n: Node) -> None:
    axes = n.axes(1)
    if axes is None:
        axes = [axis for axis, dim in enumerate(n.dims()) if dim == 1]
    n.write("Squeeze" if axes else "Copy", dims=axes or None)


@writes("Unsqueeze")
def _unsqueeze(n: Node) -> None:
    count = len(n.numbers(1))
    axes = n.axes(1, n.rank() + count if min(n.numbers(1), default=0) < 0 else 2**31)
    n.write("ExpandDims" if axes else "Copy", dims=axes or None)


@writes("Transpose")
def _transpose(n: Node) -> None:
    n.write("Transpose", axes=n.attribute("perm", None))


@writes("Shape")
def _shape(n: Node) -> None:
    start, end = n.attribute("start", 0), n.attribute("end", None)
    if not start and end is None:
        n.write("Shape")
        return
    axes = list(range(n.rank()))[start:end]
    if not axes:
        raise n.refused("it gives no dim")
    n.write("Shape", axes=axes)


@writes("Size")
def _size(n: Node) -> None:
    n.write("Size")


@writes("Expand")
def _expand(n: Node) -> None:
    n.write("Expand", n.inputs)


@writes("Tile")
def _tile(n: Node) -> None:
    """One operator for each axis that is repeated; counts that are computed are an input."""
    if n.info(1).constant is None:
        n.write("NumpyTile", [n.inputs[0], n.step("Cast", [n.inputs[1]], to=_INT64)])
        return
    counts = [(axis, count) for axis, count in enumerate(n.numbers(1)) if count != 1]
    x = n.inputs[0]
    for axis, count in counts[:-1]:
        x = n.step("Tile", [x], tiles=count, axis=axis)
    if counts:
        n.write("Tile", [x], tiles=counts[-1][1], axis=counts[-1][0])
    else:
        n.write("Copy")


# ---- joining and cutting -----------------------------------------------------------------------------


@writes("Concat")
def _concat(n: Node) -> None:
    n.write("Concat", n.inputs, [n.outputs[0], n.fresh("sizes")], axis=n.axis(n.attribute("axis", 0)))


@writes("Split")
def _split(n: Node) -> None:
    axis = n.attribute("axis", 0) % n.rank()
    if n.has(1) and n.info(1).constant is None:
        sizes_given = n.step("Cast", [n.inputs[1]], to=TensorProto.INT32)
        n.write("Split", [n.inputs[0], sizes_given], n.outputs, axis=axis)
        return
    if n.has(1):
        sizes: list[int] | None = n.numbers(1)
    else:
        dim = (n.info(0).shape or ())[axis]
        count = len(n.outputs)
        sizes = None  # as Caffe2 does it: all parts are as large
        if isinstance(dim, int):
            part = -(-dim // count)
            sizes = [part] * (count - 1) + [dim - part * (count - 1)]
    n.write("Split", outputs=n.outputs, axis=axis, split=sizes)


@writes("Pad")
def _pad(n: Node) -> None:
    """Height and width of flat images, and the length of rows of channels."""
    mode, rank = n.attribute("mode", "constant"), n.rank()
    if mode not in ("constant", "reflect", "edge"):
        raise n.refused(f"Caffe2 has no padding of mode '{mode}'")
    given = n.numbers(1)
    axes = [axis % rank for axis in n.numbers(3)] if n.has(3) else list(range(rank))
    front, behind = [0] * rank, [0] * rank
    for k, axis in enumerate(axes):
        front[axis], behind[axis] = given[k], given[k + len(axes)]
    if min(front + behind) < 0:
        raise n.refused("Caffe2's padding is not negative")
    if not any(front + behind):
        n.write("Copy")
        return
    padded = {axis for axis in range(rank) if front[axis] or behind[axis]}
    last = rank == 4 and 1 in padded  # channels come last
    if rank not in (3, 4) or not padded <= ({1, 2} if last else {2, 3}):
        raise n.refused("Caffe2 pads height and width of images")
    height, width = (1, 2) if last else (rank - 2, rank - 1)
    fill = float(n.constant(2).reshape(-1)[0]) if n.has(2) and mode == "constant" else 0.0
    arguments = {
        "mode": mode,
        "value": fill if fill else None,
        "order": "NHWC" if last else None,
        "pad_t": front[height] if rank == 4 else 0,
        "pad_l": front[width],
        "pad_b": behind[height] if rank == 4 else 0,
        "pad_r": behind[width],
    }
    if rank == 4:
        n.write("PadImage", **arguments)
        return
    image = n.step("PadImage", [n.step("ExpandDims", n.inputs[:1], dims=[2])], **arguments)
    n.write("Squeeze", [image], dims=[2])


@writes("Trilu")
def _triangle(n: Node) -> None:
    """A choice by a mask: zeros elsewhere, whatever stood there."""
    rank = n.rank()
    rows, columns = n.dim(0, rank - 2), n.dim(0, rank - 1)
    offset = n.numbers(1)[0] if n.has(1) else 0
    part = np.triu if n.attribute("upper", 1) else np.tril
    mask = n.parameter(
        part(np.ones((rows, columns), np.int32), offset), "mask"
    )  # there is no Expand of truths
    dtype = n.info(0).dtype
    if dtype is None:
        raise n.refused("the type of its elements is not known")
    zeros = n.step(
        "ConstantFill", n.inputs[:1], value=0.0 if dtype.is_floating_point() else 0, dtype=n.number_of(dtype)
    )
    whole = n.step("Expand", [mask, n.step("Shape", n.inputs[:1])])
    n.write("Where", [n.step("Cast", [whole], to=TensorProto.BOOL), n.inputs[0], zeros])


@writes("ReverseSequence")
def _reverse_sequence(n: Node) -> None:
    lengths = n.step("Cast", [n.inputs[1]], to=TensorProto.INT32)
    order = None if n.attribute("time_axis", 0) == 0 else [1, 0, *range(2, n.rank())]
    x = n.inputs[0] if order is None else n.step("Transpose", n.inputs[:1], axes=order)
    shape = n.fresh("old_shape")
    rows = n.write(
        "Reshape", [x], [n.fresh("rows"), shape], shape=[0, 0, -1]
    )  # of numbers, as Caffe2 has them
    turned = n.step("ReversePackedSegs", [rows, lengths])
    output = n.outputs[0] if order is None else n.fresh("turned")
    n.write("Reshape", [turned, shape], [output, n.fresh("old_shape")])
    if order is not None:
        n.write("Transpose", [output], axes=order)


# ---- channels ----------------------------------------------------------------------------------------


@writes("DepthToSpace")
def _depth_to_space(n: Node) -> None:
    size = n.attribute("blocksize", 1)
    _, channels, height, width = (0, *(n.dim(0, axis) for axis in (1, 2, 3)))
    inner = channels // size**2
    if n.attribute("mode", "DCR") == "DCR":
        blocks, order = [0, size, size, inner, height, width], [0, 3, 4, 1, 5, 2]
    else:
        blocks, order = [0, inner, size, size, height, width], [0, 1, 4, 2, 5, 3]
    _mixed(n, blocks, order, [0, inner, height * size, width * size])


@writes("SpaceToDepth")
def _space_to_depth(n: Node) -> None:
    size = n.attribute("blocksize", 1)
    channels, height, width = (n.dim(0, axis) for axis in (1, 2, 3))
    rows, columns = height // size, width // size
    blocks = [0, channels, rows, size, columns, size]
    order = [0, 3, 5, 1, 2, 4] if n.attribute("mode", "DCR") == "DCR" else [0, 1, 3, 5, 2, 4]
    _mixed(n, blocks, order, [0, channels * size**2, rows, columns])


def _mixed(n: Node, blocks: Sequence[int], order: Sequence[int], shape: Sequence[int]) -> None:
    parts = _reshaped(n, n.inputs[0], blocks, n.fresh("blocks"))
    _reshaped(n, n.step("Transpose", [parts], axes=list(order)), shape)
