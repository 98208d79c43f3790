"""Attention and MultiHeadAttention. Letters of shapes: see `scores`."""

from __future__ import annotations

import onnx_ir

from netgrad.onnx.fused.definition import Writer, fused
from netgrad.onnx.fused.quantized import integer_product
from netgrad.onnx.fused.scores import (
    count,
    lowest,
    mask_bias,
    merge_heads,
    past_only,
    scaled_scores,
    split_heads,
    weighted_values,
)

_INT64 = onnx_ir.DataType.INT64
_HIDDEN = -3.4028234663852886e38  # the score that the kernel gives for a key that a query must not see


@fused(
    "Attention",
    inputs="x weights bias mask past attention_bias past_length",
    outputs="y present",
    attributes="""do_rotary mask_filter_value num_heads past_present_share_buffer qkv_hidden_sizes
        rotary_embedding_dim scale unidirectional""",
)
def attention(w: Writer) -> None:
    """Y = softmax(Q K^T scale + masks) V by heads, where Q, K, V are the parts of X W + bias.

    ``past`` and ``present`` are keys and values, [2, b, n, t, h].
    """
    w.refuse_attributes(do_rotary=0, past_present_share_buffer=0)
    w.refuse_inputs(past_sequence_length=6)
    product = w.op("MatMul", "x", "weights")
    total = w.op("Add", product, "bias") if w.has(2) else product
    _of_itself(w, total, mask=3, past_index=4, bias=5)


@fused(
    "QAttention",
    inputs="x weights bias x_scale w_scale mask x_zero w_zero past",
    outputs="y present",
    attributes="""do_rotary mask_filter_value num_heads past_present_share_buffer scale
        unidirectional""",
)
def quantized_attention(w: Writer) -> None:
    """Y as of Attention, where X W is x_scale w_scale (X - x_zero) (W - w_zero), of integers."""
    w.refuse_attributes(do_rotary=0, past_present_share_buffer=0)
    product = integer_product(
        w,
        ("x", "x_zero" if w.has(6) else ""),
        ("weights", "w_zero" if w.has(7) else ""),
        w.op("Mul", "x_scale", "w_scale"),
    )
    _of_itself(w, w.op("Add", product, "bias"), mask=5, past_index=8, bias=None)


def _of_itself(w: Writer, total: str, *, mask: int, past_index: int, bias: int | None) -> None:
    """Write what Attention makes of queries, keys and values side by side, ``total``[b, s, 3 n h]."""
    heads = int(w.attribute("num_heads"))
    sizes = w.attribute("qkv_hidden_sizes")
    parts = ("q_flat", "k_flat", "v_flat")
    if sizes:
        w.ops("Split", total, w.ints(*sizes), to=parts, axis=-1)
    else:
        w.ops("Split", total, to=parts, axis=-1, num_outputs=3)
    q, k, v = (split_heads(w, part, heads) for part in parts)
    past = None
    if w.has(past_index):
        past = w.size("past", 3)
        k, v = (
            w.op("Concat", w.op("Gather", "past", w.op("Constant", value_int=index), axis=0), new, axis=2)
            for index, new in enumerate((k, v))
        )
    if len(w.node.outputs) > 1:
        w.op("Concat", w.op("Unsqueeze", k, w.ints(0)), w.op("Unsqueeze", v, w.ints(0)), axis=0, to="present")
    _attend(w, q, k, v, mask=mask, bias=bias, past=past)


@fused(
    "MultiHeadAttention",
    inputs="""query key value bias mask attention_bias past_key past_value past_length
        cache_indirection""",
    outputs="y present_key present_value scores",
    attributes="mask_filter_value num_heads scale unidirectional",
)
def multi_head_attention(w: Writer) -> None:
    """Y = softmax(Q K^T scale + masks) V by heads, where the bias is added to query, key and value.

    The query is [b, s, n h] with keys and values [b, l, n h] or [b, n, l, h] (these get no bias); or keys and
    values are packed in the key, [b, l, n, 2, h]; or all three in the query, [b, s, n, 3, h]. The past stands
    before them; or, with ``past_length``, the past is a buffer in which they take the places behind so many.
    With ``cache_indirection`` [b / beams, beams, places], a sequence reads each place of the past from one of
    the beams of its group. The scores that the node gives are those before the softmax.
    """
    heads = int(w.attribute("num_heads"))
    q, k, v = _parts(w, heads)
    past = None
    if w.has(6) != w.has(7):
        raise w.refused("it has one of past_key and past_value")
    if w.has(8) and not w.has(6):
        raise w.refused("it has past_sequence_length without a past")
    if w.has(9) and not w.has(8):
        raise w.refused("it has cache_indirection without past_sequence_length")
    if w.has(8):
        past = w.op("Reshape", w.cast("past_length", _INT64), w.ints(1))
        k, v = (_put(w, buffer, new, past) for buffer, new in (("past_key", k), ("past_value", v)))
    elif w.has(6):
        past = w.size("past_key", 2)
        k, v = w.op("Concat", "past_key", k, axis=2), w.op("Concat", "past_value", v, axis=2)
    for index, (name, state) in enumerate((("present_key", k), ("present_value", v)), 1):
        if index < len(w.node.outputs):
            w.op("Identity", state, to=name)
    if w.has(8) and past is not None:
        total = w.op("Add", past, w.size(q, 2))
        k, v = (w.op("Slice", part, w.ints(0), total, w.ints(2)) for part in (k, v))
        if w.has(9):
            k, v = (_of_beams(w, part, past, total) for part in (k, v))
    _attend(w, q, k, v, mask=4, bias=5, past=past, shown="scores" if w.used(3) else None)


def _put(w: Writer, buffer: str, new: str, past: str) -> str:
    """Write buffer[b, n, p, h] with new[b, n, l, h] in the places from ``past`` on."""
    end, axis = w.op("Add", past, w.size(new, 2)), w.ints(2)
    before = w.op("Slice", buffer, w.ints(0), past, axis)
    return w.op("Concat", before, new, w.op("Slice", buffer, end, w.ints(2**62), axis), axis=2)


def _of_beams(w: Writer, state: str, past: str, total: str) -> str:
    """Write state[b, n, t, h] with the places before ``past`` from the beams that cache_indirection names."""
    beams = w.cast(w.op("Slice", "cache_indirection", w.ints(0), total, w.ints(2)), _INT64)
    own = w.op("Unsqueeze", count(w, w.size(beams, 1)), w.ints(0, 2))
    beams = w.op("Where", w.op("Less", count(w, total), past), beams, own)
    # [b, t, n, h] as [groups, beams, t, n h]
    rows = w.op("Transpose", state, perm=[0, 2, 1, 3])
    shape = w.op("Concat", w.op("Shape", beams, end=2), w.op("Shape", rows, start=1), axis=0)
    grouped = w.op("Reshape", rows, shape)
    index = w.op("Expand", w.op("Unsqueeze", beams, w.ints(3, 4)), shape)
    picked = w.op("GatherElements", grouped, index, axis=1)
    return w.op("Transpose", w.op("Reshape", picked, w.op("Shape", rows)), perm=[0, 2, 1, 3])


def _parts(w: Writer, heads: int) -> tuple[str, str, str]:
    """Write query, key and value, with the bias added, as [b, n, s, h]."""
    if not w.has(1):
        if w.has(2):
            raise w.refused("it has a value, but no key")
        if w.rank(0) != 5:
            raise w.refused(f"it has no key, and its query has {w.rank(0)} axes, not the 5 of a packed one")
        packed = "query"
        if w.has(3):
            by_part = w.op("Reshape", "bias", w.ints(3, heads, -1))
            packed = w.op("Add", packed, w.op("Transpose", by_part, perm=[1, 0, 2]))
        q, k, v = _unpacked(w, packed, 3)
        return q, k, v
    if not w.has(2):
        if w.rank(1) != 5:
            raise w.refused(f"it has no value, and its key has {w.rank(1)} axes, not the 5 of a packed one")
        if w.has(3):
            raise w.refused("it has a bias for packed keys and values")
        k, v = _unpacked(w, "key", 2)
        return split_heads(w, "query", heads), k, v
    ranks = w.rank(1), w.rank(2)
    if ranks == (4, 4):
        query = "query"
        if w.has(3):
            query = w.op("Add", query, w.op("Slice", "bias", w.ints(0), w.size("query", 2)))
        return split_heads(w, query, heads), "key", "value"
    if ranks != (3, 3):
        raise w.refused(f"its key and its value have {ranks[0]} and {ranks[1]} axes")
    flat = ["query", "key", "value"]
    if w.has(3):
        width, zero = w.size("query", 2), w.ints(0)
        twice = w.op("Mul", width, w.ints(2))
        bounds = ((zero, width), (width, twice), (twice, w.ints(2**62)))
        flat = [
            w.op("Add", part, w.op("Slice", "bias", *bound)) for part, bound in zip(flat, bounds, strict=True)
        ]
    q, k, v = (split_heads(w, part, heads) for part in flat)
    return q, k, v


def _unpacked(w: Writer, packed: str, parts: int) -> list[str]:
    """Write the parts of packed[b, s, n, parts, h], each as [b, n, s, h]."""
    picked = (w.op("Gather", packed, w.op("Constant", value_int=part), axis=3) for part in range(parts))
    return [w.op("Transpose", part, perm=[0, 2, 1, 3]) for part in picked]


def _attend(
    w: Writer,
    q: str,
    k: str,
    v: str,
    *,
    mask: int,
    bias: int | None,
    past: str | None,
    shown: str | None = None,
) -> None:
    scores = scaled_scores(w, q, k)
    if bias is not None and w.has(bias):
        scores = w.op("Add", scores, "attention_bias")
    if w.has(mask):
        scores = w.op("Add", scores, mask_bias(w, "mask", w.rank(mask), scores))
    if w.attribute("unidirectional", 0):
        hidden = lowest(w, scores) if shown is None else w.number(_HIDDEN, scores)
        scores = past_only(w, scores, past, hidden)
    if shown is not None:
        w.op("Identity", scores, to=shown)
    merge_heads(w, weighted_values(w, w.op("Softmax", scores, axis=-1), v), "y")
