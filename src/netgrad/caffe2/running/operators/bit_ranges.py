"""Ranges of rows that are quantized to few bits."""

from __future__ import annotations

import numpy as np

from netgrad.caffe2.running.blob import Array

_BINS = 200
_NARROWEST = np.float32(1 - 0.16)
"""Into how many steps a row's range is cut, and the least share of it that the search goes down to."""

_LANES = 8  # in which the original adds up the squares of a row


def scaled(rows: Array, low: Array, high: Array, bits: int) -> tuple[Array, Array, Array]:
    """Rows as whole numbers of ``bits`` bits, with their scales and biases, as floats that halves can hold.

    Args:
        rows: The rows, (count, columns).
        low: What becomes 0, (count, 1).
        high: What becomes the largest number, (count, 1).
        bits: How many bits a number has.
    """
    largest = np.float32(2**bits - 1)
    bias = low.astype(np.float16).astype(np.float32)
    scale = ((high - bias) / largest).astype(np.float16).astype(np.float32)
    scale = np.where(scale == 0, np.float32(1), scale)
    numbers = np.clip(np.rint((rows - bias) * (np.float32(1) / scale)), 0, largest)
    return numbers, scale, bias


def least_loss_ranges(rows: Array, bits: int) -> tuple[Array, Array]:
    """The ends of each row's range, (count, 1), between which the rounded row is next to the row.

    The end that loses less is moved inwards, step by step; of the ranges on the way from which either step
    would have lost more, the best is taken, or the whole range if there were none.

    Guan and others, "Post-training 4-bit quantization on embedding tables" (2019), section 3.
    """
    low, high = rows.min(1, keepdims=True), rows.max(1, keepdims=True)
    step = (high - low) / np.float32(_BINS)
    narrowest = np.float32(_BINS) * _NARROWEST * step
    best_low, best_high, best = low.copy(), high.copy(), np.full_like(low, np.inf)
    loss = _loss(rows, low, high, bits)
    low, high = low.copy(), high.copy()
    while True:
        at = np.flatnonzero(low + narrowest < high)
        if not at.size:
            return best_low, best_high
        left, right, inward = low[at], high[at], step[at]
        from_left = _loss(rows[at], left + inward, right, bits)
        from_right = _loss(rows[at], left, right - inward, bits)
        better = (loss[at] < from_left) & (loss[at] < from_right) & (loss[at] < best[at])
        best_low[at] = np.where(better, left, best_low[at])
        best_high[at] = np.where(better, right, best_high[at])
        best[at] = np.where(better, loss[at], best[at])
        moves_left = from_left < from_right
        low[at] = np.where(moves_left, left + inward, left)
        high[at] = np.where(moves_left, right, right - inward)
        loss[at] = np.where(moves_left, from_left, from_right)


def _loss(rows: Array, low: Array, high: Array, bits: int) -> Array:
    """How far each row is from what its numbers stand for, (count, 1)."""
    numbers, scale, bias = scaled(rows, low, high, bits)
    squares = np.square(rows - (numbers * scale + bias))
    whole = squares.shape[1] // _LANES * _LANES
    lanes = squares[:, :whole].reshape(len(rows), -1, _LANES).sum(1)
    total = np.zeros(len(rows), np.float32)
    for part in (*lanes.T, *squares[:, whole:].T):
        total += part
    found: Array = np.sqrt(total)[:, None]
    return found
