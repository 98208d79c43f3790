"""Gradient rules of maximum pools and of the global pools.

X has the shape (N, C, D..); a window's place is the position of its maximum in all of X, which MaxPool's
second output gives.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.precision import widened
from netgrad.onnx.rules.unranked import axes_from, sizes
from netgrad.onnx.rules.windows import windows_of

_ATTRIBUTES = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "storage_order", "strides")


@rule("MaxPool", attributes=_ATTRIBUTES, needs_outputs=2)
def max_pool(op: RuleContext, dy: Value, *_: Value | None) -> Value:
    """Y[n, c, o] = max of X over window o; dX = dY added at the places of the maxima.

    Windows that tile X exactly have distinct places, and MaxUnpool puts dY there; it writes float32 only.
    Forward and backward in milliseconds of one thread, ONNX Runtime 1.32 (``benchmarks/convolution.py``):

        windows             MaxUnpool   ScatterElements   ScatterND
        2x2, 64 x 20, 24        6.2              7.8         7.4
        2x2,  1 x 64, 224      24.3             31.3        32.6
        3x3 by 2, 8 x 64, 55      -             20.1           -

    ScatterND has a kernel that adds on several threads without a lock: it must not add here.

    Kink: of equal maxima in a window the first in row-major order gets all of dY; so the gradient is that
    of one of the two branches, and its total is right.
    """
    build, x, places = op.builder, op.input, op.optional_output(1)
    assert places is not None, "the declaration asks for the places"
    if _tile_exactly(op, x) and dy.dtype is ir.DataType.FLOAT:
        kernel = op.attribute("kernel_shape")
        dx = build.op("MaxUnpool", dy, places, kernel_shape=kernel, strides=op.attribute("strides"))
        return build.assume_like(dx, x)

    updates = widened(build, dy)
    static = x.static_shape
    size = build.reshape(build.op("Size", x), [1]) if static is None else build.ints([math.prod(static)])
    zeros = build.fill(size, 0.0, op.floating(updates))
    flat = build.op(
        "ScatterElements", zeros, build.reshape(places, [-1]), build.reshape(updates, [-1]), reduction="add"
    )
    if not op.attribute("storage_order"):
        return build.reshape_like(flat, x)
    # The places count the first spatial axis fastest, as if the spatial axes stood in reverse order.
    order = [0, 1, *range(len(op.attribute("kernel_shape")) + 1, 1, -1)]
    reverse = (
        build.ints([static[axis] for axis in order])
        if static is not None
        else build.op("Gather", build.op("Shape", x), build.ints(order))
    )
    return build.assume_like(build.transpose(build.op("Reshape", flat, reverse), order), x)


def _tile_exactly(op: RuleContext, x: Value) -> bool:
    """Whether the windows neither overlap nor leave out nor exceed any element of ``x``."""
    kernel = op.attribute("kernel_shape")
    if op.attribute("storage_order") or op.attribute("strides") != kernel or x.shape is None:
        return False
    windows, _ = windows_of(op, x, kernel)
    sizes = [size for size in x.shape[2:] if isinstance(size, int)]
    plain = set(windows.dilations) == {1} and not any(windows.head) and not any(windows.tail)
    return plain and len(sizes) == len(kernel) and all(n % k == 0 for n, k in zip(sizes, kernel, strict=True))


@rule("MaxUnpool", attributes=("kernel_shape", "pads", "strides"), not_differentiable=(1, 2))
def max_unpool(op: RuleContext, dy: Value) -> list[Value | None]:
    """Y = zeros with X[i] at place I[i]; dX[i] = dY at place I[i].

    Places are distinct in what MaxPool gives. With ``output_shape``, the standard counts places in the
    smaller tensor that the windows give, and ONNX Runtime in Y itself; so the operator is asked where it puts
    each element, by unpooling their numbers.
    """
    flat = op.builder.reshape(dy, [-1])
    if op.optional(2) is None:
        dx = op.builder.assume_like(op.emit("Gather", flat, op.required(1)), op.input)
    else:
        dx = _collected(op, flat)
    return [dx, *[None] * (len(op.inputs) - 1)]


_EXACT = 1 << 24
"""Integers below are exact in float32, the type that runtimes unpool."""


def _collected(op: RuleContext, dy: Value) -> Value:
    """For each element of X the element of the flat ``dy`` where the operator puts it; 0 where nowhere."""
    b, x = op.builder, op.input
    static = x.static_shape
    count = b.ints([math.prod(static)]) if static is not None else b.reshape(b.op("Size", x), [1])
    numbers = b.op("Range", b.constant(1), b.reshape(count, []) + b.constant(1), b.constant(1))

    def placed(part: Value) -> Value:
        """Where in Y the numbers ``part``, one per element of X, end up; 0 where none does."""
        given = {name: op.attribute(name) for name in ("kernel_shape", "pads", "strides")}
        narrow = b.reshape_like(b.cast(part, ir.DataType.FLOAT), x)
        spread = b.op("MaxUnpool", narrow, op.required(1), op.optional(2), **given)
        return b.cast(b.reshape(spread, [-1]), ir.DataType.INT64)

    if static is not None and math.prod(static) < _EXACT:
        owners = placed(numbers)
    else:
        high = numbers / _EXACT
        owners = placed(high) * _EXACT + placed(numbers - high * _EXACT)
    wide = widened(b, dy)
    slots = b.fill(count + b.ints([1]), 0.0, op.floating(wide))
    sums = b.op("ScatterElements", slots, owners, wide, reduction="add")  # slot 0: where no element is
    rest = b.slice(sums, 0, 1, np.iinfo(np.int64).max)
    return b.cast(b.reshape_like(rest, x), op.floating(dy))


# ---- global pools ------------------------------------------------------------------------------------


@rule("GlobalAveragePool")
def global_average_pool(op: RuleContext, dy: Value) -> Value:
    """Y[n, c] = mean of X over the spatial axes; dX = dY / their size, repeated."""
    build, x = op.builder, op.input
    wide = widened(build, dy)
    count = _spatial_size(op)
    share = (
        wide * (1.0 / count if count else 0.0)
        if isinstance(count, int)
        else wide / build.cast(count, op.floating(wide))
    )
    return build.expand_like(build.cast(share, op.floating(dy)), x)


@rule("GlobalMaxPool")
def global_max_pool(op: RuleContext, dy: Value) -> Value:
    """Y[n, c] = max of X over the spatial axes; dX = dY where X = Y.

    Kink: elements that tie for the maximum share its gradient equally, as in ReduceMax.
    """
    build, wide = op.builder, widened(op.builder, dy)
    (x,), y = op.comparable()
    assert x is not None, "a pool has an input"
    attained = build.cast(x.equals(y), op.floating(wide))
    rank = op.input.rank
    axes = axes_from(build, x, 2) if rank is None else list(range(2, rank))
    return build.assume_like(attained * (wide / build.reduce_sum(attained, axes, keepdims=True)), op.input)


def _spatial_size(op: RuleContext) -> int | Value:
    """How many elements each channel has: a number, or a run-time 0-d int64 tensor."""
    x = op.input
    if x.rank is None:
        return op.emit("ReduceProd", sizes(op.builder, x, 2), keepdims=0)
    dims = [x.dim(axis) for axis in range(2, x.rank)]
    known = [size for size in dims if isinstance(size, int)]
    if len(known) == len(dims):
        return math.prod(known)
    return op.builder.size_along(x, range(2, x.rank))
