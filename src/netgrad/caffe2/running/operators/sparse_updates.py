"""Updates of some rows of parameters whose steps depend on each other where a row is updated twice.

Each occurrence of a row counts on its own, in order. Formulas are those of the dense operators, in
`netgrad.caffe2.lowering.optimizers` and `netgrad.caffe2.lowering.adaptive`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.running.blob import Array
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs


class _Rows:
    """The parameters and states that an operator updates, which are copied first.

    Attributes:
        updated: What the first inputs hold; the outputs in the same order.
    """

    def __init__(self, call: Call, states: int) -> None:
        self._call = call
        self.updated = [call.array(at).copy() for at in range(states)]

    def occurrences(self, indices: int, gradient: int) -> Iterator[tuple[int, Array]]:
        """Each row number of an input, with its part of another one.

        Raises:
            RunError: A row isn't there.
        """
        numbers, slopes = self._call.array(indices).reshape(-1), self._call.array(gradient)
        parameter = self.updated[0]
        slopes = slopes.reshape(numbers.size, *parameter.shape[1:])
        for row, slope in zip(numbers, slopes, strict=True):
            if not 0 <= row < len(parameter):
                raise self._call.error(f"there is no row {row}: the parameter has {len(parameter)}")
            yield int(row), slope

    def write(self) -> None:
        """Write what was updated."""
        for at, array in enumerate(self.updated):
            self._call.write(at, array)


@runs("SparseFtrl")
def _sparse_ftrl(call: Call) -> None:
    rows = _Rows(call, 2)
    parameter, state = rows.updated
    alpha = call.scalar(4) if len(call.definition.input) > 4 else call.argument("alpha", 0.005)
    beta = call.argument("beta", 1.0)
    lambda1, lambda2 = call.argument("lambda1", 0.001), call.argument("lambda2", 0.001)
    for row, slope in rows.occurrences(2, 3):
        counts, sums = state[row][..., 0], state[row][..., 1]
        after = counts + slope * slope
        sums = sums + slope - (np.sqrt(after) - np.sqrt(counts)) / alpha * parameter[row]
        moved = (lambda1 * np.sign(sums) - sums) / ((beta + np.sqrt(after)) / alpha + lambda2)
        parameter[row] = np.where(np.abs(sums) > lambda1, moved, 0)
        state[row] = np.stack([after, sums], -1)
    rows.write()


@runs("SparseAdadelta")
def _sparse_adadelta(call: Call) -> None:
    rows = _Rows(call, 3)
    parameter, squares, steps = rows.updated
    rate, epsilon, decay = call.scalar(5), call.argument("epsilon", 1e-5), call.argument("decay", 0.95)
    for row, slope in rows.occurrences(3, 4):
        squares[row] = decay * squares[row] + (1 - decay) * slope * slope
        step = np.sqrt(steps[row] + epsilon) / np.sqrt(squares[row] + epsilon) * slope
        parameter[row] += rate * step
        steps[row] = decay * steps[row] + (1 - decay) * step * step
    rows.write()


@runs("SparseWngrad")
def _sparse_wngrad(call: Call) -> None:
    """``Wngrad``, where the divisor grows by |g|² / b, without the epsilon."""
    rows = _Rows(call, 2)
    parameter, divisor = rows.updated
    before = divisor.reshape(-1)[0]
    step = call.scalar(4) / (before + call.argument("epsilon", 1e-5))
    for row, slope in rows.occurrences(2, 3):
        parameter[row] += step * slope
    if call.array(2).size:
        divisor += np.square(call.array(3)).sum() / before
    rows.write()


@runs("SparseStorm")
def _sparse_storm(call: Call) -> None:
    rows = _Rows(call, 3)
    parameter, momentum, squares = rows.updated
    if call.array(4).size:
        squares += np.square(call.array(3)).sum()
    rate = call.scalar(5) * (call.argument("beta", 0.1) + squares.reshape(-1)[0]) ** (-1 / 3)
    kept = 1 - call.argument("momentum", 10.0) * rate * rate
    for row, slope in rows.occurrences(4, 3):
        momentum[row] = slope + kept * (momentum[row] - slope)
        parameter[row] += rate * momentum[row]
    rows.write()


def _decays(definition: OperatorDef) -> bool:
    return any(argument.name == "weight_decay" and argument.f for argument in definition.arg)


def _adagrad(call: Call, mean: bool) -> None:
    """``Adagrad`` with weight decay; with a counter in proportion to how seldom a row has come."""
    rows = _Rows(call, 2)
    parameter, history = rows.updated
    rate, epsilon = call.scalar(4), call.argument("epsilon", 1e-5)
    decay, life = call.argument("weight_decay", 0.0), call.argument("counter_halflife", -1)
    counter = call.array(5).reshape(-1) if life > 0 and len(call.definition.input) > 5 else None
    for row, slope in rows.occurrences(2, 3):
        seldom = life / counter[row] if counter is not None and counter[row] > 0 else 1.0
        slope = slope + np.float32(decay * seldom) * parameter[row]
        history[row] += np.square(slope).mean() if mean else slope * slope
        parameter[row] += rate * slope / (np.sqrt(history[row]) + epsilon)
    rows.write()


@runs("SparseAdagrad", when=_decays)
def _sparse_adagrad(call: Call) -> None:
    _adagrad(call, mean=False)


@runs("RowWiseSparseAdagrad", when=_decays)
def _row_wise_sparse_adagrad(call: Call) -> None:
    _adagrad(call, mean=True)


@runs("RowWiseCounter")
def _row_wise_counter(call: Call) -> None:
    """Counts of the occurrences of rows, of which half is forgotten in ``counter_halflife`` iterations."""
    before = call.array(0)
    seen, counts = before.flatten(), call.array(1).copy()
    now, life = int(call.scalar(3)), call.argument("counter_halflife", -1)
    for row in call.array(2).reshape(-1) if life > 0 else ():
        if not 0 <= row < counts.size:
            raise call.error(f"there is no row {row}: the counter has {counts.size}")
        passed = max(0, now - int(seen[row]))
        counts[row] = 1 + math.exp(-passed * math.log(2) / life) * counts[row]
        seen[row] = max(now, int(seen[row]))
    call.write(0, seen.reshape(before.shape))
    call.write(1, counts)


@runs("SmartDecaySparseAdam")
def _smart_decay(call: Call) -> None:
    """``Adam`` without corrections, with what the moments of a row missed while it didn't occur."""
    rows = _Rows(call, 4)
    parameter, first, second, seen = rows.updated
    rate, now = call.scalar(6), int(call.scalar(7)) + 1
    beta1, beta2 = call.argument("beta1", 0.9), call.argument("beta2", 0.999)
    for row, slope in rows.occurrences(4, 5):
        passed = now - int(seen[row])
        late: Any = 0.0
        if passed > 1:
            late = first[row] * beta1 * (1 - beta1 ** (passed - 1)) / (1 - beta1)
        first[row] = first[row] * beta1**passed + slope * (1 - beta1)
        second[row] = second[row] * beta2**passed + slope * slope * (1 - beta2)
        parameter[row] += rate * (first[row] + late) / (np.sqrt(second[row]) + call.argument("epsilon", 1e-5))
        seen[row] = now
    rows.write()


@runs("SparseNormalize", "Float16SparseNormalize")
def _sparse_normalize(call: Call) -> None:
    """Rows scaled to a norm, or with ``use_max_norm`` (the default) those whose norm is larger."""
    parameter = call.array(0).copy()
    wanted, at_most = call.argument("norm", 1.0), call.argument("use_max_norm", 1)
    for row in call.array(1).reshape(-1):
        norm = np.sqrt(np.square(parameter[row]).sum()) + 1e-12
        if not at_most or norm >= wanted:
            parameter[row] *= wanted / norm
    call.write(0, parameter)
