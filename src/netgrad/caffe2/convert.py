"""A saved model as an ONNX model with the same names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
from onnx import numpy_helper

from netgrad.caffe2.lowering.context import StaticShapeNeededError
from netgrad.caffe2.lowering.net import Lowered, lowered
from netgrad.caffe2.lowering.nodes import drop_copies, rename
from netgrad.caffe2.recurrence import with_kept
from netgrad.caffe2.saved_model import SavedModel
from netgrad.core import InvalidArgumentError
from netgrad.onnx.view import Dim, TensorInfo


def to_onnx(
    model: SavedModel,
    shapes: Mapping[str, Sequence[Dim]],
    *,
    types: Mapping[str, str] | None = None,
    outputs: Sequence[str] | None = None,
) -> onnx.ModelProto:
    """Write a saved model in ONNX: parameters become initializers, and blobs keep their names.

    Args:
        model: The model.
        shapes: The shape of each input: integers, and texts for dims that vary.
        types: The element types of inputs that are not float32, as NumPy names them.
        outputs: The blobs that the model gives; None for its own outputs.

    Raises:
        InvalidArgumentError: An input has no shape, or a name is unknown.
        UnsupportedOperatorError: An operator can't be written in ONNX.
    """
    missing = [name for name in model.inputs if name not in shapes]
    if missing:
        raise InvalidArgumentError(
            f"the shape of {', '.join(missing)} is not known: a net says no shapes",
            hint="give the shape of each input, such as data=N,3,224,224",
        )
    known: dict[str, TensorInfo] = {}
    for name in model.inputs:
        dtype = ir.DataType.from_numpy(np.dtype((types or {}).get(name, "float32")))
        known[name] = TensorInfo(dtype, tuple(shapes[name]))
    for name, array in model.parameters.items():
        known[name] = TensorInfo(ir.DataType.from_numpy(array.dtype), tuple(array.shape))
    wanted = list(model.outputs if outputs is None else outputs)
    try:
        net = lowered(with_kept(model.predict_net.op, if_read=True), known, wanted)
    except StaticShapeNeededError:
        raise InvalidArgumentError(
            "an operator of the net needs to know all dims of its input",
            hint="give shapes without dims that vary",
        ) from None
    unknown = [name for name in wanted if name not in net.outputs]
    if unknown:
        raise InvalidArgumentError(f"the net writes no blob {', '.join(unknown)}")
    return _named(net, model)


def _named(net: Lowered, model: SavedModel) -> onnx.ModelProto:
    """The model with the blobs' own names outside."""
    proto = onnx.ModelProto()
    proto.CopyFrom(net.model)
    drop_copies(proto.graph)
    names = {f"in:{k}": blob for k, blob in enumerate(net.inputs)}
    taken = set(net.inputs)
    for k, blob in enumerate(net.outputs):
        names[f"out:{k}"] = blob if blob not in taken else f"{blob}_out"
    rename(proto.graph, names)
    for info in (*proto.graph.input, *proto.graph.output):
        info.name = names[info.name]
    parameters = model.parameters
    data = [info for info in proto.graph.input if info.name not in parameters]
    stored = [info.name for info in proto.graph.input if info.name in parameters]
    del proto.graph.input[:]
    proto.graph.input.extend(data)
    proto.graph.initializer.extend(
        numpy_helper.from_array(np.ascontiguousarray(parameters[name]), name) for name in stored
    )
    proto.graph.name = model.predict_net.name or "net"
    return proto
