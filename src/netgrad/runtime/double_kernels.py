"""Convolutions, pools and the like in float64 on ONNX Runtime, which has no float64 kernels for them.

They are written in terms of operators that have: the elements of every window are sliced out, and multiplied
or added. That takes more memory and time than a convolution in float32, and far less than the reference
evaluator. It serves measuring derivatives and nothing else. Functions of single elements are in
`netgrad.runtime.double_functions`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from netgrad.onnx.edit import all_graphs
from netgrad.onnx.shapes import infer_shapes
from netgrad.runtime.double_convolution import conv, conv_transpose, spread_out
from netgrad.runtime.double_functions import FUNCTIONS
from netgrad.runtime.double_writer import END, Writer, content_of, static_shape, taps_of


def with_double_kernels(model: ir.Model) -> ir.Model:
    """Rewrite, in place, what ONNX Runtime cannot compute in float64; other nodes stay as they are.

    Nodes whose form is not covered (padding given by ``auto_pad``, ``ceil_mode``)
    stay too, and the runtime will say so.

    Args:
        model: A float64 model.

    Returns:
        The same model.
    """
    _fold_casts(model)
    infer_shapes(model)  # the nodes of a gradient have no shapes of their own
    opset = model.opset_imports.get("", 0)
    for graph in all_graphs(model):
        for node in list(graph):
            _rewrite(node, graph, opset)
    return model


def _rewrite(node: ir.Node, graph: ir.Graph, opset: int) -> None:
    lowering = _LOWERINGS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    tape = ir.tape.Tape()
    result = None if lowering is None else lowering(Writer(tape, node, opset), node)
    if result is None:
        return
    for number, written in enumerate(tape.nodes):
        written.name = f"{node.name}/double/{number}"
        for value in written.outputs:
            value.name = f"{node.outputs[0].name}/double/{number}"
    ir.convenience.replace_nodes_and_values(
        graph, node, [node], list(tape.nodes), [node.outputs[0]], [result]
    )


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


def _resize(writer: Writer, node: ir.Node) -> ir.Value | None:
    """The nearest element, where every spatial axis becomes a whole number of times as long."""
    x = node.inputs[0]
    assert x is not None, "Resize requires its input"
    scales = content_of(node.inputs[2] if len(node.inputs) > 2 else None)
    form = [
        writer.attribute("mode", "nearest"),
        writer.attribute("coordinate_transformation_mode", "half_pixel"),
        writer.attribute("nearest_mode", "round_prefer_floor"),
    ]
    if form != ["nearest", "asymmetric", "floor"] or scales is None:
        return None
    if np.any(scales != np.round(scales)) or np.any(scales < 1) or list(scales[:2]) != [1, 1]:
        return None
    return spread_out(writer, x, [int(scale) for scale in scales[2:]], zeros=False)


def _max_unpool(writer: Writer, node: ir.Node) -> ir.Value | None:
    """Zeros, and the elements of X at their places, which count over the whole of Y."""
    x, places = node.inputs[0], node.inputs[1]
    assert x is not None, "MaxUnpool requires its input"
    assert places is not None, "MaxUnpool requires its places"
    sizes = static_shape(node.outputs[0])
    if sizes is None or (len(node.inputs) > 2 and node.inputs[2] is not None):
        return None
    total = writer.ints(int(np.prod(sizes)))
    zeros = writer.op("ConstantOfShape", total, value=ir.tensor(np.zeros(1)))
    flat = [writer.op("Reshape", value, writer.ints(-1)) for value in (places, x)]
    return writer.op("Reshape", writer.op("ScatterElements", zeros, *flat), writer.ints(*sizes))


def _hard_sigmoid(writer: Writer, node: ir.Node) -> ir.Value:
    """Y = min(max(a X + b, 0), 1)."""
    alpha = float(writer.attribute("alpha", np.float32(0.2)))
    scaled = writer.op("Mul", node.inputs[0], writer.constant(alpha))
    moved = writer.op("Add", scaled, writer.constant(float(writer.attribute("beta", 0.5))))
    return writer.op("Clip", moved, writer.constant(0.0), writer.constant(1.0))


def _average_pool(writer: Writer, node: ir.Node) -> ir.Value | None:
    """Y = mean over each window, of what lies inside the tensor or of the padding too."""
    x = node.inputs[0]
    assert x is not None, "AveragePool requires its input"
    kernel = [int(size) for size in writer.attribute("kernel_shape", [])]
    taps = taps_of(writer, x, kernel)
    if taps is None:
        return None
    total = writer.op("Sum", *taps)
    if writer.attribute("count_include_pad", 0) or not any(writer.attribute("pads", [0])):
        return writer.op("Div", total, writer.constant(np.float64(len(taps))))
    ones = writer.op("Add", writer.op("Mul", x, writer.constant(0.0)), writer.constant(1.0))
    inside = taps_of(writer, ones, kernel)
    assert inside is not None, "the same form was covered for the input"
    return writer.op("Div", total, writer.op("Sum", *inside))


def _global_average_pool(writer: Writer, node: ir.Node) -> ir.Value | None:
    x = node.inputs[0]
    assert x is not None, "GlobalAveragePool requires its input"
    if x.shape is None:
        return None
    axes = list(range(2, len(x.shape)))
    if writer.opset >= 18:
        return writer.op("ReduceMean", x, writer.ints(*axes))
    return writer.op("ReduceMean", x, axes=axes)


def _lrn(writer: Writer, node: ir.Node) -> ir.Value | None:
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
            writer.ints(k + 1 - size if k + 1 < size else END),
            writer.ints(1),
        )
        for k in range(size)
    ]
    scaled = writer.op("Mul", writer.op("Sum", *taps), writer.constant(alpha / size))
    base = writer.op("Add", scaled, writer.constant(bias))
    return writer.op("Div", x, writer.op("Pow", base, writer.constant(beta)))


_LOWERINGS: dict[str, Callable[[Writer, ir.Node], ir.Value | None]] = {
    "AveragePool": _average_pool,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "GlobalAveragePool": _global_average_pool,
    "HardSigmoid": _hard_sigmoid,
    "LRN": _lrn,
    "MaxUnpool": _max_unpool,
    "Resize": _resize,
    **FUNCTIONS,
}
