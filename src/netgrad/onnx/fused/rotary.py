"""Rotary position embedding: pairs of channels turned by an angle that grows with the position."""

from __future__ import annotations

import onnx_ir

from netgrad.onnx.fused.definition import Writer, fused
from netgrad.onnx.fused.scores import count


@fused(
    "RotaryEmbedding",
    inputs="x positions cosines sines",
    attributes="interleaved is_packed_batching num_heads rotary_embedding_dim scale",
)
def rotary_embedding(w: Writer) -> None:
    """Y = X with the first 2 r channels of each head turned; the caches are [positions, r].

    X is [batch, sequence, heads * size] or [batch, heads, sequence, size]. The positions are [batch,
    sequence], or one number: the position of the first element.
    """
    w.refuse_attributes(is_packed_batching=0, scale=1.0)
    flat = w.rank(0) == 3
    x = w.op("Transpose", _heads(w), perm=[0, 2, 1, 3]) if flat else "x"
    positions = w.cast("positions", onnx_ir.DataType.INT64)
    if w.rank(1) == 1:
        scalar = w.op("Squeeze", positions)
        positions = w.op("Unsqueeze", w.op("Add", count(w, w.size(x, 2)), scalar), w.ints(0))
    turned = rotated(w, x, positions, "cosines", "sines", rest=_rest(w, flat))
    if flat:
        w.op("Reshape", w.op("Transpose", turned, perm=[0, 2, 1, 3]), w.op("Shape", "x"), to="y")
    else:
        w.op("Identity", turned, to="y")


def _heads(w: Writer) -> str:
    """Write X as [batch, sequence, heads, size]."""
    heads = int(w.attribute("num_heads", 0))
    if heads > 0:
        return w.op("Reshape", "x", w.ints(0, 0, heads, -1))
    if w.attribute("rotary_embedding_dim", 0):
        raise w.refused("it gives rotary_embedding_dim without num_heads")
    size = w.op("Mul", w.size("cosines", 1), w.ints(2))
    return w.op("Reshape", "x", w.op("Concat", w.ints(0, 0, -1), size, axis=0))


def _rest(w: Writer, flat: bool) -> bool:
    """Whether a head may have channels that are not turned."""
    heads = int(w.attribute("num_heads", 0))
    if flat and not heads:
        return False
    width, half = w.dim(0, -1), w.dim(2, 1)
    return width is None or half is None or width != 2 * half * (heads if flat else 1)


def rotated(
    w: Writer,
    x: str,
    positions: str,
    cosines: str,
    sines: str,
    *,
    rest: bool,
    interleaved: bool | None = None,
) -> str:
    """Write x[batch, heads, sequence, size] turned for positions[batch or 1, sequence]; gives its name.

    Channel pairs are (i, r + i), or (2 i, 2 i + 1) if ``interleaved``, by default as the node's attribute of
    that name says; of a pair (a, b) come (a cos - b sin, a sin + b cos).

    Args:
        w: The writer.
        x: What is turned.
        positions: int64.
        cosines: [positions, r].
        sines: [positions, r].
        rest: Whether there may be channels from 2 r on, which pass unchanged.
        interleaved: Which channels are a pair.
    """
    if interleaved is None:
        interleaved = bool(w.attribute("interleaved", 0))
    cos, sin = (
        w.op("Unsqueeze", w.op("Gather", table, positions, axis=0), w.ints(1)) for table in (cosines, sines)
    )
    half = w.size(cosines, 1)
    zero, axis, far = w.ints(0), w.ints(-1), w.ints(2**62)
    both = w.op("Mul", half, w.ints(2))
    if interleaved:
        one, two = w.ints(1), w.ints(2)
        a = w.op("Slice", x, zero, both, axis, two)
        b = w.op("Slice", x, one, both, axis, two)
    else:
        a = w.op("Slice", x, zero, half, axis)
        b = w.op("Slice", x, half, both, axis)
    first = w.op("Sub", w.op("Mul", a, cos), w.op("Mul", b, sin))
    second = w.op("Add", w.op("Mul", a, sin), w.op("Mul", b, cos))
    if interleaved:
        pairs = [w.op("Unsqueeze", part, axis) for part in (first, second)]
        parts = [w.op("Reshape", w.op("Concat", *pairs, axis=-1), w.ints(0, 0, 0, -1))]
    else:
        parts = [first, second]
    if rest:
        parts.append(w.op("Slice", x, both, far, axis))
    return w.op("Concat", *parts, axis=-1) if len(parts) > 1 else parts[0]
