"""Undoing a broadcast: the one place where a contribution is summed to the shape of its primal."""

from __future__ import annotations

from netgrad.onnx.builder import Builder, Value, same_shape
from netgrad.onnx.view import Dim


def unbroadcast(builder: Builder, contribution: Value, primal: Value) -> Value:
    """Sum ``contribution`` over the axes along which ``primal`` was broadcast.

    Broadcasting repeats elements, so the derivative of an element is the sum over its copies: leading axes
    that ``primal`` lacks are summed away, axes where it has size 1 are summed and kept.

    Args:
        builder: Writes the operators.
        contribution: Has the shape of the broadcast result, or any shape that ``primal`` broadcasts to.
        primal: The operand whose shape is wanted.

    Returns:
        A value of the shape of ``primal``: ``contribution`` itself if the shapes are known to agree, a
        reduction over constant axes if it is known which axes were broadcast, otherwise one whose axes are
        found at run time.
    """
    if same_shape(contribution, primal):
        return contribution
    if contribution.shape is not None and primal.shape is not None:
        known = _constant_axes(contribution.shape, primal.shape)
        if known is not None:
            return _sum_constant_axes(builder, contribution, primal, *known)
    return _sum_run_time_axes(builder, contribution, primal)


def _constant_axes(
    contribution: tuple[Dim, ...], primal: tuple[Dim, ...]
) -> tuple[list[int], list[int], bool] | None:
    """Leading axes to drop, axes to keep with size 1, and whether an Expand remains; None if undecided."""
    lead = len(contribution) - len(primal)
    if lead < 0:
        return None
    kept: list[int] = []
    expand = False
    for axis, size in enumerate(primal):
        have = contribution[lead + axis]
        if size == have and size is not None:
            continue
        if size == 1:
            kept.append(lead + axis)  # summing an axis that turns out to have size 1 changes nothing
        elif have == 1:
            expand = True  # the rule returned a value that is itself still to be broadcast
        elif not isinstance(size, int):
            return None  # a symbol or an unknown size may turn out to be 1
    return list(range(lead)), kept, expand


def _sum_constant_axes(
    builder: Builder, contribution: Value, primal: Value, lead: list[int], kept: list[int], expand: bool
) -> Value:
    result = contribution
    if kept and not lead:
        result = builder.reduce_sum(result, kept, keepdims=True)
    elif lead and not kept:
        result = builder.reduce_sum(result, lead, keepdims=False)
    elif lead:
        # One pass over the data; the axes of size 1 come back for free.
        assert primal.shape is not None, "the rank of the primal is known here"
        result = builder.reduce_sum(result, [*lead, *kept], keepdims=False)
        result = builder.unsqueeze(result, [axis - len(lead) for axis in kept])
    if expand:
        return builder.expand_like(result, primal)
    return builder.assume_shape(result, primal.shape)


def _sum_run_time_axes(builder: Builder, contribution: Value, primal: Value) -> Value:
    """Sum over the axes that turn out to be broadcast.

    With the primal's shape padded by ones on the left to the contribution's rank, exactly the axes where
    that padded shape is 1 are summed; a final Reshape drops the padding.
    """
    shape = builder.shape_of(primal)
    lead = None
    if contribution.rank is not None and primal.rank is not None:
        lead = contribution.rank - primal.rank
    if lead == 0:
        padded = shape
    elif lead is not None:
        padded = builder.concat([builder.ints([1] * lead), shape], axis=0)
    else:
        rank = builder.op("Size", builder.shape_of(contribution))
        missing = builder.reshape(rank - builder.op("Size", shape), [1])
        ones = builder.op("Expand", builder.ints([1]), missing)
        padded = builder.concat([ones, shape], axis=0)
    broadcast = builder.op("NonZero", padded.equals(builder.constant(1)))
    total = builder.reduce_sum(contribution, builder.reshape(broadcast, [-1]), keepdims=True)
    if lead == 0:
        return builder.assume_shape(total, primal.shape)
    return builder.assume_shape(builder.op("Reshape", total, shape, allowzero=1), primal.shape)
