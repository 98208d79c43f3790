"""Gradient rule of CumProd."""

from __future__ import annotations

import math

import onnx_ir as ir

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.placing import count_up, length, pad_axes

# "To the end" as a bound of Slice.
_END = (1 << 63) - 1


@rule("CumProd", attributes=("exclusive", "reverse"), not_differentiable=(1,))
def cum_prod(op: RuleContext, dy: Value) -> tuple[Value, None]:
    """Y_i = product of X_k over k <= i (or <, >=, >); dX_j = P_j R_j, which is right at zeros too.

    P_j is the product over k < j, and R_j = sum over i >= j of dY_i times the product over j < k <= i; so
    nothing is divided by X. As R_j = dY_j + X_(j+1) R_(j+1), it takes log2(n) steps that each join twice as
    many terms; where n is known at run time only, the products are written as a matrix of n by n.
    """
    b, reverse = op.builder, bool(op.attribute("reverse"))
    shape, size = _axis_in_the_middle(op)
    x = b.op("Reshape", op.input, shape, allowzero=1)
    seeds = b.op("Reshape", dy, shape, allowzero=1)
    before = _running(op, x, 1, exclusive=True, reverse=reverse)
    later = _by_matrix(op, x, seeds) if size is None else _by_doubling(op, x, seeds, size)
    return b.reshape_like(before * later, op.input), None


def _axis_in_the_middle(op: RuleContext) -> tuple[Value, int | None]:
    """The shape of X with all axes before that of the products as one, and all behind; its size if known."""
    b, x, axis = op.builder, op.input, op.required(1)
    size = None
    if axis.constant is not None and x.rank is not None:
        place = int(axis.constant.item()) % x.rank
        static, dim = x.static_shape, x.dim(place)
        if static is not None:
            sizes = [math.prod(static[:place]), static[place], math.prod(static[place + 1 :])]
            return b.ints(sizes), static[place]
        size = dim if isinstance(dim, int) else None
    whole = b.op("Shape", x)
    number = b.reshape(b.cast(axis, ir.DataType.INT64), [1])
    start = b.op("Mod", number, b.reshape(b.op("Size", whole), [1]))
    end = start + b.ints([1])
    parts = [
        b.op("ReduceProd", b.slice(whole, 0, 0, start), keepdims=1),
        b.slice(whole, 0, start, end) if size is None else b.ints([size]),
        b.op("ReduceProd", b.slice(whole, 0, end, _END), keepdims=1),
    ]
    return b.assume_shape(b.concat(parts, axis=0), (3,)), size


def _running(op: RuleContext, x: Value, axis: int, *, exclusive: bool, reverse: bool) -> Value:
    return op.emit(
        "CumProd",
        x,
        op.builder.constant(axis),
        exclusive=int(exclusive) or None,
        reverse=int(reverse) or None,
    )


def _by_doubling(op: RuleContext, x: Value, seeds: Value, size: int) -> Value:
    """R along axis 1: the step with distance d joins the sums over d terms to sums over 2 d."""
    b = op.builder
    b.assume_shape(x, (None, size, None))

    def shifted(values: Value, by: int) -> Value:
        """The entries ``by`` places later in the order of the products, 0 behind the last."""
        if size == 0:
            return values
        before = by if op.attribute("reverse") else -by
        return pad_axes(b, values, {1: (b.ints([before]), b.ints([-before]))})

    total = shifted(seeds, 1) if op.attribute("exclusive") else seeds
    factors, distance = shifted(x, 1), 1
    while distance < size:
        total = total + factors * shifted(total, distance)
        if 2 * distance < size:
            factors = factors * shifted(factors, distance)
        distance *= 2
    return total


def _by_matrix(op: RuleContext, x: Value, seeds: Value) -> Value:
    """R_j = sum over i of M[j, i] dY_i: row j of M has the products of X from behind j on."""
    b = op.builder
    exclusive, reverse = bool(op.attribute("exclusive")), bool(op.attribute("reverse"))
    column = b.reshape(count_up(b, length(b, x, 1)), [-1, 1, 1])
    row = b.reshape(column, [-1, 1])
    behind = row < column if reverse else row > column
    factors = _running(op, b.where(behind, b.unsqueeze(x, [1]), 1.0), 2, exclusive=exclusive, reverse=reverse)
    with_itself = row <= column if reverse else row >= column
    reached = behind if exclusive else with_itself
    return b.reduce_sum(b.where(reached, factors * b.unsqueeze(seeds, [1]), 0.0), [2])
