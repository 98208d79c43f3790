"""Cores of tensor trains for the operator ``TT``: drawn, or made from the weights of an ``FC``.

The core of number i has tt_ranks[i] * inp_sizes[i] * out_sizes[i] * tt_ranks[i + 1] elements (Oseledets,
Tensor-train decomposition, 2011; Novikov et al., Tensorizing neural networks, arXiv:1509.06569).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def _check(inp_sizes: Sequence[int], out_sizes: Sequence[int], tt_ranks: Sequence[int]) -> None:
    assert len(inp_sizes) == len(out_sizes), (
        f"there are {len(inp_sizes)} input sizes and {len(out_sizes)} output sizes"
    )
    assert len(tt_ranks) == len(inp_sizes) + 1, (
        f"there are {len(tt_ranks)} ranks for {len(inp_sizes)} sizes, and one more is needed"
    )


def init_tt_cores(
    inp_sizes: Sequence[int], out_sizes: Sequence[int], tt_ranks: Sequence[int], seed: int = 1234
) -> Array:
    """Cores to start training with, as one vector: normal draws, made orthogonal one after the other.

    They are scaled by a tenth of the d-th root of the sizes and ranks multiplied, for d cores.
    """
    _check(inp_sizes, out_sizes, tt_ranks)
    random = np.random.RandomState(seed)
    rest: Array = np.ones((1, 1))
    cores = []
    for at, (inputs, outputs) in enumerate(zip(inp_sizes, out_sizes, strict=True)):
        before, after = tt_ranks[at], tt_ranks[at + 1]
        core = rest @ random.normal(size=(before, inputs * outputs * after))
        core = core.reshape(-1, after)
        if at < len(inp_sizes) - 1:
            core, rest = np.linalg.qr(core)
        cores.append(core.reshape(-1))
    scale = 0.1 / (math.prod(inp_sizes) * math.prod(tt_ranks)) ** (1.0 / len(inp_sizes))
    vector: Array = scale * np.concatenate(cores).astype(np.float32)
    return vector


def matrix_to_tt(
    W: Array, inp_sizes: Sequence[int], out_sizes: Sequence[int], tt_ranks: Sequence[int]
) -> Array:
    """The cores of a matrix of weights, as one vector in the order that ``TT`` takes: X W^T is what it gives.

    With ranks that are too small for W they are its best ones, core by core.
    """
    _check(inp_sizes, out_sizes, tt_ranks)
    assert W.shape[0] == math.prod(inp_sizes), f"{W.shape[0]} rows are not {list(inp_sizes)} multiplied"
    assert W.shape[1] == math.prod(out_sizes), f"{W.shape[1]} columns are not {list(out_sizes)} multiplied"
    count = len(inp_sizes)
    pairs = [axis for at in range(count) for axis in (at, count + at)]
    sizes = np.multiply(inp_sizes, out_sizes)
    tensor = W.T.reshape(*inp_sizes, *out_sizes).transpose(pairs).reshape(sizes)
    cores = tt_svd(tensor, sizes, tt_ranks)
    parts, start = [], 0
    for at, size in enumerate(sizes):
        shape = (tt_ranks[at], inp_sizes[at], out_sizes[at], tt_ranks[at + 1])
        end = start + tt_ranks[at] * int(size) * tt_ranks[at + 1]
        parts.append(cores[start:end].reshape(shape).transpose(1, 3, 0, 2).reshape(-1))
        start = end
    return np.concatenate(parts[::-1]).astype(np.float32)


def tt_svd(W: Array, sizes: Any, tt_ranks: Sequence[int]) -> Array:
    """The cores of a tensor by singular values, axis by axis, as one vector of float32."""
    assert len(tt_ranks) == len(sizes) + 1, f"there are {len(tt_ranks)} ranks for {len(sizes)} sizes"
    rest, cores = W, []
    for at, size in enumerate(sizes[:-1]):
        left, values, right = np.linalg.svd(rest.reshape(tt_ranks[at] * size, -1), full_matrices=False)
        rank = tt_ranks[at + 1]
        cores.append(left[:, :rank].reshape(-1))
        rest = values[:rank, None] * right[:rank]
    return np.concatenate([*cores, rest.reshape(-1)]).astype(np.float32)
