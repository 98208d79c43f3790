"""Makers of reductions, running sums, softmax and normalizations."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from tests.onnx.random_graphs.makers import maker, register
from tests.onnx.random_graphs.writer import Drawn, Writer


def reduced_shape(shape: tuple[int, ...], axes: list[int], keepdims: int) -> tuple[int, ...]:
    if keepdims:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


def reduce(g: Writer, op_type: str, x: Drawn, axes: list[int] | None, keepdims: int) -> Drawn:
    """Write a reduction in the form of the graph's opset; None as axes means all."""
    every = list(range(x.rank))
    reduced = every if axes is None else axes
    signed = [g.signed(axis, x.rank) for axis in reduced]
    attributes: dict[str, object] = {} if keepdims and g.chance(0.5) else {"keepdims": keepdims}
    operands: list[str | Drawn] = [x]
    if axes is not None and (g.opset >= 18 or op_type == "ReduceSum"):
        operands.append(g.ints(*signed))
        if g.chance(0.2):
            attributes["noop_with_empty_axes"] = 1
    elif axes is not None:
        attributes["axes"] = signed
    count = int(np.prod([x.shape[axis] for axis in reduced]))
    b = x.bound
    bound = {
        "ReduceSum": count * b,
        "ReduceL1": count * b,
        "ReduceL2": math.sqrt(count) * b,
        "ReduceSumSquare": count * b * b,
        "ReduceLogSumExp": b + math.log(count),
        "ReduceLogSum": max(1.3, math.log(count * b)),
        "ReduceProd": max(1.0, b) ** min(count, 50),
    }.get(op_type, b)
    name = g.emit(op_type, *operands, **attributes)
    return Drawn(name, reduced_shape(x.shape, reduced, keepdims), bound)


def _reduction(op_type: str, g: Writer) -> None:
    x = g.any()
    if op_type == "ReduceLogSum":
        x = g.positive(x)
    axes: list[int] | None = None
    if x.rank and g.chance(0.85):
        axes = sorted(int(k) for k in g.rng.choice(x.rank, g.number(1, x.rank), replace=False))
        if op_type == "ReduceProd":
            axes = [min(axes, key=lambda axis: x.shape[axis])]
    y = reduce(g, op_type, x, axes, g.number(0, 1))
    g.keep(y.name, y.shape, y.bound)


for _type in (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"),
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
):
    register(_type, partial(_reduction, _type), weight=0.6)


@maker(since=18, weight=0.3)
def noop_reduction(g: Writer) -> None:
    """No axes, and the attribute that then leaves X as it is."""
    x = g.any()
    op_type = g.choose("ReduceSum", "ReduceMean", "ReduceMax")
    g.keep(g.emit(op_type, x, g.ints(), noop_with_empty_axes=1), x.shape, x.bound)


@maker()
def running_sum(g: Writer) -> None:
    x = g.ranked(1, 2, 3, 4)
    axis = g.axis(x)
    y = g.emit(
        "CumSum",
        x,
        g.constant(np.asarray(g.signed(axis, x.rank), np.int64)),
        exclusive=g.number(0, 1),
        reverse=g.number(0, 1),
    )
    g.keep(y, x.shape, x.shape[axis] * x.bound)


@maker(since=26, weight=0.5, double=False)
def running_product(g: Writer) -> None:
    x = g.ranked(1, 2, 3)
    axis = min(range(x.rank), key=lambda each: x.shape[each])
    y = g.emit(
        "CumProd",
        x,
        g.constant(np.asarray(g.signed(axis, x.rank), np.int64)),
        exclusive=g.number(0, 1),
        reverse=g.number(0, 1),
    )
    g.keep(y, x.shape, max(1.0, x.bound) ** min(x.shape[axis], 40))


@maker(weight=1.5)
def softmax(g: Writer) -> None:
    x, op_type = g.ranked(1, 2, 3, 4), g.choose("Softmax", "Softmax", "LogSoftmax")
    axis = g.axis(x)
    bound = 1.0 if op_type == "Softmax" else 2 * x.bound + math.log(x.shape[axis])
    g.keep(g.emit(op_type, x, axis=g.signed(axis, x.rank)), x.shape, bound)


@maker(weight=0.6)
def unit_length(g: Writer) -> None:
    x = g.positive(g.ranked(1, 2, 3))
    y = g.emit("LpNormalization", x, axis=g.signed(g.axis(x), x.rank), p=g.number(1, 2))
    g.keep(y, x.shape, 1.0)


@maker(since=17, weight=1.5)
def layer_norm(g: Writer) -> None:
    x = g.ranked(2, 3, 4)
    axis = g.number(1, x.rank - 1)
    operands = [x, g.weight(*x.shape[axis:]), *([g.weight(*x.shape[axis:])] if g.chance(0.6) else [])]
    y = g.emit("LayerNormalization", *operands, axis=g.signed(axis, x.rank), epsilon=0.01)
    g.keep(y, x.shape, 1 + math.sqrt(np.prod(x.shape[axis:])))


@maker(since=23, weight=0.7)
def rms_norm(g: Writer) -> None:
    x = g.ranked(2, 3, 4)
    axis = g.number(1, x.rank - 1)
    form = {"axis": g.signed(axis, x.rank), "epsilon": 0.01, "stash_type": g.element_type}
    y = g.emit("RMSNormalization", x, g.weight(*x.shape[axis:]), **form)
    g.keep(y, x.shape, math.sqrt(np.prod(x.shape[axis:])))


@maker(since=15)
def batch_norm(g: Writer) -> None:
    """In inference mode: the mean and the variance are inputs, and differentiated."""
    x = g.ranked(2, 3, 4)
    channels = x.shape[1]
    scale, bias, mean = (g.weight(channels) for _ in range(3))
    var = g.weight(channels, scale=1.5, low=0.5)
    y = g.emit("BatchNormalization", x, scale, bias, mean, var, epsilon=g.choose(1e-5, 1e-2))
    g.keep(y, x.shape, 1 + (x.bound + 1) / 0.7)


@maker(double=False, weight=0.6)
def instance_norm(g: Writer) -> None:
    x = g.ranked(3, 4)
    channels = x.shape[1]
    y = g.emit("InstanceNormalization", x, g.weight(channels), g.weight(channels), epsilon=0.01)
    g.keep(y, x.shape, 1 + math.sqrt(np.prod(x.shape[2:])))


@maker(since=21, double=False, weight=0.6)
def group_norm(g: Writer) -> None:
    x = g.ranked(3, 4)
    channels = x.shape[1]
    groups = g.choose(*(n for n in range(1, channels + 1) if channels % n == 0))
    form = {"num_groups": groups, "epsilon": 0.01, "stash_type": g.element_type}
    y = g.emit("GroupNormalization", x, g.weight(channels), g.weight(channels), **form)
    g.keep(y, x.shape, 1 + math.sqrt(x.size))


@maker(weight=0.4)
def norm_in_parts(g: Writer) -> None:
    """A layer normalization of single operators: the input is used three times."""
    x = g.ranked(2, 3)
    mean = reduce(g, "ReduceMean", x, [x.rank - 1], 1)
    centred = g.emit("Sub", x, mean)
    square = Drawn(g.emit("Mul", centred, centred), x.shape, 4 * x.bound**2)
    variance = reduce(g, "ReduceMean", square, [x.rank - 1], 1)
    root = g.emit("Sqrt", g.emit("Add", variance, g.real(0.01)))
    g.keep(g.emit("Div", centred, root), x.shape, math.sqrt(x.shape[-1]))
