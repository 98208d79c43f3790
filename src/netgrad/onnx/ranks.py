"""Ranks that the standard's inference leaves open, although the operators that read a value imply them."""

from __future__ import annotations

import onnx_ir

from netgrad.onnx.edit import all_values

_LIKE_KERNEL = frozenset({"Conv", "ConvTranspose"})
_POOLS = frozenset({"AveragePool", "LpPool", "MaxPool"})
_RECURRENT = frozenset({"GRU", "LSTM", "RNN"})

_ELEMENTWISE = """
    Abs Cast Celu Ceil Clip Cos Dropout Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity LeakyRelu Log
    LogSoftmax Mish Neg Reciprocal Relu Round Selu Sigmoid Sign Sin Softmax Softplus Softsign Sqrt Swish Tanh
    ThresholdedRelu BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization
    RMSNormalization Transpose
"""
_SAME_RANK = frozenset(_ELEMENTWISE.split())
"""Operators whose first output has the rank of their first input."""

_ML_SAME_SHAPE = frozenset({"Binarizer", "Imputer", "Normalizer", "Scaler"})
"""Operators of ``ai.onnx.ml`` that give floats in the shape of their input; the standard infers nothing."""


def imply_ranks(model: onnx_ir.Model) -> bool:
    """Give values of unknown rank the rank that their readers, or their writer, imply, in place.

    A Conv reads what has the rank of its kernel, an LSTM three axes, a Relu what has the rank of its output:
    with any other rank the model would not run. Dims stay unknown.

    Returns:
        Whether any rank was found; the standard's inference may then find more.
    """
    # A shape without an element type can't be written down: what is of unknown type waits until it is known.
    waiting = [
        value
        for value in all_values(model)
        if value.shape is None and (value.type is not None or _is_ml_output(value))
    ]
    found = False
    while waiting:
        known = [(value, rank) for value in waiting if (rank := _rank_of(value)) is not None]
        for value, rank in known:
            value.shape = onnx_ir.Shape([None] * rank)
            if value.type is None and _is_ml_output(value):
                value.type = onnx_ir.TensorType(onnx_ir.DataType.FLOAT)
        found = found or bool(known)
        # A rank found travels against the flow: look again at what the writers of these values read.
        candidates = {value for value, _ in known}
        waiting = [
            source
            for value in candidates
            if (producer := value.producer()) is not None
            for source in producer.inputs
            if source is not None and source.shape is None and source.type is not None
        ]
    return found


def _rank_of(value: onnx_ir.Value) -> int | None:
    producer = value.producer()
    source = producer.inputs[0] if producer is not None and _is_ml_output(value) else None
    if source is not None and source.shape is not None:
        return source.shape.rank()
    for node, index in value.uses():
        if node.domain != "" or index != 0 or node.graph is not value.graph:
            continue  # a reader in a branch or a loop may never run
        rank = _rank_read(node)
        if rank is not None:
            return rank
    return None


def _is_ml_output(value: onnx_ir.Value) -> bool:
    producer = value.producer()
    return producer is not None and producer.domain == "ai.onnx.ml" and producer.op_type in _ML_SAME_SHAPE


def _rank_read(node: onnx_ir.Node) -> int | None:
    """The rank that a node's first input must have, or None where the node takes any."""
    if node.op_type in _LIKE_KERNEL:
        kernel = node.inputs[1]
        return kernel.shape.rank() if kernel is not None and kernel.shape is not None else None
    if node.op_type in _POOLS:
        return len(node.attributes["kernel_shape"].as_ints()) + 2
    if node.op_type in _RECURRENT:
        return 3
    if node.op_type == "Gemm":
        return 2
    if node.op_type in _SAME_RANK:
        output = node.outputs[0]
        return output.shape.rank() if output.shape is not None else None
    return None
