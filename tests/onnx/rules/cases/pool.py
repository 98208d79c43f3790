"""Rows of pools."""

from typing import Any

import numpy as np

from tests.onnx.rules.table import Case, Tensor, away_from_zero, constant, distinct, exactly, normal

Shape = tuple[int, ...]


def _max(x: Shape, note: str = "", of: tuple[int, ...] = (0,), outputs: int = 1, **attributes: Any) -> Case:
    return Case("MaxPool", [distinct(*x)], attributes, note, outputs=outputs, of=of)


def _average(x: Shape, note: str = "", opset: int = 19, **attributes: Any) -> Case:
    return Case("AveragePool", [normal(*x)], attributes, note, opset=opset)


def _put_back(x: np.ndarray, places: np.ndarray, *shape: np.ndarray) -> np.ndarray:
    """MaxUnpool of rows of four elements: the places count the elements of the whole result."""
    y = np.zeros((1, 2, 4))
    np.put(y, places.astype(int), x)
    return y


def _tied(values: Any, expected: Any, op: str = "MaxPool", note: str = "ties", **attributes: Any) -> Case:
    shape = (1, 1, *np.shape(values))
    return Case(
        op, [exactly(np.reshape(values, shape))], attributes, note, expected=[np.reshape(expected, shape)]
    )


def _places(*values: int) -> Tensor:
    return Tensor(lambda rng: np.array(values, dtype=np.int64).reshape(1, 2, -1), fed=True)


MAX = [
    # Windows that tile the input; that leave a rest; that overlap; in one to three axes.
    _max((2, 2, 4, 6), kernel_shape=[2, 3], strides=[2, 3]),
    _max((2, 2, 5, 4), kernel_shape=[2, 2], strides=[2, 2], note="rest"),
    _max((2, 2, 5, 4), kernel_shape=[3, 2], strides=[2, 1]),
    _max((2, 2, 5, 4), kernel_shape=[3, 2], note="stride 1"),
    _max((2, 3, 6), kernel_shape=[3], strides=[2]),
    _max((1, 2, 4, 3, 3), kernel_shape=[2, 2, 2], strides=[2, 1, 1]),
    _max((2, 2, 7), kernel_shape=[2], strides=[3], note="gaps"),
    # Pads, dilation, ceil_mode, auto_pad.
    _max((1, 2, 4, 5), kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    _max((1, 2, 4, 5), kernel_shape=[3, 2], strides=[2, 2], pads=[0, 1, 2, 0]),
    _max((1, 2, 6, 5), kernel_shape=[2, 2], dilations=[3, 2]),
    _max((1, 2, 8), kernel_shape=[2], dilations=[2], strides=[2]),
    _max((1, 2, 5, 6), kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1),
    _max((1, 2, 6, 5), kernel_shape=[3, 3], strides=[3, 2], ceil_mode=1, pads=[1, 0, 1, 1]),
    _max((1, 2, 5, 6), kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER"),
    _max((1, 2, 5, 6), kernel_shape=[2, 3], strides=[2, 2], auto_pad="SAME_LOWER"),
    _max((1, 2, 5, 6), kernel_shape=[2, 3], strides=[2, 2], auto_pad="VALID"),
    # The places as an output of the model, and counted in column order.
    _max((1, 2, 4, 6), kernel_shape=[2, 2], strides=[2, 2], outputs=2, note="with places"),
    _max((2, 2, 5, 4), kernel_shape=[2, 3], storage_order=1),
    _max((2, 2, 4, 6), kernel_shape=[2, 2], strides=[2, 2], storage_order=1, outputs=2),
    _max((1, 2, 3, 4, 2), kernel_shape=[2, 2, 1], storage_order=1),
    _max((0, 2, 4, 4), kernel_shape=[2, 2], strides=[2, 2], note="empty batch"),
    _max((0, 2, 5), kernel_shape=[2], note="empty batch"),
    # The first of equal elements gets everything.
    _tied([[1, 1], [1, 1]], [[1, 0], [0, 0]], kernel_shape=[2, 2]),
    _tied([[2, 5, 5, 5]], [[0, 2, 1, 0]], kernel_shape=[1, 2]),
    _tied([[3, 1, 0], [3, 3, 3]], [[1, 0, 0], [0, 1, 0]], kernel_shape=[2, 2], note="rows first"),
    Case(
        "MaxUnpool",
        [normal(1, 2, 2), _places(1, 2, 4, 7)],
        {"kernel_shape": [2], "strides": [2]},
        forward=_put_back,
        gradient_dtype="float32",
    ),
    Case(
        "MaxUnpool",
        [normal(1, 2, 2), _places(1, 2, 4, 7), constant([1, 2, 4])],
        {"kernel_shape": [2], "strides": [2]},
        "output_shape",
        forward=_put_back,
        gradient_dtype="float32",
    ),
]

AVERAGE = [
    # Windows that tile the input; that leave a rest; that overlap; in one to three axes.
    _average((2, 2, 4, 6), kernel_shape=[2, 3], strides=[2, 3]),
    _average((2, 2, 5, 4), kernel_shape=[2, 2], strides=[2, 2], note="rest"),
    _average((2, 2, 5, 4), kernel_shape=[3, 2], strides=[2, 1]),
    _average((2, 2, 5, 4), kernel_shape=[3, 2], note="stride 1"),
    _average((2, 3, 6), kernel_shape=[3], strides=[2]),
    _average((1, 2, 4, 3, 3), kernel_shape=[2, 2, 2], strides=[2, 1, 1]),
    _average((2, 1, 7), kernel_shape=[2], strides=[3], note="gaps"),
    _average((2, 2, 3, 4), kernel_shape=[3, 4], note="whole"),
    # Padding that counts, and padding that does not, with strides of 1 and more.
    _average((1, 2, 4, 5), kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    _average((1, 2, 4, 5), kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    _average((1, 2, 4, 5), kernel_shape=[3, 2], strides=[2, 2], pads=[0, 1, 2, 0]),
    _average((1, 2, 4, 5), kernel_shape=[3, 2], strides=[2, 2], pads=[0, 1, 2, 0], count_include_pad=1),
    # ceil_mode, where the last window exceeds the input, the padding, or neither.
    _average((1, 2, 5, 6), kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1),
    _average((1, 2, 6, 5), kernel_shape=[3, 3], strides=[3, 2], ceil_mode=1, pads=[1, 0, 1, 1]),
    _average(
        (1, 2, 6, 5), kernel_shape=[3, 3], strides=[3, 2], ceil_mode=1, pads=[1, 0, 1, 1], count_include_pad=1
    ),
    _average((1, 2, 6), kernel_shape=[2], strides=[2], ceil_mode=1),
    # Dilation.
    _average((1, 2, 6, 5), kernel_shape=[2, 2], dilations=[3, 2]),
    _average((1, 2, 7), kernel_shape=[2], dilations=[2], strides=[2], pads=[1, 1]),
    _average((1, 2, 7), kernel_shape=[2], dilations=[2], strides=[2], pads=[1, 1], count_include_pad=1),
    _average((1, 2, 8), kernel_shape=[2], dilations=[3], strides=[2], ceil_mode=1),
    # auto_pad.
    _average((1, 2, 5, 6), kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER"),
    _average((1, 2, 5, 6), kernel_shape=[2, 3], strides=[2, 2], auto_pad="SAME_LOWER"),
    _average((1, 2, 5, 6), kernel_shape=[2, 3], strides=[2, 2], auto_pad="SAME_UPPER", count_include_pad=1),
    _average((1, 2, 5, 6), kernel_shape=[3, 3], auto_pad="SAME_LOWER"),
    _average((1, 2, 5, 6), kernel_shape=[2, 3], strides=[2, 2], auto_pad="VALID"),
    _average((0, 2, 4, 4), kernel_shape=[2, 2], strides=[2, 2], note="empty batch"),
    _average((1, 2, 4), kernel_shape=[2], opset=18, note="before dilations"),
]

GLOBAL = [
    *(
        Case("GlobalAveragePool", [normal(*x)])
        for x in ((2, 3, 4), (2, 2, 3, 4), (1, 2, 2, 3, 2), (2, 3, 1, 1))
    ),
    *(
        Case("GlobalMaxPool", [distinct(*x)])
        for x in ((2, 3, 4), (2, 2, 3, 4), (1, 2, 2, 3, 2), (2, 3, 1, 1))
    ),
    Case("GlobalAveragePool", [normal(0, 2, 3)], note="empty batch"),
    Case("GlobalMaxPool", [normal(0, 2, 3)], note="empty batch"),
    _tied([[1, 4], [4, 4]], [[0, 1 / 3], [1 / 3, 1 / 3]], "GlobalMaxPool"),
]

# The sums |x|^p need elements away from 0: powers of a first or third order have a kink there.
LP = [
    *(
        Case("LpPool", [away_from_zero(1, 2, 5, 4)], {"kernel_shape": [3, 2], "strides": [2, 1], "p": p})
        for p in (1, 2, 3, 4)
    ),
    Case("LpPool", [away_from_zero(2, 2, 5)], {"kernel_shape": [2]}),
    Case("LpPool", [away_from_zero(1, 2, 4, 6)], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    Case(
        "LpPool",
        [away_from_zero(1, 2, 4, 5)],
        {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [0, 1, 2, 0]},
    ),
    Case("LpPool", [away_from_zero(1, 2, 5, 6)], {"kernel_shape": [2, 3], "strides": [2, 2], "ceil_mode": 1}),
    Case("LpPool", [away_from_zero(1, 2, 6, 5)], {"kernel_shape": [2, 2], "dilations": [3, 2]}),
    Case(
        "LpPool",
        [away_from_zero(1, 2, 5, 6)],
        {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
    ),
    *(Case("GlobalLpPool", [away_from_zero(2, 2, 3, 2)], {"p": p}) for p in (1, 2, 3)),
    Case("GlobalLpPool", [away_from_zero(2, 3, 4)]),
    Case(
        "GlobalLpPool",
        [exactly([[[0.0, 0.0], [3.0, -4.0]]])],
        note="zeros",
        expected=[[[[0.0, 0.0], [0.6, -0.8]]]],
    ),
    Case(
        "LpPool",
        [exactly([[[0.0, 0.0, 3.0, -4.0]]])],
        {"kernel_shape": [2], "strides": [2]},
        "zeros",
        expected=[[[[0.0, 0.0, 0.6, -0.8]]]],
    ),
]

CASES = [*MAX, *AVERAGE, *GLOBAL, *LP]
