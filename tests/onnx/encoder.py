"""An encoder in the form that ONNX Runtime's optimizer looks for, written with onnxscript at opset 12."""

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnxscript import opset12 as older
from onnxscript import script


@script(default_opset=older)
def composed_layer_norm(x, scale, shift):
    centred = older.Sub(x, older.ReduceMean(x, axes=[-1], keepdims=1))
    two, small = older.Constant(value_float=2.0), older.Constant(value_float=0.00001)
    variance = older.ReduceMean(older.Pow(centred, two), axes=[-1], keepdims=1)
    return older.Add(older.Mul(older.Div(centred, older.Sqrt(older.Add(variance, small))), scale), shift)


@script(default_opset=older)
def encoder_layer(x, hidden, wq, bq, wk, bk, wv, bv, wo, bo, scale, shift, w1, b1, w2, b2, scale2, shift2):
    heads = older.Constant(value_ints=[0, 0, 2, 4])
    query = older.Transpose(older.Reshape(older.MatMul(x, wq) + bq, heads), perm=[0, 2, 1, 3])
    key = older.Transpose(older.Reshape(older.MatMul(x, wk) + bk, heads), perm=[0, 2, 3, 1])
    value = older.Transpose(older.Reshape(older.MatMul(x, wv) + bv, heads), perm=[0, 2, 1, 3])
    scores = older.Div(older.MatMul(query, key), older.Constant(value_float=2.0)) + hidden
    mixed = older.Transpose(older.MatMul(older.Softmax(scores, axis=3), value), perm=[0, 2, 1, 3])
    flat = older.Reshape(mixed, older.Constant(value_ints=[0, 0, 8]))
    y = composed_layer_norm((older.MatMul(flat, wo) + bo) + x, scale, shift)
    inner = older.MatMul(y, w1) + b1
    root, one, half = (
        older.Constant(value_float=1.4142135381698608),
        older.Constant(value_float=1.0),
        older.Constant(value_float=0.5),
    )
    gelu = older.Mul(older.Mul(inner, older.Erf(older.Div(inner, root)) + one), half)
    return composed_layer_norm((older.MatMul(gelu, w2) + b2) + y, scale2, shift2)


@script(default_opset=older)
def hidden_keys(mask):
    row = older.Unsqueeze(mask, axes=[1])
    wide = older.Cast(older.Unsqueeze(row, axes=[2]), to=1)
    one, low = older.Constant(value_float=1.0), older.Constant(value_float=-10000.0)
    return older.Mul(older.Sub(one, wide), low)


_ENCODER = {
    **{f"{kind}{part}": (8, 8) if kind == "w" else (8,) for part in "qkvo" for kind in "wb"},
    **dict.fromkeys(("scale", "shift"), (8,)),
    "w1": (8, 6),
    "b1": (6,),
    "w2": (6, 8),
    **dict.fromkeys(("b2", "scale2", "shift2"), (8,)),
}


def encoder(layers: int = 2) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """An encoder in the form that ONNX Runtime's optimizer looks for, and its input; its output is y."""
    rng = np.random.default_rng(6)
    weights = {
        f"{name}_{layer}": (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)
        for layer in range(layers)
        for name, shape in _ENCODER.items()
    }
    feeds = {
        "x": rng.normal(size=(2, 5, 8)).astype(np.float32),
        "mask": np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int64),
    }
    ones = np.ones(8, np.float32)
    weights |= {"first_scale": ones * np.float32(1.1), "first_shift": ones * np.float32(0.1)}
    nodes = [
        helper.make_node("composed_layer_norm", ["x", "first_scale", "first_shift"], ["h_0"], domain="this"),
        helper.make_node("hidden_keys", ["mask"], ["hidden"], domain="this"),
    ]
    for layer in range(layers):
        given = [f"{name}_{layer}" for name in _ENCODER]
        y = "y" if layer == layers - 1 else f"h_{layer + 1}"
        nodes.append(helper.make_node("encoder_layer", [f"h_{layer}", "hidden", *given], [y], domain="this"))
    real, whole = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    graph = helper.make_graph(
        nodes,
        "encoder",
        [
            helper.make_tensor_value_info("x", real, ["B", "S", 8]),
            helper.make_tensor_value_info("mask", whole, ["B", "S"]),
        ],
        [helper.make_tensor_value_info("y", real, ["B", "S", 8])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 12), helper.make_opsetid("this", 1)]
    functions = [form.to_function_proto() for form in (encoder_layer, hidden_keys, composed_layer_norm)]
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8), feeds
