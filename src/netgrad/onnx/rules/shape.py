"""Gradient rules of operators that rearrange or repeat elements: reshaping, axes, tiling, blocks."""

from __future__ import annotations

import numpy as np

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.placing import count_up, joined, length

# ---- the same elements in the same order ---------------------------------------------------------------


@rule("Reshape", attributes=("allowzero",), not_differentiable=(1,))
def reshape(op: RuleContext, dy: Value) -> Value:
    """Y = the elements of X in another shape; dX = dY in the shape of X."""
    return op.builder.reshape_like(dy, op.input)


@rule("Flatten", attributes=("axis",))
def flatten(op: RuleContext, dy: Value) -> Value:
    """Y[a, b] = X[d0, .., dn], a = (d0, .., d_axis-1), b = the rest; dX = dY in the shape of X."""
    return op.builder.reshape_like(dy, op.input)


@rule("Squeeze", not_differentiable=(1,))
def squeeze(op: RuleContext, dy: Value) -> Value:
    """Y = X without axes of size 1; dX = dY with the axes put back."""
    axes = op.optional(1)
    if axes is None:
        return op.builder.reshape_like(dy, op.input)
    return op.emit("Unsqueeze", dy, axes)


@rule("Unsqueeze", not_differentiable=(1,))
def unsqueeze(op: RuleContext, dy: Value) -> Value:
    """Y = X with new axes of size 1; dX = dY without them."""
    return op.emit("Squeeze", dy, op.required(1))


# ---- the same elements in another order ----------------------------------------------------------------


@rule("Transpose", attributes=("perm",))
def transpose(op: RuleContext, dy: Value) -> Value:
    """Y[d_perm(0), ..] = X[d_0, ..]; dX = dY transposed by the inverse permutation."""
    permutation = op.attribute("perm")
    if permutation is None:
        return op.emit("Transpose", dy)  # reversing the axes is its own inverse
    return op.builder.transpose(dy, [int(axis) for axis in np.argsort(permutation)])


@rule("DepthToSpace", attributes=("blocksize", "mode"))
def depth_to_space(op: RuleContext, dy: Value) -> Value:
    """Y = channels of X laid out as blocks of k x k pixels; dX = the blocks of dY gathered into channels.

    SpaceToDepth is the inverse of mode DCR, where a channel's number is (i k + j) C + c. In mode CRD it is
    c k^2 + (i k + j), so that a permutation of the channels follows.
    """
    block, mode = op.attribute("blocksize"), op.attribute("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise op.refuse(f"mode {mode!r} is neither 'DCR' nor 'CRD'")
    dx = op.emit("SpaceToDepth", dy, blocksize=block)
    if mode == "DCR":
        return dx
    order = _channels_first(op.builder, op.input, block * block)
    return op.emit("Gather", dx, order, axis=1)


@rule("SpaceToDepth", attributes=("blocksize", "mode"))
def space_to_depth(op: RuleContext, dy: Value) -> Value:
    """Y = blocks of k x k pixels of X laid out as channels; dX = the channels of dY put back: the inverse."""
    return op.emit("DepthToSpace", dy, blocksize=op.attribute("blocksize"), mode=op.attribute("mode", "DCR"))


def _channels_first(b: Builder, x: Value, block: int) -> Value:
    """For channel c block + p of ``x``: its number p C + c where the position in the block comes first."""
    channels = x.dim(1)
    if isinstance(channels, int):
        return b.ints(np.arange(channels).reshape(block, -1).T.ravel().tolist())
    numbers = b.reshape(count_up(b, length(b, x, 1)), [block, -1])
    return b.reshape(b.transpose(numbers, [1, 0]), [-1])


@rule("ReverseSequence", attributes=("batch_axis", "time_axis"), not_differentiable=(1,))
def reverse_sequence(op: RuleContext, dy: Value) -> Value:
    """Y[t, n] = X[L_n - 1 - t, n] for t < L_n, else X[t, n]; dX = dY reversed likewise."""
    return op.emit(
        "ReverseSequence",
        dy,
        op.required(1),
        batch_axis=op.attribute("batch_axis"),
        time_axis=op.attribute("time_axis"),
    )


# ---- some of the elements, or each of them several times -----------------------------------------------


@rule("Trilu", attributes=("upper",), not_differentiable=(1,))
def trilu(op: RuleContext, dy: Value) -> Value:
    """Y = X on one side of the k-th diagonal of its last two axes, else 0; dX = dY there, else 0."""
    return op.emit("Trilu", dy, op.optional(1), upper=op.attribute("upper"))


@rule("Expand", broadcasts=True, not_differentiable=(1,))
def expand(op: RuleContext, dy: Value) -> Value:
    """Y = X broadcast against a shape; dX = dY summed over the copies."""
    return dy


@rule("Tile", not_differentiable=(1,))
def tile(op: RuleContext, dy: Value) -> Value:
    """Y[.., r d + i, ..] = X[.., i, ..] for r < repeats; dX[.., i, ..] = sum over r of dY[.., r d + i, ..].

    Each axis of dY is split into (repeats, d) and summed over the first. With more than one dim unknown the
    split shape is put together at run time.
    """
    b, x, repeats = op.builder, op.input, op.required(1)
    constant = repeats.constant
    if constant is None:
        pairs = [b.unsqueeze(repeats, [1]), b.unsqueeze(b.shape_of(x), [1])]
        split = b.reshape(b.concat(pairs, axis=1), [-1])
        if x.rank is not None:
            return b.reduce_sum(_split(b, dy, split), list(range(0, 2 * x.rank, 2)))
        start, step = (b.constant(np.asarray(number)) for number in (0, 2))
        every_other = b.op("Range", start, b.op("Size", split), step)
        return b.reduce_sum(_split(b, dy, split), every_other)
    parts: list[Value] = []
    summed: list[int] = []
    for axis, count in enumerate(constant.tolist()):
        if count != 1:
            summed.append(len(parts))
            parts.append(b.ints([count]))
        parts.append(length(b, x, axis))
    if not summed:
        return dy
    unknown = [k for k, part in enumerate(parts) if part.constant is None]
    if len(unknown) == 1 and not any(0 in part.constant for part in parts if part.constant is not None):
        parts[unknown[0]] = b.ints([-1])
    return b.reduce_sum(_split(b, dy, joined(b, parts)), summed)


def _split(b: Builder, dy: Value, shape: Value) -> Value:
    inferred = shape.constant is not None and -1 in shape.constant  # which excludes allowzero
    return b.op("Reshape", dy, shape, allowzero=None if inferred else 1)
