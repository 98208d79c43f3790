"""Adding copies back to where they were copied from: what the gradients of all indexing operators share.

An operator that copies elements, ``y[j] = x[place(j)]``, has the gradient ``dx[i] = sum of dy[j]`` over all j
with ``place(j) = i``. The places are a NumPy array where they are constant, else a tensor found at run time.

Repeated places are added by ScatterElements, never by ScatterND: ONNX Runtime's CPU kernel of ScatterND makes
its updates on several threads without a lock, so that with 2 threads 10 runs of 10 were wrong at 20,000
updates of 3 rows of 64 (release 1.32; its issues 18048 and 23396). ScatterElements is sequential and right,
at about 10 ns an element. ``benchmarks/gather.py`` has the figures of all forms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.precision import widened

# An end of Slice that no size brings to 0 or more.
_BEFORE_ALL = -(1 << 62)

# Up to this many terms are added up before ScatterElements is the better form.
_MOST_TERMS = 4

# An axis longer than this is not mapped entry by entry for the sake of a few places: the map is a constant.
_LARGEST_MAP = 4096

# ---- sizes and numbers -------------------------------------------------------------------------------


def length(b: Builder, x: Value, axis: int) -> Value:
    """Size of ``x`` along ``axis``, int64 of shape (1,): a constant where it is known."""
    size = x.dim(axis)
    if isinstance(size, int):
        return b.ints([size])
    return b.op("Shape", x, start=axis, end=None if axis == -1 else axis + 1)


def lengths(b: Builder, x: Value, start: int, end: int) -> Value:
    """Sizes of ``x`` along the axes from ``start`` to before ``end``, 1-D int64: constant where known."""
    assert x.shape is not None, "the caller knows the rank"
    known = [size for size in x.shape[start:end] if isinstance(size, int)]
    if len(known) == end - start:
        return b.ints(known)
    return b.op("Shape", x, start=start, end=end)


def product(b: Builder, x: Value, start: int, end: int) -> Value:
    """Product of the sizes of ``x`` from ``start`` to before ``end``, int64 of shape (1,); 1 for no axis."""
    sizes = lengths(b, x, start, end)
    if sizes.constant is not None:
        return b.ints([int(sizes.constant.prod())])
    return sizes if end - start == 1 else b.op("ReduceProd", sizes, keepdims=1)


def joined(b: Builder, parts: Sequence[Value]) -> Value:
    """1-D int64 tensors joined: a constant where all are."""
    arrays = [part.constant for part in parts]
    known = [array for array in arrays if array is not None]
    if len(known) == len(parts):
        return b.ints(np.concatenate(known).tolist())
    merged: list[Value] = []
    for part in parts:
        if part.constant is not None and merged and merged[-1].constant is not None:
            merged[-1] = b.ints([*merged[-1].constant.tolist(), *part.constant.tolist()])
        else:
            merged.append(part)
    return b.concat([part for part in merged if part.constant is None or part.constant.size], axis=0)


def resized(b: Builder, x: Value, axis: int, size: Value) -> Value:
    """The shape of ``x`` with ``size``, of shape (1,), along ``axis``: 1-D int64."""
    assert x.shape is not None, "the caller knows the rank"
    return joined(b, [lengths(b, x, 0, axis), size, lengths(b, x, axis + 1, len(x.shape))])


def elements(b: Builder, x: Value) -> Value:
    """Number of elements of ``x``, int64 of shape (1,): a constant where it is known."""
    static = x.static_shape
    if static is not None:
        return b.ints([math.prod(static)])
    return b.reshape(b.op("Size", x), [1])


def count_up(b: Builder, limit: Value) -> Value:
    """0, 1, ..., limit - 1 for ``limit``, int64 of shape (1,): 1-D int64."""
    number = b.squeeze(limit, [0]) if limit.constant is None else b.constant(limit.constant[0])
    return b.op("Range", b.constant(np.asarray(0)), number, b.constant(np.asarray(1)))


def numbering(b: Builder, x: Value) -> Value:
    """int64 of the shape of ``x``: each element's number in row-major order."""
    count = count_up(b, elements(b, x))
    return b.assume_like(b.op("Reshape", count, b.shape_of(x), allowzero=1), x)


# ---- constant places along one axis ------------------------------------------------------------------


def collect(b: Builder, dy: Value, axis: int, places: Sequence[int] | np.ndarray, size: int) -> Value:
    """The gradient of taking constant ``places`` along one axis of ``size`` entries.

    The places fall into runs (neighbours, ascending or descending, or one place repeated), each of which is a
    Slice or a ReduceSum put in its place by Pad: one node for a slice, a few passes for a reflected border.
    Where there are many runs but each place occurs a few times, one Gather per occurrence takes from the
    cotangent and an entry of zeros: 0.1 ms against 6 ms of ScatterElements for shuffled channels (8 x 64 x 28
    x 28). Else it is `scatter_along`.

    Args:
        b: Writes the operators.
        dy: Cotangent, with ``len(places)`` entries along ``axis``; its rank is known.
        axis: From 0 on.
        places: Integers from 0 on.
        size: Entries of the result along ``axis``; its other axes are those of ``dy``.
    """
    places = np.asarray(places, dtype=np.int64)
    count, runs, rounds = len(places), _runs(places), _rounds(places, size)
    # ScatterElements writes the zeros, copies them and then spends about 30 times as long on each update.
    few_rounds = len(rounds) <= _MOST_TERMS and len(rounds) * size <= 2 * size + 30 * count
    few_rounds = few_rounds and size <= max(_LARGEST_MAP, 4 * count)
    is_last = axis + 1 == dy.rank
    if len(runs) == 1 or (1 < len(runs) <= _MOST_TERMS and (is_last or not few_rounds)):
        terms = [_placed_run(b, dy, axis, run, size) for run in runs]
    elif rounds and few_rounds:
        gaps = any((chosen == count).any() for chosen in rounds)
        source = pad_axis(b, dy, axis, 0, 1) if gaps else dy
        terms = [take(b, source, axis, b.ints(chosen.tolist())) for chosen in rounds]
    else:
        return scatter_along(b, dy, axis, b.ints(places.tolist()), resized(b, dy, axis, b.ints([size])))
    return terms[0] if len(terms) == 1 else b.op("Sum", *terms)


@dataclass(frozen=True)
class _Run:
    """``count`` entries from ``start`` on that went to ``first``, ``first + step``, ...; step -1, 0 or 1."""

    start: int
    count: int
    first: int
    step: int


def _runs(places: np.ndarray) -> list[_Run]:
    runs: list[_Run] = []
    start = 0
    while start < len(places):
        end = start + 1
        step = int(places[end] - places[start]) if end < len(places) else 1
        step = step if abs(step) <= 1 else 1
        while end < len(places) and places[end] - places[end - 1] == step:
            end += 1
        runs.append(_Run(start, end - start, int(places[start]), step))
        start = end
    return runs


def _placed_run(b: Builder, dy: Value, axis: int, run: _Run, size: int) -> Value:
    end = run.start + run.count
    if run.step < 0:
        part = b.slice(dy, axis, end - 1, run.start - 1 if run.start else _BEFORE_ALL, -1)
        return pad_axis(b, part, axis, run.first - run.count + 1, size - run.first - 1)
    part = dy if run.count == dy.dim(axis) else b.slice(dy, axis, run.start, end)
    if not run.step:
        part, run = b.reduce_sum(part, [axis], keepdims=True), replace(run, count=1)
    return pad_axis(b, part, axis, run.first, size - run.first - run.count)


def _rounds(places: np.ndarray, size: int) -> list[np.ndarray]:
    """For the first, second, ... occurrence of each place: its position in ``places``, or ``len(places)``."""
    count = len(places)
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    occurrence = np.arange(count) - np.searchsorted(ordered, ordered, side="left")
    rounds = []
    for number in range(int(occurrence.max(initial=-1)) + 1):
        chosen = np.full(size, count, dtype=np.int64)
        now = occurrence == number
        chosen[ordered[now]] = order[now]
        rounds.append(chosen)
        if len(rounds) > _MOST_TERMS:
            break
    return rounds


def pad_axis(b: Builder, x: Value, axis: int, before: int, after: int) -> Value:
    """``x`` with zeros before and after it along one axis; ``x`` itself where there are none."""
    if not before and not after:
        return x
    return pad_axes(b, x, {axis: (b.ints([before]), b.ints([after]))})


def pad_axes(
    b: Builder, x: Value, margins: Mapping[int, tuple[Value, Value]], fill: Value | None = None
) -> Value:
    """``x`` with zeros, or ``fill``, before and after it along some axes.

    Pads are written for all axes where the rank is known. Pad's input ``axes`` would be shorter, but the
    optimizer of ONNX Runtime moves a Transpose over such a Pad as if it had none: the model fails, or gives
    another shape (release 1.32).

    Args:
        b: Writes the operators.
        x: Any tensor.
        margins: For each axis (negative ones count from the end), how many entries to add before and
            after: int64 of shape (1,).
        fill: What to fill with, 0-d.
    """
    none = b.ints([0])
    if x.rank is not None:
        margins = {axis % x.rank: pair for axis, pair in margins.items()}
    axes = range(x.rank) if x.rank is not None else list(margins)
    pads = joined(b, [margins.get(axis, (none, none))[side] for side in (0, 1) for axis in axes])
    return b.op("Pad", x, pads, fill, b.ints(list(axes)) if x.rank is None else None)


def take(b: Builder, x: Value, axis: int, places: Value) -> Value:
    """``x`` at ``places`` (1-D int64) along ``axis``.

    Along the last axis Gather copies single elements, at 10 to 15 ns each; between two transpositions the
    whole takes 2 to 5 ns an element.
    """
    if x.rank is None or x.rank == 1 or axis + 1 != x.rank:
        return b.op("Gather", x, places, axis=axis)
    others = list(range(axis))
    moved = b.op("Gather", b.transpose(x, [axis, *others]), places, axis=0)
    return b.transpose(moved, [k + 1 for k in others] + [0])


# ---- places found at run time ------------------------------------------------------------------------


def collect_neighbours(b: Builder, dy: Value, axis: int, places: np.ndarray, size: Value) -> Value | None:
    """The gradient of taking constant ``places`` along one axis whose size is known only at run time.

    Args:
        b: Writes the operators.
        dy: Cotangent.
        axis: From 0 on.
        places: int64 of shape (n,); negative ones count from the end.
        size: Entries of the result along ``axis``, int64 of shape (1,).

    Returns:
        One Pad; None unless the places are neighbours and count from one end.
    """
    if not len(places) or (np.diff(places) != 1).any() or (places[0] < 0 <= places[-1]):
        return None
    first, behind = int(places[0]), int(places[-1]) + 1
    before = b.ints([first]) if first >= 0 else size - b.ints([-first])
    after = b.ints([-behind]) if first < 0 else size - b.ints([behind])
    return pad_axes(b, dy, {axis: (before, after)})


def collect_distinct(b: Builder, dy: Value, axis: int, places: Value, size: Value) -> Value:
    """The gradient of taking ``places`` along one axis, where no two of them are equal.

    The inverse of the map is made on a vector of integers, so that the data are moved by one Gather; places
    that are not taken get the entry of zeros at the end, which is number -1.

    Args:
        b: Writes the operators.
        dy: Cotangent.
        axis: From 0 on.
        places: 1-D int64, from 0 on.
        size: Entries of the result along ``axis``, int64 of shape (1,).
    """
    nowhere = b.op("ConstantOfShape", size, value=ir.tensor(np.asarray([-1], dtype=np.int64)))
    chosen = b.op("ScatterElements", nowhere, places, count_up(b, elements(b, places)), axis=0)
    return take(b, pad_axis(b, dy, axis, 0, 1), axis, chosen)


def scatter_along(b: Builder, dy: Value, axis: int, places: Value, shape: Value) -> Value:
    """The gradient of taking any ``places`` along one axis; they may be negative and may repeat.

    Args:
        b: Writes the operators.
        dy: Cotangent, of known rank.
        axis: From 0 on.
        places: Integers of any shape, one for each entry of ``dy`` along the axis, in row-major order.
        shape: Shape of the result, 1-D int64.
    """
    assert dy.rank is not None, "the caller knows the rank"
    if 0 in (dy.static_shape or ()):
        # ONNX Runtime's optimizer drops an Expand from size 1 to a constant size 0.
        return b.fill(shape, 0.0, _dtype(dy))
    if dy.rank != 1 or places.rank != 1:
        column = [1] * dy.rank
        column[axis] = -1
        places = b.op("Expand", b.reshape(places, column), b.shape_of(dy))
    return scatter_add(b, dy, axis, places, shape)


def scatter_flat(b: Builder, dy: Value, places: Value, x: Value) -> Value:
    """Add each element of ``dy`` to zeros like ``x``, at the number that ``places``, of its shape, says.

    For operators of which nothing is known before the model runs, not even the rank: ``places`` is then the
    same operator's result on `numbering`.
    """
    total = scatter_add(b, b.reshape(dy, [-1]), 0, b.reshape(places, [-1]), elements(b, x))
    return b.reshape_like(total, x)


def scatter_add(b: Builder, dy: Value, axis: int, places: Value, shape: Value) -> Value:
    """Zeros of ``shape`` (1-D int64), to which each element of ``dy`` is added at its place along ``axis``.

    ``places`` has the shape of ``dy``. The half types are added in float32: ONNX Runtime has no kernel for
    them, and adding many equal numbers in them stops at a small multiple of the number.
    """
    wide = widened(b, dy)
    zeros = b.fill(shape, 0.0, _dtype(wide))
    total = b.op("ScatterElements", zeros, places, wide, axis=axis, reduction="add")
    return total if dy.dtype is None else b.cast(total, dy.dtype)


def _dtype(x: Value) -> ir.DataType:
    assert x.dtype is not None, f"the element type of {x.name} is unknown"
    return x.dtype
