"""Gradient rules of normalisations over the last axes, along one axis, and over chosen axes.

Half precision is computed in float32, as the forward operators do by default (``stash_type``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.half import working_type
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.precision import widened
from netgrad.onnx.rules.unranked import axes_from


def element_count(builder: Builder, x: Value, axes: Sequence[int] | Value) -> Value | float:
    """How many elements of ``x`` lie along ``axes``: a number, or a 0-d value of the type of ``x``."""
    if isinstance(axes, Value):
        picked = builder.op("Gather", builder.op("Shape", x), axes, axis=0)
        assert x.dtype is not None, f"the element type of '{x.name}' is unknown"
        return builder.cast(builder.op("ReduceProd", picked, keepdims=0), x.dtype)
    sizes = [x.dim(axis) for axis in axes]
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) == len(sizes):
        return float(math.prod(known))
    assert x.dtype is not None, f"the element type of '{x.name}' is unknown"
    return builder.cast(builder.size_along(x, axes), x.dtype)


def reciprocal_deviation(
    builder: Builder, square: Value, axes: Sequence[int] | Value, epsilon: float
) -> Value:
    """``(mean of square + epsilon)^(-1/2)`` over ``axes``, which are kept."""
    mean = builder.reduce_mean(square, axes, keepdims=True)
    return builder.op("Reciprocal", builder.op("Sqrt", mean + epsilon))


# ---- LayerNormalization, RMSNormalization ------------------------------------------------------------


def _last_axes(op: RuleContext) -> list[int] | Value:
    """The normalised axes counted from the end: from attribute ``axis`` to the last one.

    A run-time tensor of them where they are counted from the front and the rank is unknown.
    """
    first, rank = int(op.attribute("axis")), op.input.rank
    if first >= 0 and rank is None:
        return axes_from(op.builder, op.input, first)
    return list(range(first if first < 0 or rank is None else first - rank, 0))


def _reads_statistics(op: RuleContext) -> int:
    """All three outputs where the statistics are saved in the type that the gradient is computed in.

    For float64 they would be rounded to float32.
    """
    saved = op.attribute("stash_type") == int(ir.DataType.FLOAT)
    dtype = op.input.dtype
    return 3 if saved and dtype is not None and working_type(dtype) is ir.DataType.FLOAT else 1


@rule(
    "LayerNormalization",
    attributes=("axis", "epsilon", "stash_type"),
    broadcasts=True,
    needs_outputs=_reads_statistics,
)
def layer_normalization(op: RuleContext, *cotangents: Value | None) -> list[Value | None]:
    """Y = scale xhat + B, xhat = (X - Mean) InvStdDev over the last axes, which have D elements.

    With G = scale dY and means over the same axes, dX = InvStdDev (G - mean G - xhat mean(G xhat)),
    dscale = dY xhat, dB = dY. The outputs Mean and InvStdDev, where they have gradients themselves, add
    dMean / D - InvStdDev^2 xhat dInvStdDev / D. Source: Ba, Kiros and Hinton, "Layer normalization",
    https://arxiv.org/abs/1607.06450.

    Where scale is a vector, the two means are products with scale / D: forward and backward take 0.69 to
    0.89 times what they take with elementwise products and ReduceMean (benchmarks/normalization.py: two
    shapes, ONNX Runtime 1.32, 1 and 2 threads).
    """
    builder = op.builder
    x, scale = widened(builder, op.input), widened(builder, op.required(1))
    dy, dmean, dinverse = (
        None if cotangent is None else builder.cast(cotangent, op.floating(x))
        for cotangent in [*cotangents, None, None][:3]
    )
    axes = _last_axes(op)
    mean, inverse = op.optional_output(1), op.optional_output(2)
    if mean is None or mean.dtype != x.dtype:
        mean = builder.reduce_mean(x, axes, keepdims=True)
    centred = x - mean
    if inverse is None or inverse.dtype != x.dtype:
        inverse = reciprocal_deviation(builder, centred * centred, axes, op.attribute("epsilon"))
    xhat = builder.assume_like(centred * inverse, x)

    along = None  # what is projected out along xhat
    dx = dscale = dbias = None
    if dy is not None:
        dbias, dscale = dy, dy * xhat
        gradient = dy * scale
        level, along = _weighted_means(builder, x, dy, dscale, scale, axes)
        dx = gradient - level
    if dinverse is not None:
        slope = dinverse * inverse / element_count(builder, x, axes)
        along = slope if along is None else along + slope
    if along is not None:
        dx = -(xhat * along) if dx is None else dx - xhat * along
    total = None if dx is None else inverse * dx
    if dmean is not None:
        shift = builder.expand_like(dmean / element_count(builder, x, axes), x)
        total = shift if total is None else total + shift
    answer = [total, dscale, dbias]
    return [
        builder.zeros_like(operand) if value is None and operand is not None else value
        for value, operand in zip(answer, op.inputs, strict=False)
    ]


def _weighted_means(
    builder: Builder, x: Value, dy: Value, dy_xhat: Value, scale: Value, axes: Sequence[int] | Value
) -> tuple[Value, Value]:
    """The means of ``scale dy`` and of ``scale dy xhat`` over the last axes, which are kept."""
    size = x.dim(-1)
    if not isinstance(axes, Value) and len(axes) == 1 and isinstance(size, int) and scale.shape == (size,):
        column = builder.unsqueeze(scale / max(size, 1), [1])
        return dy @ column, dy_xhat @ column
    return (
        builder.reduce_mean(dy * scale, axes, keepdims=True),
        builder.reduce_mean(dy_xhat * scale, axes, keepdims=True),
    )


@rule("RMSNormalization", attributes=("axis", "epsilon", "stash_type"), broadcasts=True)
def rms_normalization(op: RuleContext, dy: Value) -> tuple[Value, Value]:
    """Y = scale xhat, xhat = X / RMS, RMS = (mean X^2 + epsilon)^(1/2) over the last axes.

    With G = scale dY, dX = (G - xhat mean(G xhat)) / RMS, dscale = dY xhat. Source: Zhang and Sennrich,
    "Root mean square layer normalization", https://arxiv.org/abs/1910.07467.
    """
    builder = op.builder
    x = widened(builder, op.input)  # scale and Y may be of another type
    scale, dy = builder.cast(op.required(1), op.floating(x)), builder.cast(dy, op.floating(x))
    axes = _last_axes(op)
    inverse = reciprocal_deviation(builder, x * x, axes, op.attribute("epsilon"))
    xhat = builder.assume_like(x * inverse, x)
    dscale, gradient = dy * xhat, dy * scale
    along = builder.reduce_mean(gradient * xhat, axes, keepdims=True)
    return inverse * (gradient - xhat * along), dscale


# ---- LpNormalization ---------------------------------------------------------------------------------


@rule("LpNormalization", attributes=("axis", "p"))
def lp_normalization(op: RuleContext, dy: Value) -> Value:
    """Y = X / n along ``axis``, n = sum |X| for p = 1 and (sum X^2)^(1/2) for p = 2; Y = 0 where n = 0.

    p = 1: dX = (dY - sign(X) sum dY Y) / n. p = 2: dX = (dY - Y sum dY Y) / n.
    Kink: a vector of zeros has gradient 0, and for p = 1 an element at 0 has sign 0.
    """
    builder, axis, p = op.builder, int(op.attribute("axis")), op.attribute("p")
    if p not in (1, 2):
        raise op.refuse(f"p is {p}; the standard allows 1 and 2")
    x, y, dy = (widened(builder, value) for value in (op.input, op.output, dy))
    norm = builder.reduce(f"ReduceL{p}", x, [axis], keepdims=True)
    is_zero = norm.equals(0.0)
    # 1/n with 0 in place of 1/0: the quotient of two selections stays finite when it is differentiated again.
    inverse = builder.where(is_zero, builder.scalar(0.0, norm), 1.0) / builder.where(is_zero, 1.0, norm)
    along = builder.reduce_sum(dy * y, [axis], keepdims=True)
    return (dy - (op.emit("Sign", x) if p == 1 else y) * along) * inverse


# ---- MeanVarianceNormalization -----------------------------------------------------------------------

_MVN_EPSILON = 1e-9  # the constant in the standard's function body


@rule("MeanVarianceNormalization", attributes=("axes",))
def mean_variance_normalization(op: RuleContext, dy: Value) -> Value:
    """Y = (X - mean X) / (s + 1e-9) with s the standard deviation over ``axes``.

    dX = (dY - mean dY - Y mean(dY Y) (s + 1e-9) / s) / (s + 1e-9). The standard's function body adds 1e-9
    to the deviation, and in float32 only, so that float64 models cannot be expanded.
    Kink: where s = 0, the last term, in which Y is 0, is taken as 0.
    """
    builder = op.builder
    axes = [int(axis) for axis in op.attribute("axes")]
    x, dy = widened(builder, op.input), widened(builder, dy)
    centred = x - builder.reduce_mean(x, axes, keepdims=True)
    deviation = op.emit("Sqrt", builder.reduce_mean(centred * centred, axes, keepdims=True))
    divisor = deviation + _MVN_EPSILON
    y = centred / divisor
    nonzero = builder.where(deviation.equals(0.0), 1.0, deviation)
    along = builder.reduce_mean(dy * y, axes, keepdims=True) * (divisor / nonzero)
    return (dy - builder.reduce_mean(dy, axes, keepdims=True) - y * along) / divisor
