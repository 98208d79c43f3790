"""Gradient rules of reductions.

Y = f(X) over the axes in the second input: constant, known only at run time, or absent. Absent or empty axes
mean all of them, or none with ``noop_with_empty_axes`` = 1, when only the elementwise part of f is left
(ReduceSumSquare squares, ReduceLogSum takes the logarithm). In the formulas, dY and Y stand for themselves
with the reduced axes put back with size 1.
"""

from __future__ import annotations

import math

import onnx_ir as ir

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.placing import pad_axes
from netgrad.onnx.rules.precision import widened
from netgrad.onnx.rules.unranked import AxisView

_ATTRIBUTES = ("keepdims", "noop_with_empty_axes")


# ---- axes --------------------------------------------------------------------------------------------


def _axes(op: RuleContext) -> tuple[int, ...] | Value | None:
    """The reduced axes: constant ones, a run-time tensor of them, or None for all."""
    given = op.optional(1)
    if given is None or given.static_shape == (0,):
        return () if op.attribute("noop_with_empty_axes") else None
    if given.constant is not None:
        return tuple(int(axis) for axis in given.constant.reshape(-1))
    return given


def _kept(op: RuleContext, reduced: Value) -> Value:
    """``reduced``, of the shape of Y, such that it broadcasts to X."""
    axes = _axes(op)
    if op.attribute("keepdims") or axes is None or axes == ():
        return reduced  # reduced over everything, it is a scalar: that broadcasts as it is
    if isinstance(axes, Value):
        return op.emit("Unsqueeze", reduced, axes)
    return op.builder.unsqueeze(reduced, axes)


def _again(op: RuleContext, op_type: str, x: Value) -> Value:
    """Another reduction of ``x`` over the operator's own axes, keeping them."""
    noop = op.attribute("noop_with_empty_axes")
    return op.emit(op_type, x, op.optional(1), keepdims=1, noop_with_empty_axes=noop or None)


def _count(op: RuleContext) -> Value | float:
    """How many elements are reduced to one: a number, or a run-time 0-d int64 tensor."""
    x, axes = op.input, _axes(op)
    if isinstance(axes, Value):
        # The quotient of the sizes serves every set of axes; an empty Y must not divide by zero.
        one = op.builder.ints([1])
        kept = op.emit("Max", op.emit("Size", op.output), one)
        return op.builder.reshape(op.emit("Div", op.emit("Size", x), kept), [])
    if axes is None and x.rank is None:
        return op.emit("Size", x)
    sizes = [x.dim(axis) for axis in (range(op.rank(x)) if axes is None else axes)]
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) == len(sizes):
        return float(math.prod(known))
    return op.emit("Size", x) if axes is None else op.builder.size_along(x, axes)


# ---- sums --------------------------------------------------------------------------------------------


@rule("ReduceSum", attributes=_ATTRIBUTES, not_differentiable=(1,))
def reduce_sum(op: RuleContext, dy: Value) -> Value:
    """Y = sum X; dX = dY, repeated."""
    return op.builder.expand_like(_kept(op, dy), op.input)


@rule("ReduceMean", attributes=_ATTRIBUTES, not_differentiable=(1,))
def reduce_mean(op: RuleContext, dy: Value) -> Value:
    """Y = sum X / n; dX = dY / n, repeated. n is counted in float32 at least: float16 ends at 65504."""
    dy = widened(op.builder, dy)
    count = _count(op)
    if isinstance(count, Value):
        count = op.builder.cast(count, op.floating(dy))
    return op.builder.expand_like(_kept(op, dy if count == 1.0 else dy / count), op.input)


@rule("ReduceSumSquare", attributes=_ATTRIBUTES, not_differentiable=(1,))
def reduce_sum_square(op: RuleContext, dy: Value) -> Value:
    """Y = sum X^2; dX = 2 X dY."""
    return op.input * _kept(op, dy + dy)


# ---- norms -------------------------------------------------------------------------------------------


@rule("ReduceL1", attributes=_ATTRIBUTES, not_differentiable=(1,))
def reduce_l1(op: RuleContext, dy: Value) -> Value:
    """Y = sum |X|; dX = sign(X) dY.

    Kink: an element at 0 has gradient 0.
    """
    return op.emit("Sign", op.input) * _kept(op, dy)


@rule("ReduceL2", attributes=_ATTRIBUTES, not_differentiable=(1,))
def reduce_l2(op: RuleContext, dy: Value) -> Value:
    """Y = (sum X^2)^(1/2); dX = X dY / Y.

    Kink: the zero vector has gradient 0, the subgradient of least norm.
    """
    y = op.output
    nonzero = op.builder.where(y.equals(0.0), 1.0, y)
    return op.input * _kept(op, dy / nonzero)


# ---- logarithms --------------------------------------------------------------------------------------


@rule("ReduceLogSum", attributes=_ATTRIBUTES, not_differentiable=(1,))
def reduce_log_sum(op: RuleContext, dy: Value) -> Value:
    """Y = ln sum X; dX = dY / sum X, repeated; e^Y would lose the digits that ln took away."""
    x, dy = widened(op.builder, op.input), widened(op.builder, dy)
    return op.builder.expand_like(_kept(op, dy) / _again(op, "ReduceSum", x), op.input)


@rule("ReduceLogSumExp", attributes=_ATTRIBUTES, not_differentiable=(1,))
def reduce_log_sum_exp(op: RuleContext, dy: Value) -> Value:
    """Y = ln sum e^X; dX = e^(X - Y) dY. No exponent is above 0, so that no score overflows.

    A half type rounds Y by up to |Y| / 2048, of which e would make a factor: Y is computed again in float32.

    Kink: where every element is minus infinity (all masked), the gradient is 0.
    """
    x, dy = widened(op.builder, op.input), widened(op.builder, dy)
    y = _kept(op, op.output) if x.dtype == op.input.dtype else _again(op, "ReduceLogSumExp", x)
    finite = op.builder.where(y.equals(-math.inf), 0.0, y)
    return op.emit("Exp", x - finite) * _kept(op, dy)


# ---- extrema -----------------------------------------------------------------------------------------


@rule("ReduceMax", "ReduceMin", attributes=_ATTRIBUTES, not_differentiable=(1,))
def reduce_extremum(op: RuleContext, dy: Value) -> Value:
    """Y = max X or min X; dX = dY where X = Y.

    Kink: elements that tie for the extremum share its gradient equally, so that the total is right and
    ``ReduceMax`` over copies of one value has derivative 1. They are counted in float32 at least.
    """
    builder, dy = op.builder, widened(op.builder, dy)
    (x, *_), y = op.comparable()
    assert x is not None, "a reduction has an input"
    attained = builder.cast(x.equals(_kept(op, y)), op.floating(dy))
    return attained * (_kept(op, dy) / _again(op, "ReduceSum", attained))


# ---- product -----------------------------------------------------------------------------------------


@rule("ReduceProd", attributes=_ATTRIBUTES, not_differentiable=(1,))
def reduce_prod(op: RuleContext, dy: Value) -> Value:
    """Y = prod X; dX_i = dY prod_{j != i} X_j.

    Not Y / X_i, which is 0/0 at a zero, and not a choice by the number of zeros either, whose own derivative
    would be wrong there: the product of the others is written as a product, so that gradients of every order
    are exact for any number of zeros. Several axes are taken one after the other: the others of an element
    are those on its line along the first axis, times the other lines.
    """
    builder, axes = op.builder, _axes(op)
    others: Value | None = None
    lines = op.input
    if isinstance(axes, Value):
        for axis, reduced in enumerate(_reduced_flags(op, axes)):
            rest = builder.where(reduced, _product_of_others(op, lines, axis), 1.0)
            others = rest if others is None else others * rest
            product = builder.reduce("ReduceProd", lines, [axis], keepdims=True)
            lines = builder.assume_like(builder.where(reduced, product, lines), op.input)
    elif op.input.rank is None:
        return _others_of_unknown_rank(op, axes) * _kept(op, dy)
    else:
        for axis in range(op.input.rank) if axes is None else axes:
            rest = _product_of_others(op, lines, axis)
            others = rest if others is None else others * rest
            lines = builder.reduce("ReduceProd", lines, [axis], keepdims=True)
    return _kept(op, dy) if others is None else others * _kept(op, dy)


def _others_of_unknown_rank(op: RuleContext, axes: tuple[int, ...] | None) -> Value:
    """For each element, the product of the others along constant axes, or of all others."""
    b, lines = op.builder, op.input
    if axes is None:
        return b.reshape_like(_product_of_others(op, b.reshape(lines, [-1]), 0), lines)
    others: Value | None = None
    for axis in axes:
        line = _product_of_others(op, AxisView(b, lines, axis).of(lines), 1)
        rest = b.reshape_like(line, lines)
        others = rest if others is None else others * rest
        lines = b.reduce("ReduceProd", lines, [axis], keepdims=True)
    return b.full_like(op.input, 1.0) if others is None else others


def _reduced_flags(op: RuleContext, axes: Value) -> list[Value]:
    """For each axis of X, a 0-d boolean: whether it is among the run-time ``axes``."""
    rank = op.rank(op.input)
    counted = op.builder.where(axes < 0, axes + rank, axes)
    absent = op.emit("Size", axes).equals(0)
    flags: list[Value] = []
    for axis in range(rank):
        hits = op.builder.cast(counted.equals(axis), ir.DataType.INT64)
        flag = op.emit("ReduceSum", hits, keepdims=0) > 0
        flags.append(flag if op.attribute("noop_with_empty_axes") else op.emit("Or", flag, absent))
    return flags


def _product_of_others(op: RuleContext, x: Value, axis: int) -> Value:
    """For each element, the product of the other ones on its line along ``axis``."""
    size = x.dim(axis)
    if not isinstance(size, int):
        return _product_of_others_by_squares(op, x, axis)
    if size < 2:
        return op.builder.full_like(x, 1.0)
    return _running_product(op, x, axis, size, 1) * _running_product(op, x, axis, size, -1)


def _running_product(op: RuleContext, x: Value, axis: int, size: int, direction: int) -> Value:
    """The product of the elements before (direction 1) or after (-1) each one, in log2(size) steps.

    Hillis and Steele, "Data parallel algorithms", 1986: in step k each element takes over the product that
    stands 2^k places away. A Pad by d and -d moves a tensor by d places and fills with ones.
    """
    builder = op.builder

    def moved(value: Value, places: int) -> Value:
        by = places * direction
        one = builder.scalar(1.0, value)
        margins = (builder.ints([by]), builder.ints([-by]))
        shifted = pad_axes(builder, value, {axis % op.rank(x): margins}, one)
        return builder.assume_like(shifted, value)

    product, step = moved(x, 1), 1
    while step < size - 1:
        product = product * moved(product, step)
        step *= 2
    return product


def _product_of_others_by_squares(op: RuleContext, x: Value, axis: int) -> Value:
    """The same where the size is not known: each line as a square with ones on its diagonal, n^2 elements."""
    builder, rank = op.builder, op.rank(x)
    axis %= rank
    size = op.emit("Gather", op.emit("Shape", x), builder.constant(axis))
    places = op.emit("Range", builder.constant(0), size, builder.constant(1))
    diagonal = builder.unsqueeze(places, [1]).equals(places)
    diagonal = builder.unsqueeze(diagonal, list(range(2, rank - axis + 1)))
    square = builder.where(diagonal, 1.0, builder.unsqueeze(x, [axis]))
    product = builder.reduce("ReduceProd", square, [axis + 1], keepdims=False)
    return builder.assume_like(product, x)
