"""Convolutions at places that are moved by computed offsets."""

from __future__ import annotations

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.caffe2.lowering.windows import is_nhwc, window
from netgrad.onnx.builder import Builder, Value


def _convolved(c: Context, b: Builder, given: list[Value]) -> Value:
    x, offsets, w = given[:3]
    if is_nhwc(c) or c.rank(x) != 4:
        raise c.refused("images with order NCHW are needed")
    area = window(c, x)
    return b.op(
        "DeformConv",
        x,
        w,
        offsets,
        given[3] if len(given) > 3 else None,
        kernel_shape=area.kernel,
        strides=area.strides,
        pads=area.pads,
        dilations=area.dilations,
        group=c.argument("group", 1),
        offset_group=c.argument("deformable_group", 1),
    )


@lowers("DeformConv")
def _deformable(c: Context, x: Value, offsets: Value, w: Value, bias: Value | None = None) -> Value:
    """Offsets: (batch, deformable_group * 2 * kernel size, rows, columns), down and right in turn."""
    return _convolved(c, c.b, [x, offsets, w, *([] if bias is None else [bias])])


@lowers("DeformConvGradient")
def _deformable_gradient(c: Context, x: Value, offsets: Value, w: Value, dy: Value) -> list[Value]:
    """The gradients of the offsets, the filter, the bias unless there is none, and of the image."""
    d_image, d_offsets, d_filter = gradients(
        c.b, lambda b, given: [_convolved(c, b, given)], [x, offsets, w], [dy]
    )
    found = [d_offsets, d_filter]
    if not c.argument("no_bias", False):
        found.append(c.b.reduce_sum(dy, [0, 2, 3]))
    return [*found, d_image][: c.outputs]
