"""The weight gradient of a convolution, in several forms of standard operators.

    dW[m, c, k] = sum over n and o of dY[n, m, o] X[n, c, o stride + k dilation - head],

per group, with k and o running over the spatial axes. All forms give this sum; they differ in time, memory
and number of nodes, and `weight_gradient` chooses. Measured on ONNX Runtime 1.32, in milliseconds of one
thread of an AMD EPYC with AVX-512, batch x channels -> channels, map (``benchmarks/convolution.py`` measures
them again; on two threads `swapped` loses more, near ties apart the order is the same):

    kernel                      swapped   deep   patches   depthwise
    5x5   64 x   1 -> 20,  28      1.9     2.3      2.5
    5x5   64 x  20 -> 50,  12      5.7     5.1      9.4
    3x3   32 x   3 -> 16,  32      4.4     3.8      2.0
    3x3   32 x  16 -> 16,  32     21.5    17.4     12.3
    3x3   32 x  32 -> 32,  16      8.0     6.8      6.4
    3x3    8 x  64 -> 64,  56     77.0    49.8     51.1
    3x3    8 x 512 -> 512,  7     52.8    27.7     44.9
    3x3    1 x 256 -> 256, 14      9.5     5.4      4.4
    7x7    1 x   3 -> 64, 224      5.8     7.2      8.0
    1x1    1 x 256 -> 64,  56     16.6    10.5      2.3
    1x1   32 x  16 -> 32,  32      9.8     6.5      0.9
    3x3   16 x  32, 28, depthwise         12.4      6.7      13.0
    5x5   16 x  96, 14, depthwise         16.5     23.5      16.0
    3x3    8 x 128, 28, 32 groups         24.3     16.2

So: patches where they cost no memory (kernels of one element), or where the kernel is small and there are
few channels or several groups; otherwise deep. Patches hold kernel size times X in memory, deep nothing.
With a batch of one, deep needs four operators, also in groups, and patches up to six: then groups are deep.
"""

from __future__ import annotations

import math

import numpy as np

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.placing import joined, lengths
from netgrad.onnx.rules.windows import Windows

_FEW_CHANNELS = 16
_SMALL_KERNEL = 9
_LARGEST_PATCHES = 64 << 20  # bytes


def weight_gradient(build: Builder, x: Value, dy: Value, w: Value, windows: Windows, group: int) -> Value:
    """The gradient of a convolution's weight ``w``, in the form that suits its shapes.

    Args:
        build: Writes the operators.
        x: The convolution's input (N, C, D..).
        dy: Cotangent of its output, (N, M, O..).
        w: Its weight, (M, C / group, k..).
        windows: How the kernel lies over ``x``.
        group: Number of groups.
    """
    if _patches_pay(x, dy, w, windows, group):
        return patches(build, x, dy, w, windows, group)
    if group > 1 and w.dim(1) == 1:
        return depthwise(build, x, dy, w, windows, group)
    if group == 1 and windows.rank > 2:
        return swapped(build, x, dy, w, windows)  # ONNX Runtime is fast for up to three spatial axes only
    return deep(build, x, dy, w, windows, group)


def _patches_pay(x: Value, dy: Value, w: Value, windows: Windows, group: int) -> bool:
    sizes, positions = w.static_shape, _positions(dy)
    if sizes is None or windows.static_kernel is None or not windows.are_all_that_fit:
        return False
    if windows.read_single_elements and (group == 1 or positions is not None):
        return True
    elements, channels = math.prod(windows.static_kernel), sizes[1] * group
    batch = dy.dim(0)
    few = channels <= _FEW_CHANNELS if group == 1 else batch != 1
    if positions is None or elements > _SMALL_KERNEL or not few:
        return False
    size = channels * elements * positions * (batch if isinstance(batch, int) else 1)
    return size * (1 if x.dtype is None else x.dtype.itemsize) <= _LARGEST_PATCHES


def _positions(x: Value) -> int | None:
    """Number of spatial positions of ``x``, None where unknown."""
    dims = (x.shape or (None, None, None))[2:]
    known = [dim for dim in dims if isinstance(dim, int)]
    return math.prod(known) if len(known) == len(dims) else None


# ---- the forms ---------------------------------------------------------------------------------------


def patches(build: Builder, x: Value, dy: Value, w: Value, windows: Windows, group: int) -> Value:
    """A product of dY and all windows of X, which a convolution with one-hot kernels lays out side by side.

    An infinity or NaN in X makes all elements of its windows NaN, as each is multiplied by zeros too: dW is
    then infinite or NaN in the same channel as it is by the formula, but the two need not be at the same
    elements. Needs a static weight shape.
    """
    sizes = w.static_shape
    assert sizes is not None, "patches are chosen for static weights"
    outputs, width = sizes[0], math.prod(sizes[1:])
    columns = _patches_of(build, x, windows, sizes[1] * group)
    positions, one = _positions(dy), x.dim(0) == 1
    if group == 1 and (one or positions is None or outputs * width > (outputs + width) * positions):
        # One product over batch and positions, where the products of all batch entries would be large.
        rows, columns = _flat(build, dy, windows, one), _flat(build, columns, windows, one)
        return _shaped(build, build.op("Gemm", rows, columns, transB=1), w, sizes)
    assert positions is not None, "patches in groups are chosen for static maps"
    lead = [*([] if one else [-1]), *([group] if group > 1 else [])]
    rows = build.reshape(dy, [*lead, outputs // group, positions])
    columns = build.reshape(columns, [*lead, width, positions])
    last = len(lead) + 1
    product = rows @ build.transpose(columns, [*range(last - 1), last, last - 1])
    return _shaped(build, product if one else build.reduce_sum(product, [0]), w, sizes)


def _flat(build: Builder, x: Value, windows: Windows, one: bool) -> Value:
    """``x`` of shape (N, C, O..) as (C, N O..)."""
    if one:
        return build.op("Flatten", x, axis=2)
    return build.op("Flatten", build.transpose(x, [1, 0, *windows.axes]), axis=1)


def _shaped(build: Builder, product: Value, w: Value, sizes: tuple[int, ...]) -> Value:
    return build.assume_like(build.reshape(product, sizes), w)


def _patches_of(build: Builder, x: Value, windows: Windows, channels: int) -> Value:
    """X laid out as (N, C k, O..): for every output position the elements of its window."""
    if windows.read_single_elements:
        if set(windows.strides) == {1}:
            return x
        begin, end = build.ints([0] * windows.rank), build.ints([2**31 - 1] * windows.rank)
        return build.op("Slice", x, begin, end, build.ints(windows.axes), build.ints(windows.strides))
    kernel = windows.static_kernel
    assert kernel is not None, "patches are chosen for static kernels"
    elements = math.prod(kernel)
    one_hot = np.eye(elements).reshape(elements, 1, *kernel)
    return build.op(
        "Conv",
        x,
        build.constant(np.tile(one_hot, (channels, *[1] * (1 + windows.rank))), x.dtype),
        group=None if channels == 1 else channels,
        strides=list(windows.strides),
        dilations=list(windows.dilations),
        pads=[*windows.head, *windows.tail],
    )


def swapped(build: Builder, x: Value, dy: Value, w: Value, windows: Windows) -> Value:
    """A convolution over X with dY as kernel: batch and channels, strides and dilations change places."""
    order = [1, 0, *windows.axes]
    product = _correlate(build, x, build.transpose(x, order), build.transpose(dy, order), w, windows)
    return build.assume_like(build.transpose(product, order), w)


def deep(build: Builder, x: Value, dy: Value, w: Value, windows: Windows, group: int) -> Value:
    """`swapped` with the channels as one more spatial axis, along which the kernel has size 1.

    The batch is the channel axis of this convolution, so that it sums over the batch; one product of width
    C k takes the place of C products of width k.
    """
    rank = windows.rank
    static, outputs = x.static_shape, dy.static_shape
    if outputs is not None and outputs[0] == 1:
        kernel = build.reshape(dy, [outputs[1], 1, 1, *outputs[2:]])
    else:
        kernel = build.unsqueeze(build.transpose(dy, [1, 0, *windows.axes]), [2])
    if group == 1:
        image = build.unsqueeze(x, [0])
    elif static is not None:
        batch, channels, *sizes = static
        image = x
        if batch != 1:
            image = build.reshape(image, [batch, group, channels // group, *sizes])
            image = build.transpose(image, [1, 0, *range(2, 3 + rank)])
        image = build.reshape(image, [1, group * batch, channels // group, *sizes])
    else:
        image = build.unsqueeze(x, [1])
        width = w.dim(1)
        if isinstance(width, int):
            image = build.reshape(image, [0, group, width, *[0] * rank])
        else:
            # All dims are written out, as none can be left open where the batch may be empty; with zeros for
            # dims that stay, ONNX Runtime would leave the width open again.
            target = [
                lengths(build, x, 0, 1),
                build.ints([group]),
                lengths(build, w, 1, 2),
                lengths(build, x, 2, 2 + rank),
            ]
            image = build.op("Reshape", image, joined(build, target), allowzero=1)
        image = build.transpose(image, [1, 0, *range(2, 3 + rank)])
        image = build.reshape(image, [1, -1, *[0] * (1 + rank)])
    product = _correlate(build, x, image, kernel, w, windows, group)
    return build.assume_like(build.squeeze(product, [0]), w)


def depthwise(build: Builder, x: Value, dy: Value, w: Value, windows: Windows, group: int) -> Value:
    """One input channel per group: a convolution with the same groups, the batch as their channels."""
    order = [1, 0, *windows.axes]
    image = build.reshape(build.transpose(x, order), [1, -1, *[0] * windows.rank])
    product = _correlate(build, x, image, build.transpose(dy, order), w, windows, group)
    return build.assume_like(build.transpose(product, order), w)


def _correlate(
    build: Builder, x: Value, image: Value, kernel: Value, w: Value, windows: Windows, group: int = 1
) -> Value:
    """The convolution of X, arranged as ``image``, at whose output positions the elements of W lie.

    Its kernel is dY. Elements at the end of X that no window reached would make its output too large: they
    are left out of the padding or, where there is not enough of it, cut off the output.
    """
    extra = (image.rank or 0) - 2 - windows.rank
    tail = list(windows.tail)
    surplus = False
    for axis in range(windows.rank):
        uncovered = windows.uncovered(axis, x.dim(2 + axis))
        if uncovered is None:
            surplus |= windows.strides[axis] > windows.dilations[axis]
            continue
        used = min(uncovered, tail[axis])
        tail[axis] -= used
        surplus |= uncovered - used >= windows.dilations[axis]
    product = build.op(
        "Conv",
        image,
        kernel,
        group=None if group == 1 else group,
        strides=[*[1] * extra, *windows.dilations],
        dilations=[*[1] * extra, *windows.strides],
        pads=[*[0] * extra, *windows.head, *[0] * extra, *tail],
    )
    if not surplus:
        return product
    axes = range(2 + extra, 2 + extra + windows.rank)
    sizes = windows.static_kernel
    ends = build.ints(sizes) if sizes is not None else build.op("Shape", w, start=2)
    return build.op("Slice", product, build.ints([0] * windows.rank), ends, build.ints(axes))
