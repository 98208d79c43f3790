"""Updates of some rows of parameters and states, in place: a step costs what its rows cost, not the table.

Formulas are those of the lowerings in `netgrad.caffe2.lowering.sparse_optimizers`, which run where an output
has another name than the table, or a table has another element type than float32.
"""

from __future__ import annotations

import math

import numpy as np

from netgrad.caffe2.running.blob import Array
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import updates_in_place
from netgrad.caffe2.running.rows import row_update


@updates_in_place("ScatterAssign")
def _scatter_assign(call: Call) -> bool:
    """Write rows; of a row that comes twice the last one stays."""
    at = row_update(call, [(0, 0)], 1, [2], floats=False)
    if at is None:
        return False
    for rows, which in at.turns():
        at.tables[0][rows] = at.slope(which)
    return True


@updates_in_place("ScatterWeightedSum")
def _scatter_weighted_sum(call: Call) -> bool:
    """Rows, first scaled once per occurrence, plus weighted rows of the others."""
    operands = range(3, len(call.definition.input), 2)
    at = row_update(call, [(0, 0)], 2, operands)
    if at is None:
        return False
    scale, weights = call.scalar(1), [call.scalar(operand + 1) for operand in operands]
    table, turns = at.tables[0], list(at.turns())
    if scale != 1:
        for rows, _ in turns:
            table[rows] = table.take(rows, 0) * scale
    for operand, weight in enumerate(weights):
        for rows, which in turns:
            table[rows] = table.take(rows, 0) + weight * at.slope(which, operand)
    return True


@updates_in_place("SparseMomentumSGDUpdate")
def _sparse_momentum(call: Call) -> bool:
    at = row_update(call, [(3, 2), (1, 1)], 4, [0])
    if at is None:
        return False
    parameter, momentum = at.tables
    rate, mu, nesterov = call.scalar(2), call.argument("momentum", 0.0), call.argument("nesterov", 0)
    steps = np.empty_like(at.slopes[0])
    for rows, which in at.turns():
        before = momentum.take(rows, 0)
        after = mu * before + rate * at.slope(which)
        momentum[rows] = after
        steps[which] = step = (1 + mu) * after - mu * before if nesterov else after
        parameter[rows] = parameter.take(rows, 0) - step
    call.put(0, steps.reshape(call.array(0).shape))
    return True


@updates_in_place("SparseAdagrad")
def _sparse_adagrad(call: Call) -> bool:
    return _adagrad(call, by_rows=False)


@updates_in_place("RowWiseSparseAdagrad")
def _row_wise_sparse_adagrad(call: Call) -> bool:
    return _adagrad(call, by_rows=True)


def _adagrad(call: Call, *, by_rows: bool) -> bool:
    at = row_update(call, [(0, 0), (1, 1)], 2, [3])
    if at is None or not _fits(at.tables, by_rows, 1):
        return False
    parameter, history = at.tables
    rate, epsilon = call.scalar(4), call.argument("epsilon", 1e-5)
    for rows, which in at.turns():
        slopes = at.slope(which)
        after = history.take(rows, 0)
        after += _squares(slopes, by_rows)
        history[rows] = after
        divisor = np.sqrt(after, out=after)
        divisor += epsilon
        step = rate * slopes
        step /= divisor
        step += parameter.take(rows, 0)
        parameter[rows] = step
    return True


@updates_in_place("SparseAdam")
def _sparse_adam(call: Call) -> bool:
    return _adam(call, by_rows=False)


@updates_in_place("RowWiseSparseAdam")
def _row_wise_sparse_adam(call: Call) -> bool:
    return _adam(call, by_rows=True)


def _adam(call: Call, *, by_rows: bool) -> bool:
    if call.argument("enableRAdam", 0):
        return False
    at = row_update(call, [(0, 0), (1, 1), (2, 2)], 3, [4])
    if at is None or not _fits(at.tables, by_rows, 2):
        return False
    parameter, first, second = at.tables
    beta1, beta2 = call.argument("beta1", 0.9), call.argument("beta2", 0.999)
    rate, epsilon, time = call.scalar(5), call.argument("epsilon", 1e-5), call.scalar(6) + 1
    correction = math.sqrt(1 - beta2**time) / (1 - beta1**time)
    steps = np.empty_like(at.slopes[0])
    for rows, which in at.turns():
        slopes = at.slope(which)
        mean = beta1 * first.take(rows, 0) + (1 - beta1) * slopes
        square = beta2 * second.take(rows, 0) + (1 - beta2) * _squares(slopes, by_rows)
        first[rows], second[rows] = mean, square
        steps[which] = step = correction * mean / (np.sqrt(square) + epsilon)
        parameter[rows] = parameter.take(rows, 0) + rate * step
    if len(call.definition.output) > 3:
        call.put(3, steps.reshape(call.array(4).shape))
    return True


def _squares(slopes: Array, by_rows: bool) -> Array:
    """Squares, or their mean over each row, as a column."""
    return np.square(slopes).mean(1, keepdims=True) if by_rows else np.square(slopes)


def _fits(tables: list[Array], by_rows: bool, at: int) -> bool:
    """Whether the state at an index has a number per row if wanted, and all others one per number."""
    wide = tables[0].shape
    return all(
        table.shape == (wide[0], 1 if by_rows and k == at else wide[1]) for k, table in enumerate(tables)
    )
