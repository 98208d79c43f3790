"""The sparse form of FTRL, whose steps depend on each other where a row is updated twice."""

from __future__ import annotations

import numpy as np

from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs


@runs("SparseFtrl")
def _sparse_ftrl(call: Call) -> None:
    """``Ftrl`` (see `netgrad.caffe2.lowering.optimizers`) of some rows, one occurrence after the other."""
    parameter, state = call.array(0).copy(), call.array(1).copy()
    indices, gradient = call.array(2), call.array(3)
    alpha = call.scalar(4) if len(call.definition.input) > 4 else call.argument("alpha", 0.005)
    beta = call.argument("beta", 1.0)
    lambda1, lambda2 = call.argument("lambda1", 0.001), call.argument("lambda2", 0.001)
    rows = gradient.reshape(indices.size, *parameter.shape[1:])
    for row, slope in zip(indices.reshape(-1), rows, strict=True):
        counts, sums = state[row][..., 0], state[row][..., 1]
        after = counts + slope * slope
        sums = sums + slope - (np.sqrt(after) - np.sqrt(counts)) / alpha * parameter[row]
        moved = (lambda1 * np.sign(sums) - sums) / ((beta + np.sqrt(after)) / alpha + lambda2)
        parameter[row] = np.where(np.abs(sums) > lambda1, moved, 0)
        state[row] = np.stack([after, sums], -1)
    call.write(0, parameter)
    call.write(1, state)
