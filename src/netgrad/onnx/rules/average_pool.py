"""The gradient rule of AveragePool.

A mean over windows is linear: dX is its transpose applied to dY. The transpose is an AveragePool again for
stride 1, a magnification where the windows tile X, and a ConvTranspose with a constant kernel otherwise. In
milliseconds of one thread, ONNX Runtime 1.32 (``benchmarks/convolution.py`` measures them again):

    windows                    Resize   AveragePool   ConvTranspose, grouped   channel by channel
    2x2, 64 x 20, 24              0.3             -                      1.0                  1.4
    2x2,  8 x 128, 56             2.2             -                      3.4                  5.0
    3x3 by 1, 8 x 192, 28           -           3.5                      6.8                  8.2
    3x3 by 2, 8 x 64, 55            -             -                      4.9                  5.3
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.windows import RunTimePads, Windows, auto_pad, windows_of

_ATTRIBUTES = ("auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides")


@rule("AveragePool", attributes=_ATTRIBUTES)
def average_pool(op: RuleContext, dy: Value) -> Value:
    """Y[n, c, o] = sum of X over window o / its size; dX = sum over windows of dY / size.

    The size counts the elements of X and, with ``count_include_pad``, of the padding, but never what lies
    beyond both where ``ceil_mode`` adds a window.
    """
    windows, amounts = windows_of(op, op.input, op.attribute("kernel_shape"))
    return spread(op, _weighted(op, dy, windows, amounts), windows, amounts)


def spread(op: RuleContext, dy: Value, windows: Windows, amounts: RunTimePads | None) -> Value:
    """The transpose of the mean over windows of X, where each window has the full size of the kernel.

    Args:
        op: A pool over its first input X.
        dy: What is spread over the windows, of the shape of Y.
        windows: The windows of `windows_of`.
        amounts: Its pads.
    """
    build, x = op.builder, op.input
    kernel = windows.static_kernel
    assert kernel is not None, "kernel_shape is required"
    padded = x if amounts is None else amounts.pad(build, x)
    sizes = _static_sizes(x, windows, amounts)
    if set(windows.strides) == set(windows.dilations) == {1} and not _exceed(windows):
        pads = [k - 1 - p for k, p in zip(kernel * 2, windows.head + windows.tail, strict=True)]
        dx = build.op("AveragePool", dy, kernel_shape=list(kernel), pads=pads, count_include_pad=1)
    elif sizes is not None and _tile_exactly(windows, sizes):
        dx = build.op(
            "Resize",
            dy * (1.0 / math.prod(kernel)),
            None,
            build.constant(np.array([1, 1, *kernel], np.float32)),
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
    else:
        dx = _transposed(op, dy, padded, windows)
    build.assume_like(dx, padded)
    return dx if amounts is None else amounts.crop(build, dx, x)


def _static_sizes(x: Value, windows: Windows, amounts: RunTimePads | None) -> list[int] | None:
    sizes = [size for axis in range(windows.rank) if isinstance(size := x.dim(2 + axis), int)]
    return sizes if len(sizes) == windows.rank and amounts is None else None


def _exceed(windows: Windows) -> bool:
    """Whether there is more padding than a window reaches."""
    kernel = windows.static_kernel or ()
    return any(max(h, t) >= k for h, t, k in zip(windows.head, windows.tail, kernel, strict=True))


def _tile_exactly(windows: Windows, sizes: Sequence[int]) -> bool:
    plain = set(windows.dilations) == {1} and not any(windows.head) and not any(windows.tail)
    kernel = windows.static_kernel or ()
    return plain and kernel == windows.strides and all(n % k == 0 for n, k in zip(sizes, kernel, strict=True))


# ---- sizes of windows --------------------------------------------------------------------------------


def _weighted(op: RuleContext, dy: Value, windows: Windows, amounts: RunTimePads | None) -> Value:
    """The cotangent times kernel size / window size: what is left is a plain mean over the kernel."""
    build, include = op.builder, bool(op.attribute("count_include_pad"))
    kernel = windows.static_kernel
    assert kernel is not None, "kernel_shape is required"
    padded = any(windows.head) or any(windows.tail) or amounts is not None
    ceil = _ceil(op, windows)
    if not ceil and (include or not padded):
        return dy
    sizes = _static_sizes(op.input, windows, amounts)
    if sizes is not None:
        counts = np.ones((1, 1, *[1] * windows.rank))
        for axis in range(windows.rank):
            along = _counts(windows, axis, sizes[axis], include=include, ceil=ceil)
            shape = [1] * (2 + windows.rank)
            shape[2 + axis] = -1
            counts = counts * (along / kernel[axis]).reshape(shape)
        return dy if np.all(counts == 1) else dy * build.constant(1 / counts, dy.dtype)
    return dy * _run_time_weights(op, dy, windows, amounts, include=include, ceil=ceil)


def _ceil(op: RuleContext, windows: Windows) -> bool:
    """Whether the number of windows is rounded up."""
    rounds = bool(op.attribute("ceil_mode")) and not auto_pad(op).startswith("SAME")
    return rounds and set(windows.strides) != {1}


def _window_count(windows: Windows, axis: int, size: int, *, ceil: bool) -> int:
    """Number of windows along an axis of ``size``; none begins in the padding at the end."""
    stride, head, extent = windows.strides[axis], windows.head[axis], windows.extent(axis)
    assert extent is not None, "kernel_shape is required"
    room = size + head + windows.tail[axis] - extent
    if not ceil:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - 1 if (count - 1) * stride >= size + head else count


def _counts(windows: Windows, axis: int, size: int, *, include: bool, ceil: bool) -> np.ndarray:
    """How many elements of each window along an axis count."""
    stride, dilation, head, tail = (
        values[axis] for values in (windows.strides, windows.dilations, windows.head, windows.tail)
    )
    extent = windows.extent(axis)
    assert extent is not None, "kernel_shape is required"
    count = _window_count(windows, axis, size, ceil=ceil)
    low, high = (-head, size + tail) if include else (0, size)
    first = np.arange(count)[:, None] * stride - head
    places = first + np.arange(0, extent, dilation)
    return np.asarray(((low <= places) & (places < high)).sum(axis=1))


def _run_time_weights(
    op: RuleContext,
    dy: Value,
    windows: Windows,
    amounts: RunTimePads | None,
    *,
    include: bool,
    ceil: bool,
) -> Value:
    """Kernel size / window size of shape (1, 1, O..): the windows' sums over a map of ones."""
    build, kernel = op.builder, windows.static_kernel
    assert kernel is not None, "kernel_shape is required"
    sizes = build.op("Shape", op.input, start=2)
    head, tail = list(windows.head), list(windows.tail)
    if include:
        sizes = sizes + build.ints([h + t for h, t in zip(head, tail, strict=True)])
        head, tail = [0] * windows.rank, [0] * windows.rank
    ones = build.op("Expand", build.scalar(1.0, dy), build.concat([build.ints([1, 1]), sizes], 0))
    if amounts is not None:
        ones = amounts.pad(build, ones)
    counts = build.op(
        "Conv",
        ones,
        build.constant(np.full((1, 1, *kernel), 1 / math.prod(kernel)), dy.dtype),
        strides=list(windows.strides),
        dilations=list(windows.dilations),
        pads=[*head, *(t + ceil * (s - 1) for t, s in zip(tail, windows.strides, strict=True))],
    )
    if ceil:
        ends = build.op("Shape", dy, start=2)
        counts = build.op("Slice", counts, build.ints([0] * windows.rank), ends, build.ints(windows.axes))
    return build.op("Reciprocal", counts)


# ---- the transpose -----------------------------------------------------------------------------------


def _transposed(op: RuleContext, dy: Value, x: Value, windows: Windows) -> Value:
    """The transposed convolution of ``dy`` by a mean over the kernel, of the shape of ``x``."""
    build, kernel = op.builder, windows.static_kernel
    assert kernel is not None, "kernel_shape is required"
    tail, more, cut = [0] * windows.rank, [0] * windows.rank, False
    for axis in range(windows.rank):
        size, extent = x.dim(2 + axis), windows.extent(axis)
        stride = windows.strides[axis]
        assert extent is not None, "kernel_shape is required"
        if isinstance(size, int):
            count = _window_count(windows, axis, size, ceil=_ceil(op, windows))
            excess = (count - 1) * stride + extent - windows.head[axis] - size
            tail[axis], more[axis] = max(excess, 0), max(-excess, 0)
        elif stride == 1:
            tail[axis] = windows.tail[axis]
        else:
            more[axis], cut = stride - 1, True
    channels = x.dim(1)
    grouped = isinstance(channels, int)
    if not grouped:
        dy = build.reshape(dy, [-1, 1, *[0] * windows.rank])
    dx = build.op(
        "ConvTranspose",
        dy,
        build.constant(
            np.full((channels if isinstance(channels, int) else 1, 1, *kernel), 1 / math.prod(kernel)),
            dy.dtype,
        ),
        group=channels if grouped and channels != 1 else None,
        strides=list(windows.strides),
        dilations=list(windows.dilations),
        pads=[*windows.head, *tail],
        output_padding=more if any(more) else None,
    )
    if cut:
        ends = build.op("Shape", x, start=2)
        dx = build.op("Slice", dx, build.ints([0] * windows.rank), ends, build.ints(windows.axes))
    return dx if grouped else build.reshape_like(dx, x)
