"""Shapes of what Attention gives; the standard's own inference takes every unknown dim for 0."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir

from netgrad.onnx.edit import all_graphs

_Dim = int | str | None


def is_attention(domain: str, op_type: str) -> bool:
    """Whether an operator is the standard's Attention."""
    return domain in ("", "ai.onnx") and op_type == "Attention"


def imply_attention_shapes(model: onnx_ir.Model) -> bool:
    """Give the outputs of Attention, in place, the type and the dims that follow from its inputs.

    With B the batch, L the lengths, H the heads and E the sizes of a head of queries, keys and values:
    queries are (B, Hq, Lq, Ek) or (B, Lq, Hq Ek), Y is (B, Hq, Lq, Ev) or (B, Lq, Hq Ev), the present keys
    and values are (B, Hkv, Lpast + Lk, E), and the scores (B, Hq, Lq, Lpast + Lk).

    Returns:
        Whether anything became known.
    """
    changed = False
    for graph in all_graphs(model):
        for node in graph:
            if not is_attention(node.domain, node.op_type):
                continue
            query = node.inputs[0]
            for output, dims in zip(node.outputs, _shapes(node), strict=False):
                if query is not None and output.type is None and query.type is not None:
                    output.type, changed = query.type, True
                changed |= _refine(output, dims)
    return changed


def _refine(value: onnx_ir.Value, dims: Sequence[_Dim] | None) -> bool:
    if dims is None:
        return False
    old = _dims(value)
    if old is not None and len(old) == len(dims):
        dims = [new if new is not None else was for new, was in zip(dims, old, strict=True)]
    if old == dims:
        return False
    value.shape = onnx_ir.Shape(dims)
    return True


def _dims(value: onnx_ir.Value | None) -> list[_Dim] | None:
    if value is None or value.shape is None:
        return None
    return [dim if isinstance(dim, int) else dim.value for dim in value.shape]


def _shapes(node: onnx_ir.Node) -> list[list[_Dim] | None]:
    """The dims of Y, present keys, present values and scores; None where not even the rank is known."""
    inputs = [*node.inputs, *[None] * 6]
    query, key, value = (_dims(inputs[k]) for k in range(3))
    if query is None or len(query) not in (3, 4):
        return []
    batch, apart = query[0], len(query) == 4
    unknown: list[_Dim] = [None] * len(query)
    key, value = key or unknown, value or unknown
    if apart:
        heads, length = query[1], query[2]
        own_heads, own_length = key[1], key[2]
        key_size, value_size = key[3], value[3]
    else:
        heads, own_heads = (_heads(node, name) for name in ("q_num_heads", "kv_num_heads"))
        length, own_length = query[1], key[1]
        key_size, value_size = _quotient(key[2], own_heads), _quotient(value[2], own_heads)
    total = own_length
    if inputs[4] is not None:
        past = _dims(inputs[4])
        before = past[2] if past is not None and len(past) == 4 else None
        total = before + own_length if isinstance(before, int) and isinstance(own_length, int) else None
    joined = heads * value_size if isinstance(heads, int) and isinstance(value_size, int) else None
    return [
        [batch, heads, length, value_size] if apart else [batch, length, joined],
        [batch, own_heads, total, key_size],
        [batch, own_heads, total, value_size],
        [batch, heads, length, total],
    ]


def _heads(node: onnx_ir.Node, name: str) -> int | None:
    attribute = node.attributes.get(name)
    return None if attribute is None or attribute.is_ref() else attribute.as_int()


def _quotient(size: _Dim, parts: _Dim) -> int | None:
    return size // parts if isinstance(size, int) and isinstance(parts, int) and parts else None
