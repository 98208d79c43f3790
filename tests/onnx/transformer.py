"""A decoder of a transformer in two forms, written with onnxscript.

The *fused* form is that of the standard's operators from opset 23 on: RMSNormalization, RotaryEmbedding and
Attention, whose 4 heads of queries share 2 of keys. The *composed* form is the one that PyTorch exports:
MatMul, Transpose, Softmax and Where, with Shape, Gather and Concat around every Reshape, keys copied for the
heads that share them, and a causal mask made by Range. Weights are the same, in name and shape.
"""

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnxscript import opset23 as op
from onnxscript import script

HEADS, SHARED, SIZE = 4, 2, 4
"""Heads of queries, heads of keys and values, and the width of a head."""

WIDTH, WIDE = 12, 10
"""The width of the model, and that of its inner layer."""

LAYER = {
    "gamma": (WIDTH,),
    "w_query": (WIDTH, HEADS * SIZE),
    "b_query": (HEADS * SIZE,),
    "w_key": (WIDTH, SHARED * SIZE),
    "w_value": (WIDTH, SHARED * SIZE),
    "w_out": (HEADS * SIZE, WIDTH),
    "scale": (WIDTH,),
    "shift": (WIDTH,),
    "w_gate": (WIDTH, WIDE),
    "w_up": (WIDTH, WIDE),
    "w_down": (WIDE, WIDTH),
}
"""Shapes of the weights of one layer."""

# ---- the fused form ----------------------------------------------------------------------------------


@script(default_opset=op)
def gated(h, scale, shift, w_gate, w_up, w_down):
    normal = op.LayerNormalization(h, scale, shift, axis=-1)
    gate = op.MatMul(normal, w_gate)
    return h + op.MatMul(gate * op.Sigmoid(gate) * op.MatMul(normal, w_up), w_down)


@script(default_opset=op)
def fused_causal(x, cos, sin, gamma, w_query, b_query, w_key, w_value, w_out):
    normal = op.RMSNormalization(x, gamma)
    query = op.MatMul(normal, w_query) + b_query
    turned_query = op.RotaryEmbedding(query, cos, sin, num_heads=4)
    turned_key = op.RotaryEmbedding(op.MatMul(normal, w_key), cos, sin, num_heads=2)
    value = op.MatMul(normal, w_value)
    y, _key, _values = op.Attention(
        turned_query, turned_key, value, is_causal=1, q_num_heads=4, kv_num_heads=2
    )
    return x + op.MatMul(y, w_out)


@script(default_opset=op)
def fused_masked(x, mask, gamma, w_query, b_query, w_key, w_value, w_out):
    normal = op.RMSNormalization(x, gamma)
    query = op.MatMul(normal, w_query) + b_query
    key, value = op.MatMul(normal, w_key), op.MatMul(normal, w_value)
    y, _keys, _values = op.Attention(query, key, value, mask, q_num_heads=4, kv_num_heads=2)
    return x + op.MatMul(y, w_out)


@script(default_opset=op)
def fused_cached(x, mask, past_key, past_value, gamma, w_query, b_query, w_key, w_value, w_out):
    normal = op.RMSNormalization(x, gamma)
    query = op.MatMul(normal, w_query) + b_query
    key, value = op.MatMul(normal, w_key), op.MatMul(normal, w_value)
    y, keys, values = op.Attention(
        query, key, value, mask, past_key, past_value, q_num_heads=4, kv_num_heads=2
    )
    return x + op.MatMul(y, w_out), keys, values


# ---- the composed form -------------------------------------------------------------------------------


@script(default_opset=op)
def composed_rms(x, gamma):
    two, last = op.Constant(value_float=2.0), op.Constant(value_ints=[-1])
    length = op.Sqrt(op.ReduceMean(op.Pow(x, two), last, keepdims=1) + 0.00001)
    return op.Div(x, length) * gamma


@script(default_opset=op)
def split_heads(x, count):
    shape = op.Shape(x)
    batch = op.Unsqueeze(op.Gather(shape, op.Constant(value_int=0)), op.Constant(value_ints=[0]))
    length = op.Unsqueeze(op.Gather(shape, op.Constant(value_int=1)), op.Constant(value_ints=[0]))
    apart = op.Reshape(x, op.Concat(batch, length, count, op.Constant(value_ints=[-1]), axis=0))
    return op.Transpose(apart, perm=[0, 2, 1, 3])


@script(default_opset=op)
def turned(x, cos, sin):
    size = op.Shape(x, start=3)
    half = op.Div(size, op.Constant(value_ints=[2]))
    zero, last = op.Constant(value_ints=[0]), op.Constant(value_ints=[3])
    first, second = op.Slice(x, zero, half, last), op.Slice(x, half, size, last)
    one = op.Constant(value_ints=[1])
    cosines = op.Unsqueeze(op.Concat(cos, cos, axis=-1), one)
    sines = op.Unsqueeze(op.Concat(sin, sin, axis=-1), one)
    return x * cosines + op.Concat(op.Neg(second), first, axis=-1) * sines


@script(default_opset=op)
def repeated(x):
    shape = op.Shape(x)
    front, back = op.Shape(x, start=0, end=2), op.Shape(x, start=2)
    copies = op.Constant(value_ints=[2])
    wide = op.Expand(op.Unsqueeze(x, copies), op.Concat(front, copies, back, axis=0))
    batch = op.Unsqueeze(op.Gather(shape, op.Constant(value_int=0)), op.Constant(value_ints=[0]))
    return op.Reshape(wide, op.Concat(batch, op.Constant(value_ints=[-1]), back, axis=0))


@script(default_opset=op)
def attended(query, key, value, mask):
    size = op.CastLike(op.Shape(query, start=3), query)
    scores = op.Div(op.MatMul(query, op.Transpose(repeated(key), perm=[0, 1, 3, 2])), op.Sqrt(size))
    low = op.CastLike(op.Constant(value_float=-1e30), scores)
    y = op.MatMul(op.Softmax(op.Where(mask, scores, low), axis=-1), repeated(value))
    flat = op.Transpose(y, perm=[0, 2, 1, 3])
    shape = op.Concat(op.Shape(flat, start=0, end=2), op.Constant(value_ints=[-1]), axis=0)
    return op.Reshape(flat, shape)


@script(default_opset=op)
def composed_causal(x, cos, sin, gamma, w_query, b_query, w_key, w_value, w_out):
    normal = composed_rms(x, gamma)
    heads, shared = op.Constant(value_ints=[4]), op.Constant(value_ints=[2])
    query = turned(split_heads(op.MatMul(normal, w_query) + b_query, heads), cos, sin)
    key = turned(split_heads(op.MatMul(normal, w_key), shared), cos, sin)
    value = split_heads(op.MatMul(normal, w_value), shared)
    length = op.Gather(op.Shape(x), op.Constant(value_int=1))
    steps = op.Range(op.Constant(value_int=0), length, op.Constant(value_int=1))
    mask = op.LessOrEqual(steps, op.Unsqueeze(steps, op.Constant(value_ints=[1])))
    return x + op.MatMul(attended(query, key, value, mask), w_out)


@script(default_opset=op)
def composed_masked(x, mask, gamma, w_query, b_query, w_key, w_value, w_out):
    normal = composed_rms(x, gamma)
    heads, shared = op.Constant(value_ints=[4]), op.Constant(value_ints=[2])
    query = split_heads(op.MatMul(normal, w_query) + b_query, heads)
    key = split_heads(op.MatMul(normal, w_key), shared)
    value = split_heads(op.MatMul(normal, w_value), shared)
    return x + op.MatMul(attended(query, key, value, mask), w_out)


@script(default_opset=op)
def composed_cached(x, mask, past_key, past_value, gamma, w_query, b_query, w_key, w_value, w_out):
    normal = composed_rms(x, gamma)
    heads, shared = op.Constant(value_ints=[4]), op.Constant(value_ints=[2])
    query = split_heads(op.MatMul(normal, w_query) + b_query, heads)
    key = op.Concat(past_key, split_heads(op.MatMul(normal, w_key), shared), axis=2)
    value = op.Concat(past_value, split_heads(op.MatMul(normal, w_value), shared), axis=2)
    return x + op.MatMul(attended(query, key, value, mask), w_out), key, value


# ---- models ------------------------------------------------------------------------------------------

_FORMS = {
    ("fused", "causal"): fused_causal,
    ("fused", "masked"): fused_masked,
    ("fused", "cached"): fused_cached,
    ("composed", "causal"): composed_causal,
    ("composed", "masked"): composed_masked,
    ("composed", "cached"): composed_cached,
}
_ATTENTION, _INNER = list(LAYER)[:6], list(LAYER)[6:]
_EXTRAS = {"causal": ["cos", "sin"], "masked": ["mask"], "cached": ["mask", "past_key", "past_value"]}

BATCH, LENGTH, PAST = 2, 5, 3
"""Sizes of `decoder_input`; in the model they are symbols."""


def decoder_weights(layers: int) -> dict[str, np.ndarray]:
    """Random weights of some layers."""
    rng = np.random.default_rng(3)
    return {
        f"{name}_{layer}": (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)
        for layer in range(layers)
        for name, shape in LAYER.items()
    }


def decoder_input(kind: str, layers: int) -> dict[str, np.ndarray]:
    """Inputs of one kind of decoder: causal, with rotary positions; masked; or masked with a cache."""
    rng = np.random.default_rng(4)
    inputs = {"x": rng.normal(size=(BATCH, LENGTH, WIDTH)).astype(np.float32)}
    angles = np.arange(LENGTH)[:, None] * np.array([1.0, 0.1])
    if kind == "causal":
        tables = {"cos": np.cos(angles), "sin": np.sin(angles)}
        return inputs | {k: np.stack([v] * BATCH).astype(np.float32) for k, v in tables.items()}
    past = PAST if kind == "cached" else 0
    mask = np.tril(np.ones((LENGTH, past + LENGTH), np.bool_), past)[None, None].repeat(BATCH, 0)
    mask[1, :, 1:, 0] = False  # the second sequence begins later
    inputs["mask"] = mask
    for layer in range(layers if past else 0):
        for name in ("past_key", "past_value"):
            cache = rng.normal(size=(BATCH, SHARED, PAST, SIZE)).astype(np.float32)
            inputs[f"{name}_{layer}"] = cache
    return inputs


def decoder(form: str, kind: str, layers: int = 2) -> onnx.ModelProto:
    """A decoder, fused or composed, with symbols for batch and lengths; its weights are initializers."""
    block = _FORMS[form, kind]
    inputs = decoder_input(kind, layers)
    symbols = {"x": ["B", "S", WIDTH], "mask": ["B", 1, "S", "T"]}
    infos = []
    for name, array in inputs.items():
        dims = symbols.get(name, ["B", SHARED, "P", SIZE] if "past" in name else ["B", "S", SIZE // 2])
        infos.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), dims))
    nodes, value = [], "x"
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["B", "S", WIDTH])]
    for layer in range(layers):
        extras = [f"{name}_{layer}" if "past" in name else name for name in _EXTRAS[kind]]
        weights = [f"{name}_{layer}" for name in _ATTENTION]
        given = [f"mixed_{layer}"]
        if kind == "cached":
            given += [f"present_key_{layer}", f"present_value_{layer}"]
            outputs += [
                helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["B", SHARED, "T", SIZE])
                for name in given[1:]
            ]
        nodes.append(helper.make_node(block.name, [value, *extras, *weights], given, domain="this"))
        value = "y" if layer == layers - 1 else f"hidden_{layer}"
        inner = [f"{name}_{layer}" for name in _INNER]
        nodes.append(helper.make_node(gated.name, [f"mixed_{layer}", *inner], [value], domain="this"))
    graph = helper.make_graph(
        nodes,
        "decoder",
        infos,
        outputs,
        [numpy_helper.from_array(array, name) for name, array in decoder_weights(layers).items()],
    )
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("this", 1)]
    functions = [*block.to_model_proto().functions, block.to_function_proto(), gated.to_function_proto()]
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=11)
