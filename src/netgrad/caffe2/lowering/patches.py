"""Patches of images as columns, and locally connected layers, which have a kernel for each place."""

from __future__ import annotations

import math

import numpy as np

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.caffe2.lowering.windows import Window, channels_back, channels_first, cropped, is_nhwc, window
from netgrad.onnx.builder import Builder, Value

# ---- columns -----------------------------------------------------------------------------------------


def _patches(c: Context, b: Builder, x: Value, at: Window) -> Value:
    """What a window sees at each place: (N, C, elements of the kernel, places along each dim).

    A convolution of every channel with kernels that have a single 1.
    """
    batch, channels, *spatial = c.static_shape(x)
    count = math.prod(at.kernel)
    ones = np.eye(count).reshape(count, 1, *at.kernel)
    planes = b.reshape(x, [batch * channels, 1, *spatial])
    assert x.dtype is not None, "the element type of a blob is known"
    seen = b.op(
        "Conv",
        planes,
        b.constant(ones, x.dtype),
        kernel_shape=at.kernel,
        strides=at.strides,
        dilations=at.dilations,
        pads=at.pads,
    )
    return b.reshape(seen, [batch, channels, count, *_places(at, spatial)])


def _places(at: Window, spatial: list[int]) -> list[int]:
    """How often the window fits along each dim."""
    dims = len(spatial)
    return [
        (size + at.pads[k] + at.pads[k + dims] - at.dilations[k] * (at.kernel[k] - 1) - 1) // at.strides[k]
        + 1
        for k, size in enumerate(spatial)
    ]


def _columns(c: Context, b: Builder, x: Value) -> Value:
    """NCHW: (N, C kernel, H', W'); NHWC: (N, H', W', kernel C)."""
    nhwc = is_nhwc(c)
    image = channels_first(b, x, nhwc)
    image, at = cropped(b, image, window(c, image))
    if at.ceil:
        raise c.refused("Caffe's old pooling pads are for pools")
    patches = _patches(c, b, image, at)
    batch, channels, count, *places = c.static_shape(patches)
    if not nhwc:
        return b.reshape(patches, [batch, channels * count, *places])
    last = b.transpose(patches, [0, *range(3, 3 + len(places)), 2, 1])
    return b.reshape(last, [batch, *places, count * channels])


@lowers("Im2Col")
def _im2col(c: Context, x: Value) -> Value:
    c.static_shape(x)
    return _columns(c, c.b, x)


@lowers("Col2Im")
def _col2im(c: Context, columns: Value, like: Value) -> list[Value]:
    """Columns added up where they come from, in an image of the shape of the second input."""
    c.static_shape(like)
    return gradients(c.b, lambda b, given: [_columns(c, b, given[0])], [like], [columns])


# ---- locally connected layers ------------------------------------------------------------------------


def _local(c: Context, b: Builder, x: Value, w: Value, bias: Value | None) -> Value:
    """A convolution whose kernel at place p is ``w[p]``, of shape (M, C / group, kernel).

    With order NHWC the kernels are (M, kernel, C / group). The bias has an element for each place and each of
    the M channels.
    """
    nhwc = is_nhwc(c)
    image = channels_first(b, x, nhwc)
    image, at = cropped(b, image, window(c, image))
    patches = _patches(c, b, image, at)
    batch, channels, count, *places = c.static_shape(patches)
    dims, total, groups = len(places), math.prod(places), c.argument("group", 1)
    outputs, each = c.static_shape(w)[dims], channels // groups
    if c.static_shape(w)[:dims] != tuple(places) or channels % groups or outputs % groups:
        raise c.refused(
            f"kernels of shape {c.static_shape(w)} do not fit {places} places of {channels} channels in "
            f"{groups} groups"
        )
    if nhwc:  # channels in front of the kernel
        w = b.transpose(w, [*range(dims + 1), 2 * dims + 1, *range(dims + 1, 2 * dims + 1)])
    kernels = b.reshape(w, [total, groups, outputs // groups, each * count])
    seen = b.reshape(patches, [batch, groups, each * count, total])
    product = b.transpose(seen, [3, 1, 0, 2]) @ b.transpose(kernels, [0, 1, 3, 2])
    result = b.reshape(b.transpose(product, [2, 1, 3, 0]), [batch, outputs, *places])
    if bias is not None:
        added = b.transpose(b.reshape(bias, [*places, outputs]), [dims, *range(dims)])
        result = result + b.unsqueeze(added, [0])
    return channels_back(b, result, nhwc)


@lowers("LC", "LC1D", "LC2D", "LC3D")
def _locally_connected(c: Context, x: Value, w: Value, bias: Value | None = None) -> Value:
    c.static_shape(x)
    return _local(c, c.b, x, w, bias)


@lowers("LCGradient", "LC1DGradient", "LC2DGradient", "LC3DGradient")
def _locally_connected_gradient(c: Context, x: Value, w: Value, dy: Value) -> list[Value]:
    """Gradients of the kernels, of the bias unless ``no_bias``, and of the image unless it is left out."""
    c.static_shape(x)

    def write(b: Builder, given: list[Value]) -> list[Value]:
        return [_local(c, b, given[1], given[0], None)]

    if c.argument("no_gradient_to_input", False):
        found = gradients(c.b, write, [w], [dy], [x])
    else:
        found = gradients(c.b, write, [w, x], [dy])
    if not c.argument("no_bias", False):
        summed = c.b.reduce_sum(channels_first(c.b, dy, is_nhwc(c)), [0])
        found.insert(1, c.b.transpose(summed, [*range(1, c.rank(dy) - 1), 0]))
    return found
