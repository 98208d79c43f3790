"""Makers of operators that read and write by index: Gather, Scatter, TopK and their kin."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tests.onnx.random_graphs.makers import maker, register
from tests.onnx.random_graphs.writer import Drawn, Writer


def _indices(g: Writer, size: int, shape: tuple[int, ...]) -> Any:
    """Indices into an axis, some of them counted from the end."""
    low = -size if g.chance(0.5) else 0
    return g.rng.integers(low, size, size=shape)


@maker(weight=1.5)
def gather(g: Writer) -> None:
    x = g.ranked(1, 2, 3, 4)
    axis = g.axis(x)
    shape = g.choose((), (1,), (3,), (2, 2), (4,))
    indices = g.constant(np.asarray(_indices(g, x.shape[axis], shape), g.choose(np.int64, np.int32)))
    y = g.emit("Gather", x, indices, axis=g.signed(axis, x.rank))
    g.keep(y, (*x.shape[:axis], *shape, *x.shape[axis + 1 :]), x.bound)


@maker()
def gather_elements(g: Writer) -> None:
    x = g.ranked(1, 2, 3)
    axis = g.axis(x)
    shape = tuple(g.number(1, 4) if k == axis else g.number(1, n) for k, n in enumerate(x.shape))
    indices = g.constant(np.asarray(_indices(g, x.shape[axis], shape), np.int64))
    g.keep(g.emit("GatherElements", x, indices, axis=g.signed(axis, x.rank)), shape, x.bound)


def _tuples(g: Writer, sizes: tuple[int, ...], count: int, *, distinct: bool) -> Any:
    """Index tuples of the leading axes, as rows."""
    every = int(np.prod(sizes))
    flat = (
        g.rng.choice(every, min(count, every), replace=False) if distinct else g.rng.integers(0, every, count)
    )
    return np.stack(np.unravel_index(flat, sizes), axis=-1)


@maker()
def gather_nd(g: Writer) -> None:
    x = g.ranked(2, 3)
    batch = g.number(0, 1)
    depth = g.number(1, x.rank - batch)
    tuples = _tuples(g, x.shape[batch : batch + depth], 3 * (x.shape[0] if batch else 1), distinct=False)
    if batch:
        tuples = tuples.reshape(x.shape[0], 3, depth)
    indices = g.constant(np.asarray(tuples, np.int64))
    y = g.emit("GatherND", x, indices, batch_dims=batch)
    g.keep(y, (*x.shape[:batch], 3, *x.shape[batch + depth :]), x.bound)


def _scatter_bound(reduction: str, x: Drawn, u: Drawn, count: int) -> float:
    if reduction == "add":
        return x.bound + count * u.bound
    if reduction == "mul":
        return x.bound * max(1.0, u.bound) ** count
    return max(x.bound, u.bound)


def _reduction(g: Writer) -> str:
    newer = ["add", "mul"] if g.opset >= 16 else []
    return str(g.choose("none", *newer, *(["max", "min"] if g.opset >= 18 else [])))


@maker(weight=1.5)
def scatter_elements(g: Writer) -> None:
    x = g.ranked(1, 2, 3)
    axis = g.axis(x)
    reduction = _reduction(g)
    shape = [g.number(1, n) for n in x.shape]
    if reduction == "none":
        order = np.argsort(g.rng.random((*x.shape[:axis], x.shape[axis], *x.shape[axis + 1 :])), axis=axis)
        indices = order[tuple(slice(0, n) for n in shape)]
    else:
        shape[axis] = g.number(1, 4)
        indices = _indices(g, x.shape[axis], tuple(shape))
    u = g.pick(lambda v: v.shape == tuple(shape))
    u = g.weight(*shape) if u is None else u
    attributes = {} if reduction == "none" else {"reduction": reduction}
    where = g.constant(np.asarray(indices, np.int64))
    y = g.emit("ScatterElements", x, where, u, axis=g.signed(axis, x.rank), **attributes)
    g.keep(y, x.shape, _scatter_bound(reduction, x, u, shape[axis]))


@maker(weight=1.5)
def scatter_nd(g: Writer) -> None:
    x = g.ranked(1, 2, 3)
    reduction = _reduction(g)
    depth, count = g.number(1, x.rank), g.number(1, 4)
    tuples = _tuples(g, x.shape[:depth], count, distinct=reduction == "none")
    u = g.weight(len(tuples), *x.shape[depth:])
    attributes = {} if reduction == "none" else {"reduction": reduction}
    y = g.emit("ScatterND", x, g.constant(np.asarray(tuples, np.int64)), u, **attributes)
    g.keep(y, x.shape, _scatter_bound(reduction, x, u, count))


@maker(weight=1.2)
def top_k(g: Writer) -> None:
    x = g.ranked(1, 2, 3)
    axis = g.axis(x)
    k = g.number(1, x.shape[axis])
    values, indices = g.emit_all(
        "TopK", x, g.ints(k), outputs=2, axis=g.signed(axis, x.rank), largest=g.number(0, 1)
    )
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    g.keep(values, shape, x.bound)
    if g.chance(0.4):  # the indices, too: another value of the same shape in the order of this one
        other = g.pick(lambda v: v.shape == x.shape)
        other = x if other is None else other
        g.keep(g.emit("GatherElements", other, indices, axis=axis), shape, other.bound)


@maker(weight=0.7)
def row_of_largest(g: Writer) -> None:
    x = g.ranked(1, 2)
    axis = g.axis(x)
    found = g.emit(g.choose("ArgMax", "ArgMin"), x, axis=axis, keepdims=1)
    shape = tuple(1 if k == axis else n for k, n in enumerate(x.shape))
    g.keep(g.emit("GatherElements", x, found, axis=axis), shape, x.bound)


@maker(weight=0.6)
def compress(g: Writer) -> None:
    x = g.ranked(1, 2, 3)
    axis = g.axis(x)
    kept = g.rng.random(x.shape[axis]) < 0.6
    kept[g.number(0, len(kept) - 1)] = True
    y = g.emit("Compress", x, g.constant(kept), axis=g.signed(axis, x.rank))
    g.keep(y, (*x.shape[:axis], int(kept.sum()), *x.shape[axis + 1 :]), x.bound)


@maker(double=False, weight=0.5)
def one_hot(g: Writer) -> None:
    """The two values are differentiable."""
    depth, count = g.number(2, 4), g.number(1, 4)
    values = g.pick(lambda v: v.shape == (2,))
    values = g.weight(2) if values is None else values
    places = g.constant(np.asarray(_indices(g, depth, (count,)), np.int64))
    axis = g.choose(-1, 0)
    y = g.emit("OneHot", places, g.constant(np.asarray(depth, np.int64)), values, axis=axis)
    g.keep(y, (count, depth) if axis == -1 else (depth, count), values.bound)


def _looked_up(way: str, g: Writer) -> None:
    """Rows of a table by repeated indices, as an embedding does."""
    rows, width = g.number(3, 6), g.number(2, 4)
    table = g.weight(rows, width)
    shape = (g.number(2, 4),) if way == "row" else (2, g.number(2, 4))
    g.keep(
        g.emit("Gather", table, g.constant(g.rng.integers(0, rows, size=shape))), (*shape, width), table.bound
    )


for _way in ("row", "batch"):
    register(f"embedding_{_way}", partial(_looked_up, _way), weight=0.4)
