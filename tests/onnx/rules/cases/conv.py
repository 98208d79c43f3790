"""Rows of Conv and ConvTranspose."""

from typing import Any

from tests.onnx.rules.table import Case, Tensor, normal

Shape = tuple[int, ...]


def _row(x: Shape, w: Shape, b: int = 0, note: str = "", op: str = "Conv", **attributes: Any) -> Case:
    inputs: list[Tensor | None] = [normal(*x), normal(*w)]
    return Case(op, [*inputs, normal(b)] if b else inputs, attributes, note)


def _transposed(x: Shape, w: Shape, b: int = 0, note: str = "", **attributes: Any) -> Case:
    return _row(x, w, b, note, "ConvTranspose", **attributes)


CONV = [
    # One to three spatial axes, with and without bias and kernel_shape.
    _row((2, 2, 7), (3, 2, 3)),
    _row((2, 2, 5, 4), (3, 2, 3, 2), 3),
    _row((1, 2, 5, 3), (2, 2, 3, 2), 2, kernel_shape=[3, 2]),
    _row((1, 2, 4, 3, 3), (2, 2, 2, 2, 2), 2),
    # Pads, the same on both sides or not, on one side only.
    _row((1, 2, 4, 3), (2, 2, 3, 3), pads=[1, 1, 1, 1]),
    _row((1, 2, 4, 3), (3, 2, 3, 2), pads=[0, 2, 1, 0]),
    _row((2, 2, 4), (2, 2, 3), pads=[0, 2]),
    # Strides that reach the end of the input, that leave a rest, that the padding swallows, above the kernel.
    _row((2, 2, 5, 3), (2, 2, 3, 2), 2, strides=[2, 1]),
    _row((1, 2, 6, 7), (2, 2, 3, 2), strides=[2, 3]),
    _row((2, 2, 4, 6), (2, 1, 3, 3), group=2, strides=[2, 2], pads=[1, 1, 1, 1]),
    _row((1, 2, 8), (2, 2, 2), strides=[3]),
    _row((1, 2, 9), (2, 2, 2), strides=[4], pads=[0, 1]),
    _row((1, 1, 4, 3, 5), (2, 1, 2, 2, 3), strides=[2, 1, 2], pads=[1, 0, 0, 0, 1, 1]),
    # Dilation, alone and with strides on either side of it.
    _row((1, 2, 7, 6), (2, 2, 3, 2), dilations=[2, 3]),
    _row((1, 2, 9), (2, 2, 3), dilations=[2], strides=[2], pads=[1, 1]),
    _row((1, 2, 10), (2, 2, 2), dilations=[2], strides=[3]),
    _row((1, 2, 10), (2, 2, 2), dilations=[3], strides=[2]),
    # auto_pad.
    _row((1, 2, 5, 6), (2, 2, 3, 2), auto_pad="SAME_UPPER"),
    _row((1, 2, 5, 6), (2, 2, 3, 2), auto_pad="SAME_LOWER"),
    _row((1, 2, 6, 7), (2, 2, 3, 4), auto_pad="SAME_UPPER", strides=[2, 3]),
    _row((1, 2, 6, 7), (2, 2, 3, 4), auto_pad="SAME_LOWER", strides=[2, 3]),
    _row((1, 2, 7), (2, 2, 2), auto_pad="SAME_UPPER", strides=[3]),
    _row((1, 2, 5, 6), (2, 2, 3, 2), 2, auto_pad="VALID", strides=[1, 2]),
    _row((1, 2, 5, 6), (2, 2, 3, 2), auto_pad="NOTSET", pads=[1, 0, 0, 1]),
    # Groups, depthwise, depthwise with a multiplier, each alone and with strides.
    _row((2, 4, 4, 3), (4, 2, 2, 2), 4, group=2),
    _row((2, 4, 6), (2, 2, 3), group=2, strides=[2]),
    _row((1, 3, 4, 3), (3, 1, 3, 3), 3, group=3, pads=[1, 1, 1, 1]),
    _row((1, 2, 5, 5), (4, 1, 2, 2), group=2, strides=[2, 2]),
    _row((1, 2, 5, 6), (4, 1, 4, 3), group=2, strides=[1, 2], note="large kernel"),
    _row((1, 4, 5, 6), (2, 2, 4, 3), group=2, strides=[2, 1], note="large kernel"),
    # One channel; one batch entry or several; kernels of one element, with stride, with groups, with padding.
    _row((3, 1, 5, 4), (2, 1, 3, 2)),
    _row((1, 3, 4, 3), (2, 3, 1, 1), 2),
    _row((3, 3, 4, 3), (2, 3, 1, 1)),
    _row((2, 3, 1, 2), (5, 3, 1, 1), note="more weights than positions"),
    _row((2, 3, 5, 4), (2, 3, 1, 1), strides=[2, 3]),
    _row((2, 4, 3, 2), (6, 2, 1, 1), group=2),
    _row((1, 4, 3, 2), (6, 2, 1, 1), group=2),
    _row((1, 2, 3, 2), (2, 2, 1, 1), pads=[1, 0, 0, 1]),
    _row((2, 3, 4), (2, 3, 1)),
    # Many channels: other forms of the gradients.
    Case("Conv", [normal(1, 17, 4, 3), normal(2, 17, 2, 2)], note="many channels", second_order=False),
    Case(
        "Conv",
        [normal(2, 17, 3, 3), normal(2, 17, 2, 2)],
        {"strides": [2, 1]},
        "many channels",
        second_order=False,
    ),
    # Nothing at all.
    _row((0, 2, 4, 3), (3, 2, 2, 2), 3, note="empty batch"),
    _row((0, 3, 2, 2), (2, 3, 1, 1), note="empty batch"),
]

TRANSPOSED = [
    _transposed((2, 2, 4), (2, 3, 3)),
    _transposed((2, 2, 3, 2), (2, 3, 3, 2), 3),
    _transposed((1, 2, 2, 3, 2), (2, 2, 2, 2, 2), 2),
    _transposed((1, 2, 3, 2), (2, 2, 3, 2), kernel_shape=[3, 2], strides=[2, 3]),
    _transposed((1, 2, 3, 3), (2, 3, 3, 3), strides=[2, 2], pads=[1, 0, 0, 2]),
    _transposed((1, 2, 3, 3), (2, 2, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
    _transposed((1, 2, 3), (2, 2, 2), strides=[3], output_padding=[2]),
    _transposed((1, 2, 3), (2, 2, 2), dilations=[3], output_padding=[1], strides=[2]),
    _transposed((1, 2, 3, 2), (2, 3, 2, 3), 3, dilations=[2, 1]),
    _transposed((1, 4, 3, 2), (4, 3, 2, 2), 6, group=2, strides=[2, 1]),
    _transposed((2, 3, 3), (3, 1, 2), group=3),
    _transposed((1, 2, 3, 3), (2, 2, 3, 3), strides=[2, 2], output_shape=[6, 5]),
    _transposed((1, 2, 3, 3), (2, 2, 3, 3), strides=[2, 2], output_shape=[6, 6], auto_pad="SAME_UPPER"),
    _transposed((1, 2, 3, 3), (2, 2, 3, 4), strides=[2, 2], auto_pad="SAME_UPPER"),
    _transposed((1, 2, 3, 3), (2, 2, 3, 4), strides=[2, 2], auto_pad="SAME_LOWER"),
    _transposed((1, 2, 3, 3), (2, 2, 3, 2), 2, strides=[2, 1], auto_pad="VALID"),
    _transposed((2, 3, 3, 2), (3, 2, 1, 1)),
    _transposed((0, 2, 3), (2, 3, 2), 3, note="empty batch"),
]

CASES = [*CONV, *TRANSPOSED]
