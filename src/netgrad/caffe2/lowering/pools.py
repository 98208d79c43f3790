"""Pools over windows, and sums over neighbouring channels; and their gradient operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.caffe2.lowering.windows import channels_back, channels_first, cropped, is_nhwc, window
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.placing import joined, lengths, product


def _pool(c: Context, b: Builder, x: Value, type_: str) -> Value:
    nhwc = is_nhwc(c)
    image = channels_first(b, x, nhwc)
    image, at = cropped(b, image, window(c, image))
    attributes: dict[str, Any] = {
        "kernel_shape": at.kernel,
        "strides": at.strides,
        "pads": at.pads,
        "ceil_mode": int(at.ceil),
    }
    if type_ == "MaxPool":
        attributes["dilations"] = at.dilations
    elif type_ == "AveragePool":
        attributes["count_include_pad"] = int(c.argument("count_include_pad", False))
    elif type_ == "LpPool":
        attributes["p"] = int(c.argument("p", 2.0))
    return channels_back(b, b.op(type_, image, **attributes), nhwc)


_POOLS = {
    f"{kind}Pool{dims}": f"{kind}Pool" for kind in ("Max", "Average") for dims in ("", "1D", "2D", "3D")
} | {"LpPool": "LpPool"}


@lowers(*_POOLS)
def _pooling(c: Context, x: Value) -> Value:
    return _pool(c, c.b, x, _POOLS[c.definition.type])


@lowers(*(f"{type_}Gradient" for type_ in _POOLS))
def _pooling_gradient(c: Context, x: Value, y: Value, dy: Value) -> list[Value]:
    type_ = _POOLS[c.definition.type.removesuffix("Gradient")]
    return gradients(c.b, lambda b, given: [_pool(c, b, given[0], type_)], [x], [dy])


@lowers("MaxPoolWithIndex")
def _pooling_with_index(c: Context, x: Value) -> Sequence[Value]:
    """The maximum of each window, and which pixel of its plane it is."""
    b, at = c.b, window(c, x)
    if is_nhwc(c):
        raise c.refused("its channels must be behind the batch (order NCHW)")
    pooled, places = b.ops(
        "MaxPool",
        x,
        outputs=2,
        kernel_shape=at.kernel,
        strides=at.strides,
        pads=at.pads,
        dilations=at.dilations,
        ceil_mode=int(at.ceil),
    )
    plane = b.size_along(x, range(2, c.rank(x)))
    return [pooled, b.cast(b.op("Mod", places, plane), ir.DataType.INT32)][: c.outputs]


@lowers("MaxPoolWithIndexGradient")
def _pooling_with_index_gradient(c: Context, x: Value, dy: Value, places: Value) -> list[Value]:
    return gradients(c.b, lambda b, given: [_pool(c, b, given[0], "MaxPool")], [x], [dy])


@lowers("LRN")
def _lrn(c: Context, x: Value) -> Sequence[Value]:
    """The image divided by a power of the sums of squares of neighbouring channels, and those sums."""
    b, size = c.b, c.argument("size", 0)
    result = _local_response(c, b, x)
    if c.outputs == 1:
        return [result]
    nhwc = is_nhwc(c)
    squares = channels_first(b, x * x, nhwc)
    means = b.op(
        "AveragePool",
        _planes(b, squares),
        kernel_shape=[size, 1],
        pads=[(size - 1) // 2, 0, size // 2, 0],
        count_include_pad=1,
    )
    scale = b.reshape_like(means, squares) * c.argument("alpha", 0.0) + c.argument("bias", 1.0)
    return [result, channels_back(b, scale, nhwc)]


def _planes(b: Builder, image: Value) -> Value:
    """Channels as rows of one plane: (N, 1, C, pixels)."""
    return b.op(
        "Reshape",
        image,
        joined(
            b,
            [
                lengths(b, image, 0, 1),
                b.ints([1]),
                lengths(b, image, 1, 2),
                product(b, image, 2, image.rank or 4),
            ],
        ),
        allowzero=1,
    )


def _local_response(c: Context, b: Builder, x: Value) -> Value:
    nhwc = is_nhwc(c)
    result = b.op(
        "LRN",
        channels_first(b, x, nhwc),
        size=c.argument("size", 0),
        alpha=c.argument("alpha", 0.0),
        beta=c.argument("beta", 0.0),
        bias=c.argument("bias", 1.0),
    )
    return channels_back(b, result, nhwc)


@lowers("LRNGradient")
def _lrn_gradient(c: Context, x: Value, y: Value, dy: Value) -> list[Value]:
    return gradients(c.b, lambda b, given: [_local_response(c, b, given[0])], [x], [dy])
