"""Rows of LRN."""

from typing import Any

import numpy as np

from tests.onnx.rules.table import Case, exactly, normal


def _lrn(size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Any:
    """Channel by channel; the evaluator's loop over channels stops at the batch size."""

    def forward(x: np.ndarray) -> np.ndarray:
        base = np.empty_like(x)
        for c in range(x.shape[1]):
            low, high = max(0, c - (size - 1) // 2), min(x.shape[1] - 1, c + size // 2)
            base[:, c] = bias + np.float32(alpha) / size * (x[:, low : high + 1] ** 2).sum(1)
        return x / base ** np.float32(beta)

    return forward


def _row(size: int, *shape: int, **attributes: float) -> Case:
    return Case("LRN", [normal(*shape)], {"size": size, **attributes}, forward=_lrn(size, **attributes))


CASES = [
    _row(3, 2, 5, 2, 2),
    # A strong normalisation, so that the second term counts; odd, even and all too wide windows.
    *(_row(size, 2, 5, 2, 1, alpha=2.0, beta=0.75, bias=0.5) for size in (1, 2, 3, 4, 5)),
    _row(9, 1, 3, 2, 1, alpha=2.0, beta=0.75, bias=0.5),
    _row(3, 2, 4, 3, 1, alpha=1.5, beta=0.5, bias=2.0),
    Case(
        "LRN",
        [exactly(np.zeros((0, 3, 2, 2)))],
        {"size": 3},
        note="no images",
        expected=[np.zeros((0, 3, 2, 2))],
    ),
]
