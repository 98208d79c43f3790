"""Rows of the scale that DynamicQuantizeLinear finds."""

from typing import Any

import numpy as np

from tests.onnx.rules.table import Case, distinct, exactly, positive

Results = tuple[np.ndarray, np.ndarray, np.ndarray]


def quantize(x: np.ndarray) -> Results:
    high, low = max(float(x.max()), 0.0), min(float(x.min()), 0.0)
    scale = (high - low) / 255
    zero = np.rint(-low / scale)
    return (
        np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8),
        np.array(scale),
        zero.astype(np.uint8),
    )


def _row(x: Any, note: str, **more: Any) -> Case:
    return Case(
        "DynamicQuantizeLinear",
        [x],
        note=note,
        outputs=3,
        of=[1],
        forward=quantize,
        gradient_dtype="float32",
        **more,
    )


CASES = [
    _row(distinct(2, 3), "both ends"),
    _row(positive(5), "above zero"),
    _row(exactly([[-3.0, -0.5], [-1.25, -2.0]]), "below zero"),
    _row(
        exactly([2.0, -1.0, 2.0, 0.5, -1.0]),
        "ties",
        expected=[np.array([0.5, -0.5, 0.5, 0.0, -0.5]) / 255],
    ),
]
