"""What the fused attentions have in common: heads, masks, scores and their softmax.

Letters of shapes: b batch, n heads, g key-value heads, s queries, l new keys, t all keys (past and new), h
size of a head.
"""

from __future__ import annotations

import onnx_ir

from netgrad.onnx.fused.definition import Writer


def split_heads(w: Writer, x: str, heads: int) -> str:
    """Write x[b, s, n h] as [b, n, s, h]."""
    return w.op("Transpose", w.op("Reshape", x, w.ints(0, 0, heads, -1)), perm=[0, 2, 1, 3])


def merge_heads(w: Writer, x: str, to: str) -> None:
    """Write x[b, n, s, h] as ``to``[b, s, n h]."""
    w.op("Reshape", w.op("Transpose", x, perm=[0, 2, 1, 3]), w.ints(0, 0, -1), to=to)


def count(w: Writer, length: str) -> str:
    """Write 0, 1, 2, ... below ``length``, an int64 in one axis; gives the name."""
    zero, one = (w.op("Constant", value_int=value) for value in (0, 1))
    return w.op("Range", zero, w.op("Squeeze", length), one)


def lowest(w: Writer, like: str) -> str:
    """Write a number below every score; its exponential is zero, and it is finite in every type."""
    return w.number(-6e4 if w.dtype(0) == onnx_ir.DataType.FLOAT16 else -1e30, like)


def scaled_scores(w: Writer, q: str, k: str, groups: int = 1) -> str:
    """Write q k^T scaled, [b, n, s, t], for q[b, n, s, h] and k[b, n / groups, t, h].

    The scale is the node's attribute of that name, or 1 / sqrt(h) where it is 0 or absent.
    """
    scale = float(w.attribute("scale", 0.0))
    if scale:
        factor = w.number(scale, q)
    else:
        factor = w.op("Reciprocal", w.op("Sqrt", w.op("CastLike", w.size(q, 3), q)))
    q = w.op("Mul", q, factor)
    keys = w.op("Transpose", k, perm=[0, 1, 3, 2])
    if groups == 1:
        return w.op("MatMul", q, keys)
    # The queries of all heads that share keys stand below each other: one product, and no key is copied.
    product = w.op("MatMul", _regrouped(w, q, w.size(k, 1), w.size(q, 3)), keys)
    return _regrouped(w, product, w.size(q, 1), w.size(k, 2))


def weighted_values(w: Writer, weights: str, v: str, groups: int = 1) -> str:
    """Write weights[b, n, s, t] v[b, n / groups, t, h], [b, n, s, h]."""
    if groups == 1:
        return w.op("MatMul", weights, v)
    product = w.op("MatMul", _regrouped(w, weights, w.size(v, 1), w.size(v, 2)), v)
    return _regrouped(w, product, w.size(weights, 1), w.size(v, 3))


def _regrouped(w: Writer, x: str, heads: str, width: str) -> str:
    """Write x[b, n, s, h] as [b, heads, n s / heads, width]."""
    return w.op("Reshape", x, w.op("Concat", w.ints(0), heads, w.ints(-1), width, axis=0))


def mask_bias(w: Writer, mask: str, rank: int, scores: str) -> str:
    """Write what a mask adds to the scores[b, n, s, t]: 0, or ``mask_filter_value`` where it hides a key.

    The mask is an integer tensor of one of these forms, by its rank:

    1. the number of keys that count in each sequence, [b]; or their ends and after them their starts, [2 b];
       or [3 b + 2], of which the first b numbers are as in [b];
    2. 1 for keys that count, 0 for others, [b, t];
    3. the same, [b, s, t];
    4. the same for the longest sequence, [b, 1, m, m], of which the last s of the first t rows are used.
    """
    value = float(w.attribute("mask_filter_value", -10000.0))
    if rank == 1:
        keys = w.op("Unsqueeze", count(w, w.size(scores, 3)), w.ints(0))
        batch, zero = w.size(scores, 0), w.ints(0)
        whole = w.cast(mask, onnx_ir.DataType.INT64)
        ends = w.op("Unsqueeze", w.op("Slice", whole, zero, batch), w.ints(1))
        keep = w.op("Less", keys, ends)
        twice = w.op("Mul", batch, w.ints(2))
        # zeros behind the mask: the starts where it gives none
        longer = w.op("Concat", whole, w.op("Expand", zero, batch), axis=0)
        has_starts = w.cast(w.op("Equal", w.op("Shape", whole), twice), onnx_ir.DataType.INT64)
        starts = w.op("Mul", w.op("Slice", longer, batch, twice), has_starts)
        keep = w.op("And", keep, w.op("GreaterOrEqual", keys, w.op("Unsqueeze", starts, w.ints(1))))
        keep = w.op("Unsqueeze", keep, w.ints(1, 2))
    else:
        keep = w.op("Greater", mask, w.op("CastLike", w.op("Constant", value_int=0), mask))
        if rank == 2:
            keep = w.op("Unsqueeze", keep, w.ints(1, 2))
        elif rank == 3:
            keep = w.op("Unsqueeze", keep, w.ints(1))
        else:
            total = w.size(scores, 3)
            first = w.op("Sub", total, w.size(scores, 2))
            start, end = (w.op("Concat", a, b, axis=0) for a, b in ((first, w.ints(0)), (total, total)))
            keep = w.op("Slice", keep, start, end, w.ints(2, 3))
    return w.op("Where", keep, w.number(0.0, scores), w.number(value, scores))


def past_only(w: Writer, scores: str, past: str | None, hidden: str) -> str:
    """Write the scores[b, n, s, t] with ``hidden`` for later keys: query i sees the keys up to past + i.

    A single query sees all, as in the kernel. ``past`` is an int64 in one axis, None for no past.
    """
    rows = w.op("Unsqueeze", count(w, w.size(scores, 2)), w.ints(1))
    if past is not None:
        rows = w.op("Add", rows, past)
    seen = w.op("LessOrEqual", count(w, w.size(scores, 3)), rows)
    seen = w.op("Or", seen, w.op("Equal", w.size(scores, 2), w.ints(1)))
    return w.op("Where", seen, scores, hidden)
