"""Operators that move elements: reshaping, turning, joining, cutting and padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netgrad.caffe2.caffe2_pb2 import TensorProto
from netgrad.caffe2.onnx_import.node import Node
from netgrad.caffe2.onnx_import.registry import writes

_INT64 = TensorProto.INT64
_END = 2**31 - 1  # a bound from here on means the end, whatever the size


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
    """One operator for each axis that is repeated."""
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


@writes("Slice")
def _slice(n: Node) -> None:
    """One operator for each axis: Caffe2 cuts along one; steps other than 1 are lookups."""
    if n.info(1).constant is None or n.info(2).constant is None:
        _computed_slice(n)
        return
    starts, ends = n.numbers(1), n.numbers(2)
    axes = n.numbers(3) if n.has(3) else list(range(len(starts)))
    steps = n.numbers(4) if n.has(4) else [1] * len(starts)
    x, written = n.inputs[0], 0
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis, written = n.axis(axis), written + 1
        output = n.outputs[0] if written == len(starts) else n.fresh("slice")
        if step == 1:
            first, last = _bounds(n, axis, start, end)
            rank = n.rank()
            n.write(
                "Slice",
                [x],
                [output],
                starts=[first if k == axis else 0 for k in range(rank)],
                ends=[last if k == axis else -1 for k in range(rank)],
            )
        else:
            places = np.arange(n.dim(0, axis), dtype=np.int64)[_python_slice(start, end, step)]
            n.write("Gather", [x, n.parameter(places, "places")], [output], axis=axis)
        x = output
    if not starts:
        n.write("Copy")


def _computed_slice(n: Node) -> None:
    """One operator with a bound per axis: those that are given among those that take all."""
    if n.has(4) and any(step != 1 for step in n.numbers(4)):
        raise n.refused("bounds that are computed have steps of 1 in Caffe2")
    if n.has(3):
        axes = n.inputs[3]
        if n.info(3).constant is None:
            axes = _from_the_front(n, n.step("Cast", [axes], to=_INT64), n.rank(), "Add")
        else:
            axes = n.parameter(np.asarray(n.axes_in_order(3), np.int64), "axes")
    else:  # the first ones, as many as there are bounds
        axes = n.step("Range", [n.step("Size", [n.inputs[1]])])
    bounds = []
    for at, default in ((1, 0), (2, -1)):
        given = _from_the_front(n, n.step("Cast", [n.inputs[at]], to=_INT64), 1, "Sub")
        bound = n.step("ConstantFill", [], shape=[n.rank()], value=default, dtype=_INT64)
        bounds.append(n.write("ScatterAssign", [bound, axes, given], [bound]))
    n.write("Slice", [n.inputs[0], *bounds])


def _from_the_front(n: Node, numbers: str, amount: int, type_: str) -> str:
    """The numbers, those below 0 with an amount added or taken away: Caffe2's bounds count from dim + 1."""
    zero, other = (n.parameter(np.asarray([x], np.int64), "number") for x in (0, amount))
    changed = n.step(type_, [numbers, other], broadcast=1)
    return n.step("Conditional", [n.step("LT", [numbers, zero], broadcast=1), changed, numbers])


def _python_slice(start: int, end: int, step: int) -> slice:
    """With a negative step, an end before the first element stands for all down to it."""
    return slice(start, None if step < 0 and end <= -_END else end, step)


def _bounds(n: Node, axis: int, start: int, end: int) -> tuple[int, int]:
    """Bounds as Caffe2 counts them: a negative b means dim + 1 + b, and -1 is the end."""
    shape = n.info(0).shape or ()
    dim = shape[axis] if axis < len(shape) else None
    if isinstance(dim, int):
        first, last, _ = slice(start, end).indices(dim)
        return first, max(first, last)
    if start <= -_END:
        start = 0
    return start if start >= 0 else start - 1, end - 1 if end < 0 else -1 if end >= _END else end


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
