"""GroupQueryAttention: heads of queries share keys, which a cache of fixed length may hold."""

from __future__ import annotations

import onnx_ir

from netgrad.onnx.fused.definition import Writer, fused
from netgrad.onnx.fused.norms import rms_norm
from netgrad.onnx.fused.rotary import rotated
from netgrad.onnx.fused.scores import (
    count,
    lowest,
    merge_heads,
    scaled_scores,
    split_heads,
    weighted_values,
)

_INT64 = onnx_ir.DataType.INT64


@fused(
    "GroupQueryAttention",
    inputs="""query key value past_key past_value lengths total cosines sines positions
        attention_bias sink k_scale v_scale q_norm k_norm query_lengths""",
    outputs="y present_key present_value scores",
    attributes="""causal do_rotary k_norm_epsilon k_quant_type kv_cache_bit_width kv_num_heads
        local_window_size num_heads q_norm_epsilon qk_norm_epsilon qk_output rotary_interleaved scale
        sliding_window_cache smooth_softmax softcap v_quant_type""",
)
def group_query_attention(w: Writer) -> None:
    """Y = softmax(Q K^T scale) V by heads, where several heads of Q share one of K and V.

    Letters are those of `scores`. The query is [b, s, n h] with key and value [b, s, g h], or all in one
    along the last axis. After the node, sequence i has T = lengths[i] + 1 keys. The last min(s, T) of these
    are new, the first of the rows given; before them stand the first rows of the past, [b, g, p, h]. The
    present, [b, g, max(total, p), h], is zero behind the rows given. A query sees the keys up to that of its
    own row, of these only the last ``local_window_size``, where that is given. The scores that the node gives
    are those before (``qk_output`` = 1) or after the softmax (2), [b, n, s, total], zero for keys unseen.
    """
    w.refuse_attributes(
        k_quant_type="NONE", v_quant_type="NONE", kv_cache_bit_width=0, sliding_window_cache=0
    )
    window = int(w.attribute("local_window_size", -1))
    if window == 0 or (window > 0 and not w.attribute("causal", 1)):
        raise w.refused(f"its window of {window} keys is not understood")
    w.refuse_inputs(k_scale=12, v_scale=13, query_seqlens=16)
    shown = int(w.attribute("qk_output", 0))
    if shown not in (1, 2):
        w.refuse_outputs(output_qk=3)
    if w.has(3) != w.has(4):
        raise w.refused("it has one of past_key and past_value")
    heads, kv_heads = int(w.attribute("num_heads")), int(w.attribute("kv_num_heads"))
    q, k, v = _parts(w, heads, kv_heads)
    lengths = w.op("Add", w.op("Reshape", w.cast("lengths", _INT64), w.ints(-1, 1)), w.ints(1))  # [b, 1]
    steps = count(w, w.size(q, 2))
    past = w.op("Max", w.op("Sub", lengths, w.size(q, 2)), w.ints(0))
    rows = w.op("Add", past, steps)  # [b, s], the row of each query
    if w.has(14) or w.has(15):
        q, k = _normalized(w, q, k)
    if w.attribute("do_rotary", 0):
        q, k = _turned(w, q, k, _positions(w, steps) if w.has(9) else rows)
    if w.has(3):
        k, v = (_joined(w, old, new, past) for old, new in (("past_key", k), ("past_value", v)))
    for index, (name, state) in enumerate((("present_key", k), ("present_value", v)), 1):
        if index < len(w.node.outputs):
            w.op("Identity", state, to=name)
    groups = heads // kv_heads
    scores = scaled_scores(w, q, k, groups)
    softcap = float(w.attribute("softcap", 0.0))
    if softcap > 0:
        cap = w.number(softcap, scores)
        scores = w.op("Mul", w.op("Tanh", w.op("Div", scores, cap)), cap)
    if w.has(10):
        scores = w.op("Add", scores, "attention_bias")
    seen = _seen(w, scores, rows, lengths)
    weights = _softmax(w, w.op("Where", seen, scores, lowest(w, scores)))
    if window > 0:  # a row behind the end of its sequence may see nothing
        weights = _unless_hidden(w, seen, weights)
    if w.used(3):
        given = _unless_hidden(w, seen, scores if shown == 1 else weights)
        total = w.op("Reshape", w.cast("total", _INT64), w.ints(1))
        w.op("Slice", given, w.ints(0), total, w.ints(3), to="scores")
    merge_heads(w, weighted_values(w, weights, v, groups), "y")


def _parts(w: Writer, heads: int, kv_heads: int) -> tuple[str, str, str]:
    """Write query [b, n, s, h], key and value [b, g, s, h]."""
    if w.has(1) != w.has(2):
        raise w.refused("it has one of key and value")
    if w.has(1):
        if any(w.rank(index) != 3 for index in (1, 2)):
            raise w.refused("its key and its value are not of three axes")
        q = split_heads(w, "query", heads)
        return q, split_heads(w, "key", kv_heads), split_heads(w, "value", kv_heads)
    packed = split_heads(w, "query", heads + 2 * kv_heads)
    w.ops("Split", packed, w.ints(heads, kv_heads, kv_heads), to=("q", "k", "v"), axis=1)
    return "q", "k", "v"


def _normalized(w: Writer, q: str, k: str) -> tuple[str, str]:
    """Write the RMS normalization of each head of queries and keys."""
    if not (w.has(14) and w.has(15)):
        raise w.refused("it has one of q_norm_weight and k_norm_weight")
    both = w.attribute("qk_norm_epsilon", 1e-6)
    q, _ = rms_norm(w, q, "q_norm", [-1], w.attribute("q_norm_epsilon", both))
    k, _ = rms_norm(w, k, "k_norm", [-1], w.attribute("k_norm_epsilon", both))
    return q, k


def _positions(w: Writer, steps: str) -> str:
    """Write the positions that are given, [b, s]; of a first prompt only the first of all counts."""
    first = w.op("Slice", w.op("Reshape", "positions", w.ints(-1)), w.ints(0), w.ints(1))
    is_prompt = w.op("Equal", w.size("positions", 1), w.cast("total", _INT64))
    return w.op("Where", is_prompt, w.op("Add", first, steps), "positions")


def _turned(w: Writer, q: str, k: str, positions: str) -> tuple[str, str]:
    """Write queries and keys turned by their positions."""
    if not (w.has(7) and w.has(8)):
        raise w.refused("it has do_rotary = 1 without cos_cache and sin_cache")
    interleaved = bool(w.attribute("rotary_interleaved", 0))
    q, k = (rotated(w, x, positions, "cosines", "sines", rest=True, interleaved=interleaved) for x in (q, k))
    return q, k


def _joined(w: Writer, old: str, new: str, past: str) -> str:
    """Write the present[b, g, max(total, p), h]: of each sequence ``past`` old rows, the new ones, zeros."""
    total = w.op("Reshape", w.cast("total", _INT64), w.ints(1))
    before, width = w.size(old, 2), w.size(new, 2)
    rows = w.op("Unsqueeze", count(w, w.op("Max", total, before)), w.ints(0))
    one = w.ints(1)
    zeros = w.op(
        "Expand",
        w.number(0.0, new),
        w.op("Concat", w.size(new, 0), w.size(new, 1), one, w.size(new, 3), axis=0),
    )
    source = w.op("Concat", old, new, zeros, axis=2)
    shifted = w.op("Add", w.op("Sub", rows, past), before)  # where a new row stands in the source
    row = w.op("Where", w.op("Less", rows, past), rows, shifted)
    row = w.op("Where", w.op("Less", rows, w.op("Add", past, width)), row, w.op("Add", before, width))
    row = w.op("Unsqueeze", row, w.ints(1, 3))
    shape = w.op("Concat", w.size(new, 0), w.size(new, 1), w.ints(1), w.size(new, 3), axis=0)
    return w.op("GatherElements", source, w.op("Expand", row, shape), axis=2)


def _seen(w: Writer, scores: str, rows: str, lengths: str) -> str:
    """Write which keys a query sees, [b, 1, s, t]; none behind the end of its sequence."""
    keys = count(w, w.size(scores, 3))
    seen = w.op("Less", keys, w.op("Unsqueeze", lengths, w.ints(2)))
    if w.attribute("causal", 1):
        ends = w.op("Unsqueeze", rows, w.ints(2))
        seen = w.op("And", seen, w.op("LessOrEqual", keys, ends))
        window = int(w.attribute("local_window_size", -1))
        if window >= 0:
            if not _in_tiles(w):
                ends = w.op("Min", ends, w.op("Sub", w.op("Unsqueeze", lengths, w.ints(2)), w.ints(1)))
            seen = w.op("And", seen, w.op("Greater", keys, w.op("Sub", ends, w.ints(window))))
    return w.op("Unsqueeze", seen, w.ints(1))


def _in_tiles(w: Writer) -> bool:
    """Whether the kernel goes over tiles of keys; it then does not move the window of rows behind the end."""
    plain = not (w.attribute("softcap", 0.0) or w.attribute("smooth_softmax", 0))
    return plain and not (w.has(11) or w.used(3))


def _unless_hidden(w: Writer, seen: str, x: str) -> str:
    """Write x[b, n, s, t] with zeros for keys that a query does not see."""
    return w.op("Where", seen, x, w.number(0.0, x))


def _softmax(w: Writer, scores: str) -> str:
    """Write the softmax; a sink is one more score of each head, whose weight is dropped."""
    if w.has(11):
        column = w.op("Reshape", "sink", w.ints(1, -1, 1, 1))
    elif w.attribute("smooth_softmax", 0) == 1:
        column = w.number(0.0, scores)
    else:
        return w.op("Softmax", scores, axis=-1)
    keys, zero, axis = w.size(scores, 3), w.ints(0), w.ints(-1)
    shape = w.op("Concat", w.op("Shape", scores, end=3), w.ints(1), axis=0)
    weights = w.op("Softmax", w.op("Concat", scores, w.op("Expand", column, shape), axis=-1), axis=-1)
    return w.op("Slice", weights, zero, keys, axis)
