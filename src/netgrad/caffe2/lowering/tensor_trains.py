"""Matrices and tables as tensor trains: products of small tensors, the cores (Oseledets, 2011)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.segments import summed_runs, whole
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.onnx.builder import Builder, Value


@lowers("TT")
def _train(c: Context, x: Value, bias: Value, cores: Value) -> Value:
    """X times a matrix plus a bias; the cores stand one after the other in a vector, the last one first.

    Core i is a matrix of inp_sizes[i] * tt_ranks[i + 1] rows and tt_ranks[i] * out_sizes[i] columns. The
    original mixes up the rows of Y where X has several; here each is that of its row of X.
    """
    b = c.b
    sizes, outputs, ranks = (c.integers(name) for name in ("inp_sizes", "out_sizes", "tt_ranks"))
    if not sizes or len(outputs) != len(sizes) or len(ranks) != len(sizes) + 1:
        raise c.refused("it needs inp_sizes, as many out_sizes, and one more of tt_ranks")
    y, start = x, 0
    for at in reversed(range(len(sizes))):
        rows, columns = sizes[at] * ranks[at + 1], ranks[at] * outputs[at]
        core = b.reshape(b.slice(cores, 0, start, start + rows * columns), [rows, columns])
        start += rows * columns
        y = b.reshape(b.reshape(y, [-1, rows]) @ core, [-1, outputs[at]])
        y = b.transpose(y, [1, 0])
    return b.transpose(b.reshape(y, [math.prod(outputs), -1]), [1, 0]) + bias


def _rows(c: Context, b: Builder, given: Sequence[Value]) -> list[Value]:
    """What the first core, the first two, and all three make of each row: (rows, columns, rank)."""
    first, second, third, numbers = given
    columns = [c.static(core, 2) for core in (first, second, third)]
    ranks = [c.static(core, 3) for core in (first, second, third)]

    def picked(core: Value, at: int) -> Value:
        number = b.squeeze(b.slice(numbers, 1, at, at + 1), [1])
        return b.op("Gather", core, number, axis=0)

    found = [b.reshape(picked(first, 0), [-1, columns[0], ranks[0]])]
    for at, core in ((1, second), (2, third)):
        matrix = b.reshape(picked(core, at), [-1, ranks[at - 1], columns[at] * ranks[at]])
        product = b.op("MatMul", found[-1], matrix)
        found.append(b.reshape(product, [-1, math.prod(columns[: at + 1]), ranks[at]]))
    return found


def _total(c: Context, b: Builder, given: Sequence[Value]) -> Value:
    *cores, numbers, lengths = given
    width = math.prod(c.static(core, 2) for core in cores)
    return summed_runs(b, b.reshape(_rows(c, b, [*cores, numbers])[-1], [-1, width]), lengths)


@lowers("TTSparseLengthsSum")
def _table(
    c: Context, first: Value, second: Value, third: Value, indices: Value, lengths: Value
) -> Sequence[Value]:
    """Sums of looked-up rows of a table in three cores, each of shape (rows, rank, columns, next rank).

    The digits of an index, the first one being the lowest, are its rows in the cores. Further outputs: the
    rows of the first core, of the first two, and the digits.
    """
    b = c.b
    sizes = c.integers("factor_i") or [c.static(core, 0) for core in (first, second, third)]
    if len(sizes) != 3 or c.static(third, 3) != 1:
        raise c.refused("three cores are needed, and the last rank is 1")
    number, digits = whole(b, indices), []
    for size in sizes:
        digits.append(b.unsqueeze(b.op("Mod", number, b.constant(np.int64(size))), [1]))
        number = number / size
    numbers = b.concat(digits, 1)
    cores = [first, second, third]
    found = [_total(c, b, [*cores, numbers, lengths]), *_rows(c, b, [*cores, numbers])[:2], numbers]
    return found[: c.outputs]


@lowers("TTSparseLengthsSumGradient")
def _table_gradient(
    c: Context,
    first: Value,
    second: Value,
    third: Value,
    lengths: Value,
    rows: Value,
    more_rows: Value,
    numbers: Value,
    dy: Value,
) -> list[Value]:
    """The gradients of the cores; what the forward operator has kept of the rows is computed again."""
    return gradients(
        c.b,
        lambda b, given: [_total(c, b, given)],
        [first, second, third],
        [dy],
        [numbers, lengths],
    )
