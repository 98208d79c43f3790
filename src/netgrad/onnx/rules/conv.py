"""Gradient rules of Conv and ConvTranspose: each other's transpose.

With X of shape (N, C, D..), W of shape (M, C / group, k..) and Y of shape (N, M, O..),

    Y[n, m, o] = B[m] + sum over c, k of W[m, c, k] X[n, c, o stride + k dilation - head].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.conv_weight import weight_gradient
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.windows import (
    RunTimePads,
    Windows,
    auto_pad,
    halved,
    run_time_extents,
    windows_of,
)
from netgrad.onnx.view import Dim

# Below so many input channels, or so many output positions in a batch, flipping the weight does not pay.
_FEW_CHANNELS = 16
_MANY_POSITIONS = 256
_USUAL_BATCH = 8  # taken for a batch that is not known

_ATTRIBUTES = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


@rule("Conv", attributes=_ATTRIBUTES)
def conv(op: RuleContext, dy: Value) -> list[Value | None]:
    """Y = X * W + B; dX = the transposed convolution of dY by W, dW = X correlated with dY, dB = sum of dY.

    Elements at the end of X that no window reaches have the gradient 0.
    """
    build, x, w = op.builder, op.required(0), op.required(1)
    windows, amounts = windows_of(op, x, _kernel(op, w), w)
    group = int(op.attribute("group"))
    padded = x if amounts is None else amounts.pad(build, x)
    contributions: list[Value | None] = [None] * len(op.inputs)
    if op.wants(0):
        dx = data_gradient(build, dy, w, padded, windows, group)
        contributions[0] = dx if amounts is None else amounts.crop(build, dx, x)
    if op.wants(1):
        contributions[1] = weight_gradient(build, padded, dy, w, windows, group)
    if op.optional(2) is not None and op.wants(2):
        contributions[2] = build.reduce_sum(dy, [0, *windows.axes])
    return contributions


def data_gradient(build: Builder, dy: Value, w: Value, x: Value, windows: Windows, group: int) -> Value:
    """The gradient of a convolution's input ``x``, in the form that suits its shapes.

    Milliseconds of one thread, as in `netgrad.onnx.rules.conv_weight`; on two threads flipping gains up to
    1.5 times where it gains at all:

        kernel                              transposed   flipped
        3x3    8 x  64 -> 64,  56                 37.7      33.8
        3x3    8 x 128 -> 128, 28                 39.7      33.6
        3x3    8 x 512 -> 512,  7                 83.3      46.7
        3x3   32 x  32 -> 32,  16                  4.2       4.8
        3x3    1 x 256 -> 256, 14                  7.9      10.4
        3x3   32 x   3 -> 16,  32                  1.4       4.1
        5x5   64 x  20 -> 50,  12, unpadded        4.1      16.1
        1x1   16 x 256 -> 64,  14                  2.8       2.1
        1x1    8 x 512 -> 512,  7                  6.1       4.1

    Flipping pays where the weight is small beside the maps and the output is not smaller than the input; for
    a batch of one it gains too little for the two operators that it costs.
    """
    if _flipping_pays(dy, w, windows, group):
        return flipped(build, dy, w, x, windows)
    return transposed(build, dy, w, x, windows, group)


def _flipping_pays(dy: Value, w: Value, windows: Windows, group: int) -> bool:
    sizes = w.static_shape
    positions = [size for size in (dy.shape or ())[2:] if isinstance(size, int)]
    if group > 1 or set(windows.strides) != {1} or sizes is None or len(positions) < windows.rank:
        return False
    reach = [(size - 1) * d for size, d in zip(sizes[2:], windows.dilations, strict=True)]
    padding = zip(windows.head, windows.tail, reach, strict=True)
    if any(max(head, tail) > r or head + tail < r for head, tail, r in padding):
        return False
    batch = dy.dim(0)
    count = math.prod(positions) * (batch if isinstance(batch, int) else _USUAL_BATCH)
    many = count >= (_MANY_POSITIONS if any(reach) else 1)
    return batch != 1 and sizes[1] >= _FEW_CHANNELS and many


def transposed(build: Builder, dy: Value, w: Value, x: Value, windows: Windows, group: int) -> Value:
    """A ConvTranspose that gives exactly the shape of X.

    Where windows do not reach the end of X and it is not known before the model runs by how much, the
    output is made as large as it can be and then cut.
    """
    tail, more = list(windows.tail), [0] * windows.rank
    cut = False
    for axis in range(windows.rank):
        uncovered = windows.uncovered(axis, x.dim(2 + axis))
        if uncovered is None:
            uncovered, cut = windows.strides[axis] - 1, True
        used = min(uncovered, tail[axis])
        tail[axis] -= used
        more[axis] = uncovered - used
    dx = build.op(
        "ConvTranspose",
        dy,
        w,
        group=_unless(group, 1),
        strides=_unless(list(windows.strides), [1] * windows.rank),
        dilations=_unless(list(windows.dilations), [1] * windows.rank),
        pads=_unless([*windows.head, *tail], [0] * (2 * windows.rank)),
        output_padding=more if any(more) else None,
    )
    if cut:
        ends = build.op("Shape", x, start=2)
        dx = build.op("Slice", dx, build.ints([0] * windows.rank), ends, build.ints(windows.axes))
    return build.assume_like(dx, x)


def flipped(build: Builder, dy: Value, w: Value, x: Value, windows: Windows) -> Value:
    """A Conv with the kernel's elements in reverse order and its channels exchanged.

    For stride 1, one group, a known kernel, and no more padding than the window reaches.
    """
    extents = [(size - 1) * d for size, d in zip(windows.static_kernel or (), windows.dilations, strict=True)]
    kernel = build.transpose(w, [1, 0, *windows.axes])
    if any(extents):
        count = windows.rank
        ends = build.ints([-(2**31)] * count)
        steps = build.ints([-1] * count)
        kernel = build.op("Slice", kernel, build.ints([-1] * count), ends, build.ints(windows.axes), steps)
    pads = [e - p for e, p in zip(extents * 2, windows.head + windows.tail, strict=True)]
    dx = build.op(
        "Conv", dy, kernel, dilations=_unless(list(windows.dilations), [1] * windows.rank), pads=pads
    )
    return build.assume_like(dx, x)


@rule("ConvTranspose", attributes=(*_ATTRIBUTES, "output_padding", "output_shape"))
def conv_transpose(op: RuleContext, dy: Value) -> list[Value | None]:
    """Y = the transposed convolution of X by W; dX = dY * W, dW = dY correlated with X, dB = sum of dY.

    W has the shape (C, M / group, k..) of the convolution that maps Y to X.
    """
    build, x, w = op.builder, op.required(0), op.required(1)
    windows, amounts = _transposed_windows(op, x, w)
    group = int(op.attribute("group"))
    padded = dy if amounts is None else amounts.pad(build, dy)
    contributions: list[Value | None] = [None] * len(op.inputs)
    if op.wants(0):
        dx = build.op(
            "Conv",
            padded,
            w,
            group=_unless(group, 1),
            strides=_unless(list(windows.strides), [1] * windows.rank),
            dilations=_unless(list(windows.dilations), [1] * windows.rank),
            pads=_unless([*windows.head, *windows.tail], [0] * (2 * windows.rank)),
        )
        if not windows.are_all_that_fit:
            ends = build.op("Shape", x, start=2)
            dx = build.op("Slice", dx, build.ints([0] * windows.rank), ends, build.ints(windows.axes))
        contributions[0] = build.assume_like(dx, x)
    if op.wants(1):
        contributions[1] = weight_gradient(build, padded, x, w, windows, group)
    if op.optional(2) is not None and op.wants(2):
        contributions[2] = build.reduce_sum(dy, [0, *windows.axes])
    return contributions


def _transposed_windows(op: RuleContext, x: Value, w: Value) -> tuple[Windows, RunTimePads | None]:
    """The windows over Y of the convolution that the operator transposes, as `windows_of` gives them.

    Along an axis of X of size H the natural size is (H - 1) stride + output_padding + extent. Padding cuts Y
    down from it: to the given output_shape, or with auto_pad SAME to H stride.
    """
    build, kernel = op.builder, tuple(_kernel(op, w))
    rank = len(kernel)
    zeros = [0] * rank
    strides, dilations = (tuple(op.attribute(name) or [1] * rank) for name in ("strides", "dilations"))
    more = tuple(op.attribute("output_padding") or zeros)
    given, mode = op.attribute("output_shape"), auto_pad(op)
    unpadded = Windows(kernel, strides, dilations, tuple(zeros), tuple(zeros), more)
    if given is None and mode in ("NOTSET", "VALID"):
        pads = (op.attribute("pads") if mode == "NOTSET" else None) or zeros * 2
        if min(pads, default=0) < 0:
            raise op.refuse("its pads are negative", "crop with Slice instead")
        return replace(unpadded, head=tuple(pads[:rank]), tail=tuple(pads[rank:])), None

    upper = mode == "SAME_UPPER"
    wanted = None if given is None else given[-rank:]
    extents = [extent for axis in range(rank) if (extent := unpadded.extent(axis)) is not None]
    sizes = [size for axis in range(rank) if isinstance(size := x.dim(2 + axis), int)]
    if len(extents) == rank and (wanted is None or len(sizes) == rank):
        # Natural size minus H stride, which is known whatever H is.
        totals = [m + extent - s for m, extent, s in zip(more, extents, strides, strict=True)]
        if wanted is None:
            return _distributed(unpadded, totals, upper=upper), None
        totals = [n * s + t - want for n, s, t, want in zip(sizes, strides, totals, wanted, strict=True)]
        surplus = tuple(m + max(-total, 0) for m, total in zip(more, totals, strict=True))
        return _distributed(replace(unpadded, surplus=surplus), totals, upper=upper), None

    known = build.ints([m - s for m, s in zip(more, strides, strict=True)])
    total = run_time_extents(build, unpadded, w) + known
    full = build.assume_shape(build.op("Shape", x, start=2), (rank,)) * build.ints(strides)
    if wanted is None:
        return unpadded, halved(build, total, full, upper=upper)
    total = full + total - build.ints(wanted)
    return replace(unpadded, surplus=(None,) * rank), halved(build, total, build.ints(wanted), upper=upper)


def _distributed(windows: Windows, totals: Sequence[int], *, upper: bool) -> Windows:
    """``windows`` with the total padding of each axis halved; an odd one goes to the end, or to the front."""
    small = tuple(max(total, 0) // 2 for total in totals)
    large = tuple(max(total, 0) - half for total, half in zip(totals, small, strict=True))
    return replace(windows, head=small if upper else large, tail=large if upper else small)


def _kernel(op: RuleContext, w: Value) -> Sequence[Dim]:
    """Kernel size per spatial axis: the weight's, with the attribute for what is unknown of it."""
    given = op.attribute("kernel_shape")
    if w.shape is None:
        if given is None:
            op.rank(w)
        return tuple(given)
    return tuple(w.shape[2:]) if given is None else tuple(given)


def _unless(value: object, default: object) -> object:
    """``value``, or None where it is the default and need not be written."""
    return None if value == default else value
