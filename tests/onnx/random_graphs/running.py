"""Running a random graph or its gradient in float64 on ONNX Runtime, whatever kernels that lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
from google.protobuf.message import Message
from onnx import numpy_helper

from netgrad.onnx.inline import inline_functions
from netgrad.onnx.view import values_of
from netgrad.runtime.double_kernels import with_double_kernels

Arrays = dict[str, np.ndarray]
Run = Callable[[Arrays], Arrays]
Shapes = Mapping[str, tuple[int, ...]]

WINDOWED = {"Conv", "ConvTranspose", "AveragePool", "MaxPool", "MaxUnpool", "LRN"}
"""Operators that are written for shapes that are known."""

PLAIN, WRITTEN = "ONNX Runtime", "ONNX Runtime, with operators written in others"


def in_float64(model: onnx.ModelProto, feeds: Arrays) -> tuple[Run, str]:
    """A runner of a float64 model, and which it is: `PLAIN` or `WRITTEN`.

    Args:
        model: The model.
        feeds: Its inputs; the runner takes inputs of the same shapes.
    """
    try:
        return on_onnxruntime(model), PLAIN
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error):
            raise
    written = ir.from_proto(model)
    inline_functions(written)
    values = {value.name: value for value in values_of(written.graph)}
    known = {**shapes_of_windows(model, feeds), **{name: array.shape for name, array in feeds.items()}}
    for name, value in values.items():
        if name in known:
            value.shape = ir.Shape(known[name])
        elif value.producer() is not None:
            value.shape = None  # what it says of unknown dims would contradict
    return on_onnxruntime(ir.to_proto(with_double_kernels(written))), WRITTEN


def shapes_of_windows(model: onnx.ModelProto, feeds: Arrays) -> Shapes:
    """Shapes of what operators with windows take and give, found by running the model in float32."""
    names = {
        name
        for node in model.graph.node
        if node.op_type in WINDOWED
        for name in (*node.input, *node.output)
        if name
    }
    if not names:
        return {}
    proto = in_float32(model)
    present = {output.name for output in proto.graph.output}
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(names - present))
    results = on_onnxruntime(proto)(narrowed(feeds))
    return {name: results[name].shape for name in names}


def in_float32(model: onnx.ModelProto) -> onnx.ModelProto:
    """The float64 model with every type, tensor and attribute that says so in float32."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model)
    _narrow(proto)
    return proto


def _narrow(message: Message) -> None:
    if isinstance(message, onnx.TensorProto) and message.data_type == onnx.TensorProto.DOUBLE:
        with np.errstate(over="ignore"):  # float64's largest number stands for infinity
            array = numpy_helper.to_array(message).astype(np.float32)
        message.CopyFrom(numpy_helper.from_array(array, message.name))
    if isinstance(message, onnx.TypeProto.Tensor) and message.elem_type == onnx.TensorProto.DOUBLE:
        message.elem_type = onnx.TensorProto.FLOAT
    if isinstance(message, onnx.AttributeProto) and message.name in ("to", "stash_type", "dtype"):
        message.i = onnx.TensorProto.FLOAT if message.i == onnx.TensorProto.DOUBLE else message.i
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in [value] if isinstance(value, Message) else value:
                _narrow(part)


def narrowed(arrays: Arrays) -> Arrays:
    return {name: np.asarray(array, np.float32) for name, array in arrays.items()}


def on_onnxruntime(model: onnx.ModelProto, *, optimized: bool = False) -> Run:
    """A runner on ONNX Runtime, with one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    level = onnxruntime.GraphOptimizationLevel
    # some fusions fail in float64: that of Relu and Clip
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    needed = [value.name for value in session.get_inputs()]
    return lambda arrays: dict(
        zip(names, session.run(None, {name: np.asarray(arrays[name]) for name in needed}), strict=True)
    )
