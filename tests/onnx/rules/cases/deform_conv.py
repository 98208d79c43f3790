"""Rows of DeformConv: positions inside of the image and far outside, away from whole pixels."""

from typing import Any

import numpy as np

from tests.onnx.rules.table import Case, Tensor, exactly, normal


def _offsets(*shape: int) -> Tensor:
    """Offsets up to 2.5 pixels, at least 0.08 from whole ones."""

    def draw(rng: np.random.Generator) -> np.ndarray:
        whole = rng.integers(-2, 3, size=shape)
        return np.round(whole + rng.choice([-1, 1], size=shape) * rng.uniform(0.08, 0.46, size=shape), 3)

    return Tensor(draw)


def _row(
    x: tuple[int, ...],
    w: tuple[int, ...],
    out: tuple[int, int],
    note: str = "",
    *,
    bias: bool = False,
    mask: bool = False,
    **attributes: Any,
) -> Case:
    elements = attributes.get("offset_group", 1) * w[2] * w[3]
    inputs = [
        normal(*x),
        normal(*w),
        _offsets(x[0], 2 * elements, *out),
        normal(w[0]) if bias else None,
        normal(x[0], elements, *out) if mask else None,
    ]
    return Case("DeformConv", inputs, attributes, note, opset=19)


CASES = [
    _row((1, 1, 4, 5), (2, 1, 2, 2), (3, 4)),
    _row((2, 2, 3, 4), (1, 2, 2, 3), (2, 2), "two images", bias=True),
    _row((1, 2, 4, 4), (2, 2, 2, 1), (3, 4), "mask", mask=True),
    _row((1, 2, 4, 3), (2, 1, 2, 2), (3, 2), group=2, mask=True, bias=True),
    _row((1, 4, 3, 3), (2, 2, 2, 2), (2, 2), group=2, offset_group=4, mask=True),
    _row((1, 4, 3, 3), (2, 4, 2, 2), (2, 2), offset_group=2),
    _row((1, 1, 5, 4), (1, 1, 2, 2), (3, 3), pads=[1, 0, 0, 1], strides=[2, 1], dilations=[1, 2], bias=True),
    _row((1, 1, 3, 3), (1, 1, 2, 2), (2, 2), "sizes", kernel_shape=[2, 2], mask=True),
    _row((0, 1, 3, 3), (1, 1, 2, 2), (2, 2), "empty batch", mask=True),
    Case(
        "DeformConv",
        [exactly([[[[1.0, 2.0, 5.0]]]]), exactly([[[[1.0]]]]), exactly(np.zeros((1, 2, 1, 3)))],
        note="whole positions",
        opset=19,
        expected=[np.ones((1, 1, 1, 3)), [[[[8]]]], [[[[-1, -2, -5]], [[1, 3, -5]]]]],
    ),
]
