"""A sequence model with a GRU, written with onnxscript."""

# onnxscript reads the annotations when it reads the function: they cannot be postponed.
import numpy as np
import onnx
from onnx import numpy_helper
from onnxscript import FLOAT, INT32, script
from onnxscript import opset23 as op

STEPS, BATCHES = "T", "B"
"""Symbols of the sequence model."""


@script(default_opset=op)
def classifier(
    x: FLOAT[STEPS, BATCHES, 5],
    lengths: INT32[BATCHES],
    w: FLOAT[2, 12, 5],
    r: FLOAT[2, 12, 4],
    b: FLOAT[2, 24],
    start: FLOAT[2, BATCHES, 4],
    w_out: FLOAT[8, 3],
    b_out: FLOAT[3],
) -> FLOAT[BATCHES, 3]:
    _states, last = op.GRU(
        x, w, r, b, lengths, start, hidden_size=4, direction="bidirectional", linear_before_reset=1
    )
    joined = op.Reshape(op.Transpose(last, perm=[1, 0, 2]), op.Constant(value_ints=[0, -1]))
    return op.LogSoftmax(op.Gemm(op.Tanh(joined), w_out, b_out), axis=-1)


CLASSIFIER = {"w": (2, 12, 5), "r": (2, 12, 4), "b": (2, 24), "w_out": (8, 3), "b_out": (3,)}
"""Shapes of the weights of the sequence model."""


def sequence_model() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A classifier of sequences of unequal lengths, with its input; x and the first state are real."""
    rng = np.random.default_rng(5)
    proto = classifier.to_model_proto()
    for name, shape in CLASSIFIER.items():
        info = next(value for value in proto.graph.input if value.name == name)
        proto.graph.input.remove(info)
        array = (rng.normal(size=shape) / 2).astype(np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    feeds = {
        "x": rng.normal(size=(4, 3, 5)).astype(np.float32),
        "lengths": np.array([4, 2, 3], np.int32),
        "start": rng.normal(size=(2, 3, 4)).astype(np.float32),
    }
    return proto, feeds
