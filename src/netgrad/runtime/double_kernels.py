"""Convolutions, pools and the like in float64 on ONNX Runtime, which has no float64 kernels for them.

They are written in terms of operators that have: the elements of every window are sliced out, and multiplied
or added. That takes more memory and time than a convolution in float32, and far less than the reference
evaluator. It serves measuring derivatives and nothing else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from netgrad.onnx.shapes import infer_shapes

_END = np.iinfo(np.int64).max


def with_double_kernels(model: ir.Model) -> ir.Model:
    """Rewrite, in place, what ONNX Runtime cannot compute in float64; other nodes stay as they are.

    Nodes whose form is not covered (padding given by ``auto_pad``, ``ceil_mode``, a kernel of unknown shape)
    stay too, and the runtime will say so.

    Args:
        model: A float64 model.

    Returns:
        The same model.
    """
    _fold_casts(model)
    infer_shapes(model)  # the nodes of a gradient have no shapes of their own
    for node in list(model.graph):
        lowering = _LOWERINGS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if lowering is None:
            continue
        tape = ir.tape.Tape()
        result = lowering(_Writer(tape, node), node)
        if result is None:
            continue
        for number, written in enumerate(tape.nodes):
            written.name = f"{node.name}/double/{number}"
            for value in written.outputs:
                value.name = f"{node.outputs[0].name}/double/{number}"
        ir.convenience.replace_nodes_and_values(
            model.graph, node, [node], list(tape.nodes), [node.outputs[0]], [result]
        )
    return model


def _fold_casts(model: ir.Model) -> None:
    """Turn, in place, casts of initializers into initializers: inference sees the scales of Resize then."""
    graph = model.graph
    for node in list(graph):
        source = node.inputs[0] if node.op_type == "Cast" and node.inputs else None
        if source is None or source.const_value is None or node.outputs[0].is_graph_output():
            continue
        old, dtype = node.outputs[0], ir.DataType(node.attributes["to"].as_int())
        content = source.const_value.numpy().astype(dtype.numpy())
        new = ir.Value(
            name=old.name,
            type=ir.TensorType(dtype),
            shape=ir.Shape(content.shape),
            const_value=ir.tensor(content, dtype=dtype, name=old.name),
        )
        old.replace_all_uses_with(new)
        graph.remove(node, safe=True)
        graph.register_initializer(new)


class _Writer:
    """Writes the nodes that take a node's place."""

    def __init__(self, tape: ir.tape.Tape, node: ir.Node) -> None:
        self._tape = tape
        self._node = node

    def op(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        return self._tape.op(op_type, list(inputs), attributes or None)

    def constant(self, array: Any) -> ir.Value:
        return self.op("Constant", value=ir.tensor(np.asarray(array)))

    def ints(self, *values: int) -> ir.Value:
        return self.constant(np.asarray(values, np.int64))

    def attribute(self, name: str, default: Any) -> Any:
        given = self._node.attributes.get(name)
        return default if given is None else given.value

    def padded(self, x: ir.Value, head: Sequence[int], tail: Sequence[int], axes: Sequence[int]) -> ir.Value:
        """``x`` with zeros before and after each of ``axes``; x has no more axes than the last of them."""
        if not any(head) and not any(tail):
            return x
        rank = max(axes) + 1
        pads = [0] * (2 * rank)
        for axis, before, after in zip(axes, head, tail, strict=True):
            pads[axis], pads[rank + axis] = before, after
        return self.op("Pad", x, self.ints(*pads))

    def taps(
        self, x: ir.Value, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
    ) -> list[ir.Value]:
        """For each kernel position, the elements that all windows have there: shape (N, C, windows..)."""
        axes = self.ints(*range(2, 2 + len(kernel)))
        steps = self.ints(*strides)
        found = []
        for position in itertools.product(*map(range, kernel)):
            starts = [k * d for k, d in zip(position, dilations, strict=True)]
            left = [(n - 1 - k) * d for n, k, d in zip(kernel, position, dilations, strict=True)]
            ends = [-rest if rest else _END for rest in left]
            found.append(self.op("Slice", x, self.ints(*starts), self.ints(*ends), axes, steps))
        return found


def _padded_input(writer: _Writer, x: ir.Value, rank: int) -> tuple[ir.Value, list[int], list[int]] | None:
    """The padded input, strides and dilations of a node with windows; None where the form is not covered."""
    if writer.attribute("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or writer.attribute("ceil_mode", 0):
        return None
    pads = list(writer.attribute("pads", [0] * (2 * rank)))
    strides = list(writer.attribute("strides", [1] * rank))
    dilations = list(writer.attribute("dilations", [1] * rank))
    return writer.padded(x, pads[:rank], pads[rank:], range(2, 2 + rank)), strides, dilations


def _windows(writer: _Writer, x: ir.Value, kernel: Sequence[int]) -> list[ir.Value] | None:
    """The taps of a node with windows, or None where the form is not covered."""
    form = _padded_input(writer, x, len(kernel))
    return None if form is None else writer.taps(form[0], kernel, form[1], form[2])


def _each_window(
    writer: _Writer, x: ir.Value, kernel: Sequence[int], sizes: Sequence[int]
) -> ir.Value | None:
    """All windows, ``sizes`` in number along the axes, side by side: shape (N, C, kernel.., windows..).

    A first axis along which the kernel has one element and meets every element of X is not taken apart.
    """
    form = _padded_input(writer, x, len(kernel))
    if form is None:
        return None
    padded, strides, dilations = form
    rank, whole = len(kernel), _first_axis_is_whole(writer, x, kernel, sizes)
    axes, steps = writer.ints(*range(2, 2 + rank)), writer.ints(*dilations)
    found = []
    for position in itertools.product(*map(range, [1, *sizes[1:]] if whole else sizes)):
        starts = [o * s for o, s in zip(position, strides, strict=True)]
        ends = [start + (n - 1) * d + 1 for start, n, d in zip(starts, kernel, dilations, strict=True)]
        if whole:
            ends[0] = _END
        window = writer.op("Slice", padded, writer.ints(*starts), writer.ints(*ends), axes, steps)
        found.append(writer.op("Unsqueeze", window, writer.ints(2 + rank)))
    stacked = writer.op("Concat", *found, axis=2 + rank)
    if whole:
        stacked = writer.op("Transpose", stacked, perm=[0, 1, *range(3, 2 + rank), 2, 2 + rank])
    return stacked


def _first_axis_is_whole(writer: _Writer, x: ir.Value, kernel: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether the kernel has one element along the first spatial axis and meets every element of X there."""
    static, rank = _static(x), len(kernel)
    stride = writer.attribute("strides", [1] * rank)[0]
    return static is not None and rank > 1 and kernel[0] == stride == 1 and sizes[0] == static[2]


def _conv(writer: _Writer, node: ir.Node) -> ir.Value | None:
    """Y = W X over windows: per group, a matrix of kernels times the matrix of window elements."""
    x, w = node.inputs[0], node.inputs[1]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    assert x is not None, "Conv requires its input"
    assert w is not None, "Conv requires its kernel"
    if w.shape is None or not w.shape.is_static():
        return None
    outputs, inputs, *kernel = w.shape.numpy()
    groups = int(writer.attribute("group", 1))
    elements = inputs * int(np.prod(kernel))
    sizes = _static(node.outputs[0])
    apart = None if sizes is None else sizes[3 if _first_axis_is_whole(writer, x, kernel, sizes[2:]) else 2 :]
    if sizes is not None and apart is not None and np.prod(apart) < np.prod(kernel):
        # The gradient of a weight: its kernel is as large as an image, and there are few windows.
        windows = _each_window(writer, x, kernel, sizes[2:])
        if windows is None:
            return None
        stacked, whole = windows, writer.ints(*sizes)
    else:
        taps = _windows(writer, x, kernel)
        if taps is None:
            return None
        stacked = writer.op(
            "Concat", *(writer.op("Unsqueeze", tap, writer.ints(2)) for tap in taps), axis=2
        )  # (N, C, kernel, windows..)
        shape = writer.op("Shape", taps[0])
        batch = writer.op("Slice", shape, writer.ints(0), writer.ints(1))
        spatial = writer.op("Slice", shape, writer.ints(2), writer.ints(_END))
        whole = writer.op("Concat", batch, writer.ints(outputs), spatial, axis=0)
    columns = writer.op("Reshape", stacked, writer.ints(0, groups, elements, -1))
    kernels = writer.op("Reshape", w, writer.ints(groups, outputs // groups, elements))
    result = writer.op("Reshape", writer.op("MatMul", kernels, columns), whole)
    if bias is not None:
        column = writer.op("Reshape", bias, writer.ints(1, outputs, *([1] * len(kernel))))
        result = writer.op("Add", result, column)
    return result


def _conv_transpose(writer: _Writer, node: ir.Node) -> ir.Value | None:
    """Y = W^T X over windows: a convolution, by the kernel in reverse order, of X with zeros in between."""
    x, w = node.inputs[0], node.inputs[1]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    assert x is not None, "ConvTranspose requires its input"
    assert w is not None, "ConvTranspose requires its kernel"
    sizes = _static(x)
    if sizes is None or _static(w) is None or writer.attribute("output_shape", None) is not None:
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
    spread = writer.padded(_spread(writer, x, sizes, strides, zeros=True), head, tail, range(2, 2 + rank))
    taps = writer.taps(spread, kernel, ones, dilations)[::-1]
    stacked = writer.op("Concat", *(writer.op("Unsqueeze", tap, writer.ints(2)) for tap in taps), axis=2)
    elements = inputs // groups * len(taps)
    columns = writer.op("Reshape", stacked, writer.ints(0, groups, elements, -1))
    kernels = writer.op("Reshape", w, writer.ints(groups, inputs // groups, outputs, len(taps)))
    kernels = writer.op("Transpose", kernels, perm=[0, 2, 1, 3])
    kernels = writer.op("Reshape", kernels, writer.ints(groups, outputs, elements))
    product = writer.op("MatMul", kernels, columns)
    spatial = writer.op("Slice", writer.op("Shape", taps[0]), writer.ints(2), writer.ints(_END))
    whole = writer.op("Concat", writer.ints(sizes[0], groups * outputs), spatial, axis=0)
    result = writer.op("Reshape", product, whole)
    if bias is not None:
        column = writer.op("Reshape", bias, writer.ints(1, groups * outputs, *ones))
        result = writer.op("Add", result, column)
    return result


def _spread(
    writer: _Writer, x: ir.Value, sizes: Sequence[int], factors: Sequence[int], *, zeros: bool
) -> ir.Value:
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
    larger = [size * factor for size, factor in zip(sizes[2:], factors, strict=True)]
    return writer.op("Reshape", filled, writer.ints(*sizes[:2], *larger))


def _resize(writer: _Writer, node: ir.Node) -> ir.Value | None:
    """The nearest element, where every spatial axis becomes a whole number of times as long."""
    x = node.inputs[0]
    assert x is not None, "Resize requires its input"
    scales, sizes = _constant(node.inputs[2] if len(node.inputs) > 2 else None), _static(x)
    form = [
        writer.attribute("mode", "nearest"),
        writer.attribute("coordinate_transformation_mode", "half_pixel"),
        writer.attribute("nearest_mode", "round_prefer_floor"),
    ]
    if form != ["nearest", "asymmetric", "floor"] or scales is None or sizes is None:
        return None
    if np.any(scales != np.round(scales)) or np.any(scales < 1) or list(scales[:2]) != [1, 1]:
        return None
    return _spread(writer, x, sizes, [int(scale) for scale in scales[2:]], zeros=False)


def _max_unpool(writer: _Writer, node: ir.Node) -> ir.Value | None:
    """Zeros, and the elements of X at their places, which count over the whole of Y."""
    x, places = node.inputs[0], node.inputs[1]
    assert x is not None, "MaxUnpool requires its input"
    assert places is not None, "MaxUnpool requires its places"
    sizes = _static(node.outputs[0])
    if sizes is None or (len(node.inputs) > 2 and node.inputs[2] is not None):
        return None
    total = writer.ints(int(np.prod(sizes)))
    zeros = writer.op("ConstantOfShape", total, value=ir.tensor(np.zeros(1)))
    flat = [writer.op("Reshape", value, writer.ints(-1)) for value in (places, x)]
    return writer.op("Reshape", writer.op("ScatterElements", zeros, *flat), writer.ints(*sizes))


def _hard_sigmoid(writer: _Writer, node: ir.Node) -> ir.Value:
    """Y = min(max(a X + b, 0), 1)."""
    scaled = writer.op("Mul", node.inputs[0], writer.constant(float(writer.attribute("alpha", 0.2))))
    moved = writer.op("Add", scaled, writer.constant(float(writer.attribute("beta", 0.5))))
    return writer.op("Clip", moved, writer.constant(0.0), writer.constant(1.0))


def _static(value: ir.Value) -> tuple[int, ...] | None:
    """The shape where every dim is known."""
    return value.shape.numpy() if value.shape is not None and value.shape.is_static() else None


def _constant(value: ir.Value | None) -> Any:
    """The content of an initializer, or None."""
    return None if value is None or value.const_value is None else value.const_value.numpy()


def _average_pool(writer: _Writer, node: ir.Node) -> ir.Value | None:
    """Y = mean over each window, of what lies inside the tensor or of the padding too."""
    x = node.inputs[0]
    assert x is not None, "AveragePool requires its input"
    kernel = [int(size) for size in writer.attribute("kernel_shape", [])]
    taps = _windows(writer, x, kernel)
    if taps is None:
        return None
    total = writer.op("Sum", *taps)
    if writer.attribute("count_include_pad", 0) or not any(writer.attribute("pads", [0])):
        return writer.op("Div", total, writer.constant(np.float64(len(taps))))
    ones = writer.op("Add", writer.op("Mul", x, writer.constant(0.0)), writer.constant(1.0))
    inside = _windows(writer, ones, kernel)
    assert inside is not None, "the same form was covered for the input"
    return writer.op("Div", total, writer.op("Sum", *inside))


def _global_average_pool(writer: _Writer, node: ir.Node) -> ir.Value | None:
    x = node.inputs[0]
    assert x is not None, "GlobalAveragePool requires its input"
    if x.shape is None:
        return None
    axes = list(range(2, len(x.shape)))
    opset = node.version or (node.graph.opset_imports.get("", 0) if node.graph is not None else 0)
    if opset >= 18:
        return writer.op("ReduceMean", x, writer.ints(*axes))
    return writer.op("ReduceMean", x, axes=axes)


def _lrn(writer: _Writer, node: ir.Node) -> ir.Value | None:
    """Y = X / (bias + alpha / size * sum over neighbouring channels of X^2)^beta."""
    x = node.inputs[0]
    assert x is not None, "LRN requires its input"
    if x.shape is None:
        return None
    size = int(writer.attribute("size", 1))
    alpha = float(writer.attribute("alpha", np.float32(1e-4)))
    beta = float(writer.attribute("beta", 0.75))
    bias = float(writer.attribute("bias", 1.0))
    rank = len(x.shape)
    head, tail = (size - 1) // 2, size // 2
    pads = [0] * (2 * rank)
    pads[1], pads[rank + 1] = head, tail
    squares = writer.op("Pad", writer.op("Mul", x, x), writer.ints(*pads))
    taps = [
        writer.op(
            "Slice",
            squares,
            writer.ints(k),
            writer.ints(k + 1 - size if k + 1 < size else _END),
            writer.ints(1),
        )
        for k in range(size)
    ]
    scaled = writer.op("Mul", writer.op("Sum", *taps), writer.constant(alpha / size))
    base = writer.op("Add", scaled, writer.constant(bias))
    return writer.op("Div", x, writer.op("Pow", base, writer.constant(beta)))


_LOWERINGS: dict[str, Callable[[_Writer, ir.Node], ir.Value | None]] = {
    "AveragePool": _average_pool,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "GlobalAveragePool": _global_average_pool,
    "HardSigmoid": _hard_sigmoid,
    "LRN": _lrn,
    "MaxUnpool": _max_unpool,
    "Resize": _resize,
}
