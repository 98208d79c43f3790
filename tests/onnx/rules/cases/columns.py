"""Rows of Col2Im, for which ONNX Runtime has a float32 kernel only."""

from typing import Any

import numpy as np

from tests.onnx.rules.table import Case, constant, normal, run_time


def _blocks(
    x: tuple[int, ...], image: list[int], block: list[int], note: str = "", **attributes: Any
) -> Case:
    return Case("Col2Im", [normal(*x), constant(image), constant(block)], attributes, note)


CASES = [
    _blocks((1, 4, 6), [3, 4], [2, 2], "overlapping"),
    _blocks((2, 6, 4), [4, 6], [2, 3], "tiling", strides=[2, 3]),
    _blocks((1, 5, 5), [5, 5], [1, 5], "rows"),
    _blocks((1, 8, 4), [6, 6], [2, 2], dilations=[1, 5], strides=[2, 1], pads=[0, 0, 2, 0]),
    _blocks((1, 9, 12), [3, 4], [3, 3], pads=[1, 1, 1, 1]),
    _blocks((1, 4, 4), [3, 3], [2, 2], pads=[1, 0, 0, 1], strides=[2, 2]),
    _blocks((1, 8, 4), [2, 3, 3], [2, 2, 2], "three axes"),
    Case(
        "Col2Im",
        [normal(0, 4, 6), constant([3, 4]), constant([2, 2])],
        note="empty batch",
        forward=lambda x, image, block: np.zeros((0, 1, 3, 4)),
        gradient_dtype="float32",
    ),
    Case(
        "Col2Im",
        [normal(2, 4, 3), run_time([3, 3]), run_time([2, 2])],
        {"strides": [1, 2], "pads": [0, 0, 1, 0]},
        note="shapes at run time",
    ),
]
