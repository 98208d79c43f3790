"""Operators that move elements or look them up; and their gradient operators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.caffe2_pb2 import TensorProto
from netgrad.caffe2.lowering.context import ELEMENT_TYPES, Context
from netgrad.caffe2.lowering.places import from_front
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.onnx.broadcast import unbroadcast
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.placing import joined, length, lengths, product, scatter_along

# ---- shapes ------------------------------------------------------------------------------------------


@lowers("Reshape")
def _reshape(c: Context, x: Value, shape: Value | None = None) -> Sequence[Value]:
    """0 in the new shape keeps the dim, except where ``x`` has no elements: then 0 is 0, and so is -1."""
    b = c.b
    dims = c.integers("shape") if shape is None else shape.constant
    if dims is not None:
        result = _reshaped(b, x, [int(dim) for dim in dims])
    else:
        assert shape is not None, "else there are numbers"
        target = b.cast(shape, ir.DataType.INT64)
        # A gradient gets the shape of the input, in which nothing is left open.
        result = b.op(
            "Reshape", x, target if c.definition.is_gradient_op else _closed(b, x, target), allowzero=1
        )
    old = b.shape_of(x)
    return [result, old if shape is None else b.cast(old, shape.dtype or ir.DataType.INT64)]


def _reshaped(b: Builder, x: Value, dims: list[int]) -> Value:
    if x.static_shape is not None and 0 not in x.static_shape:
        dims = [
            x.static_shape[axis] if dim == 0 and axis < len(x.static_shape) else dim
            for axis, dim in enumerate(dims)
        ]
    if 0 not in dims:
        return b.op("Reshape", x, b.ints(dims))
    assert x.rank is not None, "the rank of every blob is known"
    kept = [
        lengths(b, x, axis, axis + 1) if dim == 0 and axis < x.rank else b.ints([dim])
        for axis, dim in enumerate(dims)
    ]
    target = b.where(_is_empty(b, x), b.ints([max(dim, 0) for dim in dims]), joined(b, kept))
    return b.assume_shape(b.op("Reshape", x, target, allowzero=1), (None,) * len(dims))


def _closed(b: Builder, x: Value, target: Value) -> Value:
    """A new shape that is only known when the net runs, with what it leaves open filled in."""
    count = b.shape_of(target)
    assert x.rank is not None, "the rank of every blob is known"
    own = b.slice(b.concat([b.shape_of(x), b.fill(count, 0, ir.DataType.INT64)], 0), 0, 0, count)
    kept = b.where(target.equals(0), own, target)
    return b.assume_like(b.where(_is_empty(b, x), b.op("Max", target, b.ints([0])), kept), target)


def _is_empty(b: Builder, x: Value) -> Value:
    return b.op("Equal", b.op("Size", x), b.constant(np.asarray(0)))


@lowers("ResizeLike")
def _resize_like(c: Context, x: Value, like: Value) -> Value:
    return c.b.reshape_like(x, like)


@lowers("Flatten")
def _flatten(c: Context, x: Value) -> Value:
    return c.b.op("Flatten", x, axis=c.argument("axis", 1))


@lowers("FlattenToVec")
def _flatten_to_vector(c: Context, x: Value) -> Value:
    return c.b.reshape(x, [-1])


@lowers("ExpandDims")
def _expand_dims(c: Context, x: Value) -> Value:
    return c.b.unsqueeze(x, sorted(set(c.integers("dims"))))


@lowers("Squeeze")
def _squeeze(c: Context, x: Value) -> Value:
    return c.b.squeeze(x, sorted(set(c.integers("dims"))))


@lowers("Transpose")
def _transpose(c: Context, x: Value) -> Value:
    axes = c.integers("axes") or list(range(c.rank(x)))[::-1]
    return c.b.transpose(x, axes)


@lowers("NCHW2NHWC")
def _channels_last(c: Context, x: Value) -> Value:
    return c.b.transpose(x, [0, *range(2, c.rank(x)), 1])


@lowers("NHWC2NCHW")
def _channels_second(c: Context, x: Value) -> Value:
    return c.b.transpose(x, [0, c.rank(x) - 1, *range(1, c.rank(x) - 1)])


@lowers("Shape")
def _shape(c: Context, x: Value) -> Value:
    axes = c.integers("axes")
    shape = c.b.shape_of(x)
    return c.b.op("Gather", shape, c.b.ints(axes), axis=0) if axes else shape


@lowers("Size")
def _size(c: Context, x: Value) -> Value:
    return c.b.reshape(c.b.size_along(x, range(c.rank(x))), []) if c.rank(x) else c.b.constant(np.int64(1))


@lowers("Cast")
def _cast(c: Context, x: Value) -> Value:
    """To an element type by its number, or by its name in letters of any case."""
    given = c.single("to") if c.has("to") else None
    names = dict(TensorProto.DataType.items())
    number = names.get(given.decode().upper()) if isinstance(given, bytes) else given
    if number not in ELEMENT_TYPES:
        raise c.refused(f"the argument 'to' is {given!r}, and the number or name of a type is needed")
    return c.b.cast(x, ELEMENT_TYPES[number])


@lowers("PrependDim")
def _prepend_dim(c: Context, x: Value) -> Value:
    """The first dim cut into ``dim_size`` by the rest."""
    count = c.argument("dim_size", 0)
    if count < 1:
        raise c.refused("the argument 'dim_size' is missing, or less than 1")
    rows = length(c.b, x, 0) / c.b.ints([count])
    return c.b.op("Reshape", x, joined(c.b, [c.b.ints([count]), rows, *_dims_from(c, x, 1)]), allowzero=1)


@lowers("MergeDim")
def _merge_dim(c: Context, x: Value) -> Value:
    """The first two dims as one."""
    return c.b.op("Reshape", x, joined(c.b, [product(c.b, x, 0, 2), *_dims_from(c, x, 2)]), allowzero=1)


def _dims_from(c: Context, x: Value, first: int) -> list[Value]:
    return [lengths(c.b, x, first, c.rank(x))] if c.rank(x) > first else []


@lowers("Expand")
def _expand(c: Context, x: Value, shape: Value | None = None) -> Value:
    """Broadcast to a shape; a negative size leaves the dim as it is."""
    b = c.b
    target = b.ints(c.integers("shape")) if shape is None else shape
    rank = max(c.rank(x), c.static(target, 0))
    sizes = b.cast(target, ir.DataType.INT64)
    return b.assume_shape(b.op("Expand", x, b.where(sizes < 0, 1, sizes)), (None,) * rank)


@lowers("ExpandGradient")
def _expand_gradient(c: Context, dy: Value, x: Value) -> Value:
    return unbroadcast(c.b, dy, x)


# ---- joining and cutting -----------------------------------------------------------------------------


def _join_axis(c: Context, rank: int) -> int:
    """The axis of parts; without ``axis`` that of an image's channels, 3 in the order NHWC at any rank."""
    if c.has("axis"):
        axis = c.argument("axis", 1)
        return axis + rank if axis < 0 else axis
    axis = 3 if c.argument("order", "NCHW") == "NHWC" else 1
    if axis >= rank:
        raise c.refused(f"there is no axis {axis} of {rank} axes; the argument 'axis' says which is meant")
    return axis


def _is_new(c: Context) -> bool:
    """Whether parts lie along an axis of their own.

    The original infers so for any ``add_axis``, and heeds it beside ``axis`` only when it runs.
    """
    return c.argument("add_axis", False)


@lowers("Concat", "DepthConcat")
def _concat(c: Context, *parts: Value) -> Sequence[Value]:
    if _is_new(c):
        axis = _join_axis(c, c.rank(parts[0]) + 1)
        joined = c.b.concat([c.b.unsqueeze(part, [axis]) for part in parts], axis)
        sizes = c.b.constant(np.ones(len(parts), np.int32))
        return [joined, sizes]
    axis = _join_axis(c, c.rank(parts[0]))
    found = [c.b.slice(c.b.shape_of(part), 0, axis, axis + 1) for part in parts]
    joined = c.b.op("Identity", parts[0]) if len(parts) == 1 else c.b.concat(parts, axis)
    return [joined, c.b.cast(c.b.concat(found, 0), ir.DataType.INT32)]


@lowers("Split", "DepthSplit")
def _split(c: Context, x: Value, sizes: Value | None = None) -> Sequence[Value]:
    axis = _join_axis(c, c.rank(x))
    stacked = _is_new(c)
    if sizes is not None:
        listed: Value | None = c.b.cast(sizes, ir.DataType.INT64)
    elif c.has("split"):
        listed = c.b.ints(c.integers("split"))
    else:
        listed = _equal_sizes(c, x, axis)
    parts = c.b.ops("Split", x, listed, outputs=c.outputs, axis=axis)
    return [c.b.squeeze(part, [axis]) for part in parts] if stacked else parts


def _equal_sizes(c: Context, x: Value, axis: int) -> Value:
    """The sizes of equal parts. ONNX would let the last one be smaller; these fail if there is a rest."""
    count, size = c.outputs, x.dim(axis)
    if isinstance(size, int):
        if size % count:
            raise c.refused(f"{size} along axis {axis} can't be split into {count} equal parts")
        return c.b.ints([size // count] * count)
    return c.b.op("Expand", length(c.b, x, axis) / c.b.ints([count]), c.b.ints([count]))


@lowers("SplitByLengths")
def _split_by_lengths(c: Context, x: Value, sizes: Value) -> Sequence[Value]:
    """As many of the lengths go to each part; ``use_scaling_lengths``: each times what makes them fit."""
    b, axis = c.b, _join_axis(c, c.rank(x))
    parts = b.reduce_sum(b.reshape(b.cast(sizes, ir.DataType.INT64), [c.outputs, -1]), [1])
    if c.argument("use_scaling_lengths", False):
        total = b.op("Max", b.reduce_sum(parts, [0], keepdims=True), b.ints([1]))
        parts = parts * (length(b, x, axis) / total)
    return b.ops("Split", x, parts, outputs=c.outputs, axis=axis)


def _bounds(c: Context, starts: Value | None, ends: Value | None) -> tuple[list[int], list[int]]:
    found = []
    for name, value in (("starts", starts), ("ends", ends)):
        if value is None:
            found.append(c.integers(name))
        elif value.constant is not None:
            found.append([int(number) for number in value.constant])
        else:
            raise c.refused(f"{name} are computed, and known ones are needed")
    return found[0], found[1]


def _sliced(b: Builder, x: Value, starts: Sequence[int], ends: Sequence[int]) -> Value:
    """A negative bound b means dim + 1 + b, so that -1 is the end."""
    axes = list(range(len(starts)))
    # ONNX counts -1 as the last element, and cuts bounds that lie outside.
    first = [start if start >= 0 else start + 1 or 2**62 for start in starts]
    last = [end if end >= 0 else (2**62 if end == -1 else end + 1) for end in ends]
    return b.op("Slice", x, b.ints(first), b.ints(last), b.ints(axes))


@lowers("Slice")
def _slice(c: Context, x: Value, starts: Value | None = None, ends: Value | None = None) -> Value:
    if starts is None or ends is None or (starts.constant is not None and ends.constant is not None):
        return _sliced(c.b, x, *_bounds(c, starts, ends))
    first, last = (_computed_bound(c, x, bound) for bound in (starts, ends))
    return c.b.op("Slice", x, first, last, c.b.ints(range(c.static(starts, 0))))


def _computed_bound(c: Context, x: Value, bound: Value) -> Value:
    """A bound for each of the first axes, counted from the front."""
    if c.static(bound, 0) > c.rank(x):
        raise c.refused(f"there are {c.static(bound, 0)} computed bounds for {c.rank(x)} axes")
    whole = c.b.cast(bound, ir.DataType.INT64)
    counted = whole + lengths(c.b, x, 0, c.static(bound, 0)) + 1
    counted = c.b.op("Max", counted, c.b.ints([0]))  # what lies in front is cut, not counted
    return c.b.where(whole < 0, counted, whole)


@lowers("SliceGradient")
def _slice_gradient(c: Context, x: Value, *rest: Value) -> list[Value]:
    starts, ends = (rest[0], rest[1]) if len(rest) > 1 else (None, None)
    if starts is not None and ends is not None and (starts.constant is None or ends.constant is None):
        b, dy = c.b, rest[-1]
        rest_of_axes = b.ints([0] * (c.rank(x) - c.static(starts, 0)))
        before = joined(b, [_computed_bound(c, x, starts), rest_of_axes])
        behind = b.shape_of(x) - before - b.shape_of(dy)
        return [b.assume_like(b.op("Pad", dy, b.concat([before, behind], 0)), x)]
    first, last = _bounds(c, starts, ends)
    return gradients(c.b, lambda b, given: [_sliced(b, given[0], first, last)], [x], [rest[-1]])


@lowers("PadImage")
def _pad_image(c: Context, x: Value) -> Value:
    return _padded(c, c.b, x)


def _padded(c: Context, b: Builder, x: Value) -> Value:
    sides = [c.argument(f"pad_{side}", c.argument("pad", 0)) for side in "tlbr"]
    first = 1 if c.argument("order", "NCHW") == "NHWC" else 2
    pads = [0] * 8
    pads[first], pads[first + 1], pads[4 + first], pads[5 + first] = sides
    mode = c.argument("mode", "constant")
    fill = b.scalar(c.argument("value", 0.0), x) if mode == "constant" else None
    return b.op("Pad", x, b.ints(pads), fill, mode=mode)


@lowers("PadImageGradient")
def _pad_image_gradient(c: Context, dy: Value) -> list[Value]:
    sides = [c.argument(f"pad_{side}", c.argument("pad", 0)) for side in "tlbr"]
    first = 1 if c.argument("order", "NCHW") == "NHWC" else 2
    inner = c.b.op(
        "Slice",
        dy,
        c.b.ints(sides[:2]),
        c.b.ints([-side or 2**62 for side in sides[2:]]),
        c.b.ints([first, first + 1]),
    )
    if c.argument("mode", "constant") == "constant":
        return [inner]
    # The inner part has the shape of the image that was padded.
    return gradients(c.b, lambda b, given: [_padded(c, b, given[0])], [inner], [dy])


@lowers("Tile")
def _tile(c: Context, x: Value, tiles: Value | None = None, axis: Value | None = None) -> Value:
    """Copies side by side along an axis; their number and the axis may be inputs."""
    b, rank = c.b, c.rank(x)
    if tiles is None:
        counts = [1] * rank
        counts[c.axis(x, c.argument("axis", 0))] = c.argument("tiles", 1)
        return b.op("Tile", x, b.ints(counts))
    return b.op("Tile", x, b.where(_is_axis(c, x, axis), _one_whole(b, tiles), 1))


def _is_axis(c: Context, x: Value, given: Value | None) -> Value:
    """Which axis of ``x`` an input means, or the argument: a truth value for each."""
    b = c.b
    place = b.ints([c.axis(x, c.argument("axis", 0))]) if given is None else _one_whole(b, given)
    number = b.constant(np.arange(c.rank(x)))
    return b.op("Or", number.equals(place), number.equals(place + c.rank(x)))


def _sum_of_copies(c: Context, dy: Value, tiles: Value, axis: Value | None) -> Value:
    """The gradient of a Tile whose number of copies is known at run time only: a row for each copy."""
    b, count, hit, shape = c.b, _one_whole(c.b, tiles), _is_axis(c, dy, axis), c.b.shape_of(dy)
    before = b.op("CumSum", b.cast(hit, ir.DataType.INT64), b.constant(np.asarray(0))).equals(0)
    outer = b.op("ReduceProd", b.where(before, shape, 1), keepdims=1)
    one = b.where(hit, shape / count, shape)
    inner = b.op("ReduceProd", b.where(before, 1, one), keepdims=1)
    copies = b.op("Reshape", dy, b.concat([outer, count, inner], 0), allowzero=1)
    summed = b.op("Reshape", b.reduce_sum(copies, [1]), one, allowzero=1)
    return b.assume_shape(summed, (None,) * c.rank(dy))


def _one_whole(b: Builder, x: Value) -> Value:
    return b.reshape(b.cast(x, ir.DataType.INT64), [1])


@lowers("NumpyTile")
def _numpy_tile(c: Context, x: Value, repeats: Value) -> Value:
    """Copies along each axis, as many as the second input says."""
    return c.b.op("Tile", x, c.b.cast(repeats, ir.DataType.INT64))


@lowers("TileGradient")
def _tile_gradient(
    c: Context, dy: Value, tiles_given: Value | None = None, axis_given: Value | None = None
) -> Value:
    """The sum over the copies."""
    if tiles_given is not None:
        return _sum_of_copies(c, dy, tiles_given, axis_given)
    axis, tiles = c.axis(dy, c.argument("axis", 0)), c.argument("tiles", 1)
    parts = c.b.ops("Split", dy, outputs=tiles, axis=axis, num_outputs=tiles)
    return parts[0] if tiles == 1 else c.b.op("Sum", *parts)


# ---- lookups -----------------------------------------------------------------------------------------


def _gathered(c: Context, b: Builder, data: Value, indices: Value, axis: int) -> Value:
    """What lies at places along an axis.

    With ``match_outer`` each entry of the axes before it has indices of its own, which have these axes too.
    """
    if not c.argument("match_outer", False):
        return b.op("Gather", data, indices, axis=axis)
    if axis < 1 or c.rank(indices) < axis:
        raise c.refused(f"argument 'match_outer' needs outer axes; axis is {axis}")
    return b.op(
        "GatherND", data, b.unsqueeze(b.cast(indices, ir.DataType.INT64), [c.rank(indices)]), batch_dims=axis
    )


@lowers("Gather")
def _gather(c: Context, data: Value, indices: Value) -> Value:
    return _gathered(c, c.b, data, indices, c.axis(data, c.argument("axis", 0)))


@lowers("BatchGather")
def _batch_gather(c: Context, data: Value, indices: Value) -> Value:
    return _gathered(c, c.b, data, from_front(c.b, indices), 1)


@lowers("BatchGatherGradient")
def _batch_gather_gradient(c: Context, data: Value, indices: Value, dy: Value) -> list[Value]:
    axis = c.axis(data, c.argument("axis", 1))
    return gradients(
        c.b, lambda b, given: [_gathered(c, b, given[0], given[1], axis)], [data], [dy], [indices]
    )


@lowers("SparseToDense")
def _sparse_to_dense(c: Context, indices: Value, values: Value, like: Value | None = None) -> Value:
    """Rows added into zeros, as many as ``like`` has or the argument says, else up to the largest index."""
    if like is not None:
        rows = c.b.slice(c.b.shape_of(like), 0, 0, 1)
    elif c.has("output_first_dim"):
        rows = c.b.ints([c.argument("output_first_dim", 0)])
    else:
        given = c.b.concat([c.b.cast(indices, ir.DataType.INT64), c.b.ints([-1])], 0)
        rows = c.b.reduce("ReduceMax", given, [0], keepdims=True) + 1
    rest = c.b.op("Slice", c.b.shape_of(values), c.b.ints([1]), c.b.ints([2**62]))
    places = from_front(c.b, c.b.cast(indices, ir.DataType.INT64))
    dense = scatter_along(c.b, values, 0, places, c.b.concat([rows, rest], 0))
    return dense if like is None else c.b.assume_shape(dense, (like.dim(0), *(values.shape or ())[1:]))


# ---- channels ----------------------------------------------------------------------------------------


@lowers("ArgMax", "ArgMin")
def _arg(c: Context, x: Value) -> Value:
    return c.b.op(
        c.definition.type,
        x,
        axis=c.axis(x, c.argument("axis", -1)),
        keepdims=int(c.argument("keepdims", True)),
    )
