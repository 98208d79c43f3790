"""Convolutions in float64: products of matrices, of the kernels and of the elements of all windows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netgrad.runtime.double_writer import END, Writer, padded_input, static_shape, taps_of


def _each_window(writer: Writer, x: ir.Value, kernel: Sequence[int], sizes: Sequence[int]) -> ir.Value | None:
    """All windows, ``sizes`` in number along the axes, side by side: shape (N, C, kernel.., windows..).

    A first axis along which the kernel has one element and meets every element of X is not taken apart.
    """
    form = padded_input(writer, x, len(kernel))
    if form is None:
        return None
    padded, strides, dilations = form
    rank, whole = len(kernel), _first_axis_is_whole(writer, x, kernel, sizes)
    if whole:
        dilations[0] = 1  # it would be a step between the elements of X, not of the kernel
    axes, steps = writer.ints(*range(2, 2 + rank)), writer.ints(*dilations)
    found = []
    for position in itertools.product(*map(range, [1, *sizes[1:]] if whole else sizes)):
        starts = [o * s for o, s in zip(position, strides, strict=True)]
        ends = [start + (n - 1) * d + 1 for start, n, d in zip(starts, kernel, dilations, strict=True)]
        if whole:
            ends[0] = END
        window = writer.op("Slice", padded, writer.ints(*starts), writer.ints(*ends), axes, steps)
        found.append(writer.op("Unsqueeze", window, writer.ints(2 + rank)))
    stacked = writer.op("Concat", *found, axis=2 + rank)
    if whole:
        stacked = writer.op("Transpose", stacked, perm=[0, 1, *range(3, 2 + rank), 2, 2 + rank])
    return stacked


def _first_axis_is_whole(writer: Writer, x: ir.Value, kernel: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether the kernel has one element along the first spatial axis and meets every element of X there."""
    shape, rank = static_shape(x), len(kernel)
    stride = writer.attribute("strides", [1] * rank)[0]
    return shape is not None and rank > 1 and kernel[0] == stride == 1 and sizes[0] == shape[2]


def conv(writer: Writer, node: ir.Node) -> ir.Value | None:
    """Y = W X over windows: per group, a matrix of kernels times the matrix of window elements."""
    x, w = node.inputs[0], node.inputs[1]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    assert x is not None, "Conv requires its input"
    assert w is not None, "Conv requires its kernel"
    if w.shape is None or not w.shape.is_static():
        return _conv_by_places(writer, x, w, bias)
    outputs, inputs, *kernel = w.shape.numpy()
    groups = int(writer.attribute("group", 1))
    elements = inputs * int(np.prod(kernel))
    sizes = static_shape(node.outputs[0])
    apart = None if sizes is None else sizes[3 if _first_axis_is_whole(writer, x, kernel, sizes[2:]) else 2 :]
    if sizes is not None and apart is not None and np.prod(apart) < np.prod(kernel):
        # The gradient of a weight: its kernel is as large as an image, and there are few windows.
        windows = _each_window(writer, x, kernel, sizes[2:])
        if windows is None:
            return None
        stacked, whole = windows, writer.ints(*sizes)
    else:
        taps = taps_of(writer, x, kernel)
        if taps is None:
            return None
        stacked = writer.op(
            "Concat", *(writer.op("Unsqueeze", tap, writer.ints(2)) for tap in taps), axis=2
        )  # (N, C, kernel, windows..)
        batch, spatial = writer.sizes(taps[0], 0, 1), writer.sizes(taps[0], 2)
        whole = writer.op("Concat", batch, writer.ints(outputs), spatial, axis=0)
    columns = writer.op("Reshape", stacked, writer.ints(0, groups, elements, -1))
    kernels = writer.op("Reshape", w, writer.ints(groups, outputs // groups, elements))
    result = writer.op("Reshape", writer.op("MatMul", kernels, columns), whole)
    if bias is not None:
        column = writer.op("Reshape", bias, writer.ints(1, outputs, *([1] * len(kernel))))
        result = writer.op("Add", result, column)
    return result


def _conv_by_places(writer: Writer, x: ir.Value, w: ir.Value, bias: ir.Value | None) -> ir.Value | None:
    """The same where the kernel has sizes known only at run time: windows are gathered axis by axis."""
    ranks = [len(value.shape) - 2 for value in (x, w) if value.shape is not None]
    ranks += [len(writer.attribute(name, [])) for name in ("strides", "dilations")]
    rank = max(ranks, default=0)
    form = padded_input(writer, x, rank) if rank else None
    if form is None:
        return None
    windows, strides, dilations = form
    zero, one = writer.constant(np.int64(0)), writer.constant(np.int64(1))
    counts = []
    for k, (stride, dilation) in enumerate(zip(strides, dilations, strict=True)):
        elements, size = writer.sizes(w, 2 + k, 3 + k), writer.sizes(windows, 2 + 2 * k, 3 + 2 * k)
        step, hop = writer.ints(dilation), writer.ints(stride)
        reach = writer.op("Mul", writer.op("Sub", elements, writer.ints(1)), step)
        count = writer.op("Div", writer.op("Sub", writer.op("Sub", size, reach), writer.ints(1)), hop)
        count = writer.op("Add", count, writer.ints(1))
        counts.append(count)
        inside, starts = (
            writer.op("Mul", writer.op("Range", zero, writer.op("Squeeze", number), one), factor)
            for number, factor in ((elements, step), (count, hop))
        )
        places = writer.op("Add", writer.op("Unsqueeze", inside, writer.ints(1)), starts)
        windows = writer.op("Gather", windows, places, axis=2 + 2 * k)
    # (N, C, kernel 1, windows 1, kernel 2, windows 2, ..)
    order = [0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 2 + 2 * rank, 2)]
    stacked = writer.op("Transpose", windows, perm=order)
    groups, outputs = writer.ints(int(writer.attribute("group", 1))), writer.sizes(w, 0, 1)
    spatial = writer.op("Concat", *counts, axis=0)
    total = writer.op("ReduceProd", spatial)
    shape = writer.op("Concat", writer.ints(0), groups, writer.ints(-1), total, axis=0)
    columns = writer.op("Reshape", stacked, shape)
    shape = writer.op("Concat", groups, writer.op("Div", outputs, groups), writer.ints(-1), axis=0)
    product = writer.op("MatMul", writer.op("Reshape", w, shape), columns)
    whole = writer.op("Concat", writer.sizes(x, 0, 1), outputs, spatial, axis=0)
    result = writer.op("Reshape", product, whole)
    if bias is not None:
        result = writer.op("Add", result, writer.op("Reshape", bias, writer.ints(1, -1, *([1] * rank))))
    return result


def conv_transpose(writer: Writer, node: ir.Node) -> ir.Value | None:
    """Y = W^T X over windows: a convolution, by the kernel in reverse order, of X with zeros in between."""
    x, w = node.inputs[0], node.inputs[1]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    assert x is not None, "ConvTranspose requires its input"
    assert w is not None, "ConvTranspose requires its kernel"
    if static_shape(w) is None or writer.attribute("output_shape", None) is not None:
        return None
    if writer.attribute("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    inputs, outputs, *kernel = w.shape.numpy() if w.shape is not None else ()
    rank, groups = len(kernel), int(writer.attribute("group", 1))
    zeros, ones = [0] * rank, [1] * rank
    pads = list(writer.attribute("pads", zeros * 2))
    strides = list(writer.attribute("strides", ones))
    dilations = list(writer.attribute("dilations", ones))
    more = list(writer.attribute("output_padding", zeros))
    reach = [(size - 1) * d for size, d in zip(kernel, dilations, strict=True)]
    head = [r - before for r, before in zip(reach, pads[:rank], strict=True)]
    tail = [r - after + m - (s - 1) for r, after, m, s in zip(reach, pads[rank:], more, strides, strict=True)]
    spread = writer.padded(spread_out(writer, x, strides, zeros=True), head, tail, range(2, 2 + rank))
    taps = writer.taps(spread, kernel, ones, dilations)[::-1]
    stacked = writer.op("Concat", *(writer.op("Unsqueeze", tap, writer.ints(2)) for tap in taps), axis=2)
    elements = inputs // groups * len(taps)
    columns = writer.op("Reshape", stacked, writer.ints(0, groups, elements, -1))
    kernels = writer.op("Reshape", w, writer.ints(groups, inputs // groups, outputs, len(taps)))
    kernels = writer.op("Transpose", kernels, perm=[0, 2, 1, 3])
    kernels = writer.op("Reshape", kernels, writer.ints(groups, outputs, elements))
    product = writer.op("MatMul", kernels, columns)
    batch, spatial = writer.sizes(x, 0, 1), writer.sizes(taps[0], 2)
    whole = writer.op("Concat", batch, writer.ints(groups * outputs), spatial, axis=0)
    result = writer.op("Reshape", product, whole)
    if bias is not None:
        column = writer.op("Reshape", bias, writer.ints(1, groups * outputs, *ones))
        result = writer.op("Add", result, column)
    return result


def spread_out(writer: Writer, x: ir.Value, factors: Sequence[int], *, zeros: bool) -> ir.Value:
    """Each spatial element followed by zeros, or by copies of itself, ``factor`` times as many in all."""
    if set(factors) == {1}:
        return x
    rank = len(factors)
    between = [3 + 2 * k for k in range(rank)]
    split = writer.op("Unsqueeze", x, writer.ints(*between))
    if zeros:
        filled = writer.padded(split, [0] * rank, [factor - 1 for factor in factors], between)
    else:
        repeats = [1, 1, *itertools.chain.from_iterable((1, factor) for factor in factors)]
        filled = writer.op("Tile", split, writer.ints(*repeats))
    larger = writer.op("Mul", writer.op("Shape", x), writer.ints(1, 1, *factors))
    return writer.op("Reshape", filled, larger)
