"""Kernels, strides, pads and dilations of convolutions and pools, from their many arguments."""

from __future__ import annotations

from dataclasses import dataclass, replace

from netgrad.caffe2.lowering.context import Context
from netgrad.onnx.builder import Builder, Value

_VALID, _SAME, _CAFFE = 1, 2, 3
_LETTERS = ("h", "w")
_SIDES = ("t", "l", "b", "r")


@dataclass(frozen=True)
class Window:
    """A sliding window over the spatial dims of an image.

    Attributes:
        kernel: Its size along each dim.
        strides: Its steps.
        dilations: The distances of its elements.
        pads: Padding in front along each dim, then behind.
        ceil: Whether a last window that lies partly outside counts, as old pooling has it.
    """

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[int]
    ceil: bool = False


def is_nhwc(c: Context) -> bool:
    """Whether channels come last."""
    order = c.argument("order", "NCHW")
    if order not in ("NCHW", "NHWC"):
        raise c.refused(f"order {order!r} is neither NCHW nor NHWC")
    return order == "NHWC"


def channels_first(b: Builder, x: Value, nhwc: bool) -> Value:
    """An image with its channels behind the batch."""
    rank = x.rank or 4
    return b.transpose(x, [0, rank - 1, *range(1, rank - 1)]) if nhwc else x


def channels_back(b: Builder, x: Value, nhwc: bool) -> Value:
    """The opposite of `channels_first`."""
    rank = x.rank or 4
    return b.transpose(x, [0, *range(2, rank), 1]) if nhwc else x


def _per_dim(c: Context, name: str, dims: int, default: int) -> list[int]:
    listed = c.integers(f"{name}s")
    if listed:
        return listed
    if c.has(name):
        return [c.argument(name, default)] * dims
    if any(c.has(f"{name}_{letter}") for letter in _LETTERS):
        if dims != 2:
            raise c.refused(f"'{name}_h' and '{name}_w' are for two dims, and the image has {dims}")
        return [c.argument(f"{name}_{letter}", default) for letter in _LETTERS]
    return [default] * dims


def _pads(c: Context, dims: int) -> list[int]:
    listed = c.integers("pads")
    if listed:
        return listed
    if any(c.has(f"pad_{side}") for side in _SIDES):
        if dims != 2:
            raise c.refused(f"pads by side ('pad_t') are for two dims, and the image has {dims}")
        return [c.argument(f"pad_{side}", 0) for side in _SIDES]
    return [c.argument("pad", 0)] * (2 * dims)


def window(c: Context, x: Value) -> Window:
    """The window of a convolution or pool over ``x``, an image with its channels behind the batch.

    Raises:
        UnsupportedOperatorError: The arguments say no kernel.
        StaticShapeNeededError: The padding depends on the size of the image.
    """
    dims = c.rank(x) - 2
    if c.argument("global_pooling", False):
        kernel = [c.static(x, axis) for axis in range(2, 2 + dims)]
        return Window(kernel, [1] * dims, [1] * dims, [0] * (2 * dims))
    kernel = _per_dim(c, "kernel", dims, 0)
    if not all(kernel):
        raise c.refused("the arguments give no kernel")
    strides = _per_dim(c, "stride", dims, 1)
    dilations = _per_dim(c, "dilation", dims, 1)
    legacy = c.argument("legacy_pad", 0)
    if legacy == _VALID:
        return Window(kernel, strides, dilations, [0] * (2 * dims))
    if legacy == _SAME:
        pads = _same_pads(c, x, kernel, strides)
        return Window(kernel, strides, dilations, pads)
    at = Window(kernel, strides, dilations, _pads(c, dims), ceil=legacy == _CAFFE)
    if at.ceil and any(at.pads[k] == 0 and at.strides[k] > at.kernel[k] for k in range(dims)):
        _refuse_beyond(c, x, at)
    return at


def _refuse_beyond(c: Context, x: Value, at: Window) -> None:
    """Refuse a last place of Caffe's old pooling that lies outside the image: it would hold nothing."""
    for k, (kernel, stride) in enumerate(zip(at.kernel, at.strides, strict=True)):
        size = c.static(x, 2 + k)
        free = size + 2 * at.pads[k] - at.dilations[k] * (kernel - 1) - 1
        if at.pads[k] == 0 and -(-free // stride) * stride >= size:
            raise c.refused(f"steps of {stride} over {size} pixels end outside, with Caffe's old pooling")


def cropped(b: Builder, x: Value, at: Window) -> tuple[Value, Window]:
    """An image without what negative padding cuts off, and the window without it."""
    dims = len(at.kernel)
    if min(at.pads, default=0) >= 0:
        return x, at
    starts = [max(0, -pad) for pad in at.pads[:dims]]
    ends = [min(0, pad) or 2**62 for pad in at.pads[dims:]]
    inner = b.op("Slice", x, b.ints(starts), b.ints(ends), b.ints(range(2, 2 + dims)))
    return inner, replace(at, pads=[max(0, pad) for pad in at.pads])


def closed(c: Context, x: Value, at: Window) -> Window:
    """A window of Caffe's old pooling with so much padding behind that its last place lies inside.

    A last place that would begin in the padding doesn't count. Only the padding in front is read.

    Raises:
        StaticShapeNeededError: The size of the image is unknown.
    """
    dims, behind = len(at.kernel), []
    for k in range(dims):
        front, stride = at.pads[k], at.strides[k]
        size = c.static(x, 2 + k)
        free = size + 2 * front - at.dilations[k] * (at.kernel[k] - 1) - 1
        places = -(-free // stride) + 1
        if front > 0 and (places - 1) * stride >= size + front:
            places -= 1
        behind.append(front + stride * (places - free // stride - 1))
    return replace(at, pads=at.pads[:dims] + behind, ceil=False)


def _same_pads(c: Context, x: Value, kernel: list[int], strides: list[int]) -> list[int]:
    """So much padding that there is an output per stride, the smaller half in front.

    It is negative where strides leap over pixels: so many are cut off.
    """
    front, behind = [], []
    for axis, (size, stride) in enumerate(zip(kernel, strides, strict=True), start=2):
        image = c.static(x, axis)
        total = (-(-image // stride) - 1) * stride + size - image
        front.append(int(total / 2))
        behind.append(total - int(total / 2))
    return front + behind
