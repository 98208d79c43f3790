"""Operators in old forms: the rows of the opset tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.onnx.models import Array, normal


@dataclass(frozen=True)
class Case:
    """One operator in an old form.

    Attributes:
        id: Name of the case.
        operator: Its type.
        opset: The opset of the form.
        inputs: Examples, in order; one that is a constant of the model is in `constants`.
        attributes: Its attributes.
        constants: Positions of inputs that are initializers.
        outputs: How many outputs it has.
        expected: The result from the inputs, for opsets that ONNX Runtime does not run.
        target: The opset to lift to.
        static_only: Whether the form needs static dims.
    """

    id: str
    operator: str
    opset: int
    inputs: Sequence[Array]
    attributes: dict[str, Any] = field(default_factory=dict)
    constants: Sequence[int] = ()
    outputs: int = 1
    expected: Callable[..., Array] | None = None
    target: int = 18
    static_only: bool = False


X = normal(1, 2, 3, 4)
IMAGE = normal(2, 1, 2, 3, 4)
CHANNELS = [np.abs(normal(seed, 2)) + 0.5 for seed in (3, 4, 5, 6)]
ACTIVATIONS = [np.abs(normal(seed, 2, 3, 4)) + 0.5 for seed in (3, 4, 5, 6)]
POSITIVE = np.abs(X) + 0.5
I64 = np.int64


def _column(b: Array, axis: int, rank: int) -> Array:
    return b.reshape(b.shape + (1,) * (rank - axis - b.ndim))


def _softmax_2d(axis: int) -> Callable[[Array], Array]:
    def expected(x: Array) -> Array:
        flat = x.reshape(int(np.prod(x.shape[:axis])), -1)
        e = np.exp(flat - flat.max(axis=1, keepdims=True))
        result: Array = (e / e.sum(axis=1, keepdims=True)).reshape(x.shape)
        return result

    return expected


REDUCTIONS = """
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare
"""

CASES = [
    Case(
        "add-axis",
        "Add",
        6,
        [X, normal(7, 3)],
        {"broadcast": 1, "axis": 1},
        expected=lambda a, b: a + _column(b, 1, 3),
    ),
    Case(
        "mul-axis-2",
        "Mul",
        6,
        [X, normal(7, 2, 3)],
        {"broadcast": 1, "axis": 0},
        expected=lambda a, b: a * _column(b, 0, 3),
    ),
    Case(
        "sub-negative-axis",
        "Sub",
        6,
        [X, normal(7, 3)],
        {"broadcast": 1, "axis": -2},
        expected=lambda a, b: a - _column(b, 1, 3),
    ),
    Case(
        "div-last-axis", "Div", 6, [X, normal(7, 4)], {"broadcast": 1, "axis": 2}, expected=lambda a, b: a / b
    ),
    Case("add-suffix", "Add", 6, [X, normal(7, 3, 4)], {"broadcast": 1}, expected=lambda a, b: a + b),
    Case(
        "add-scalar-axis", "Add", 6, [X, normal(7)], {"broadcast": 1, "axis": 0}, expected=lambda a, b: a + b
    ),
    Case("add-equal", "Add", 6, [X, normal(7, 2, 3, 4)], {"axis": 1}, expected=lambda a, b: a + b),
    Case(
        "pow-axis",
        "Pow",
        6,
        [POSITIVE, normal(7, 3)],
        {"broadcast": 1, "axis": 1},
        expected=lambda a, b: a ** _column(b, 1, 3),
    ),
    Case(
        "less-axis",
        "Less",
        6,
        [X, normal(7, 3)],
        {"broadcast": 1, "axis": 1},
        expected=lambda a, b: a < _column(b, 1, 3),
    ),
    Case(
        "and-axis",
        "And",
        6,
        [X > 0, normal(7, 3) > 0],
        {"broadcast": 1, "axis": 1},
        expected=lambda a, b: a & _column(b, 1, 3),
    ),
    Case("abs-consumed", "Abs", 1, [X], {"consumed_inputs": [0]}, expected=np.abs),
    Case("cast-word", "Cast", 5, [X], {"to": "INT32"}, expected=lambda x: x.astype(np.int32)),
    Case("concat-default", "Concat", 3, [X, X], expected=lambda a, b: np.concatenate([a, b], axis=1)),
    Case("reshape-attribute", "Reshape", 4, [X], {"shape": [4, -1]}, expected=lambda x: x.reshape(4, -1)),
    Case(
        "selu-default",
        "Selu",
        5,
        [X],
        expected=lambda x: np.float32(1.0507) * np.where(x > 0, x, np.float32(1.6732) * (np.exp(x) - 1)),
    ),
    Case(
        "gemm-broadcast",
        "Gemm",
        6,
        [normal(1, 2, 3), normal(2, 3, 4), normal(3, 4)],
        {"broadcast": 1},
        expected=lambda a, b, c: a @ b + c,
    ),
    Case(
        "prelu-channel",
        "PRelu",
        6,
        [X, normal(7, 3)],
        expected=lambda x, s: np.where(x > 0, x, x * s[:, None]),
    ),
    Case("prelu-single", "PRelu", 6, [X, normal(7, 1)], expected=lambda x, s: np.where(x > 0, x, x * s)),
    Case("dropout-6", "Dropout", 6, [X], {"is_test": 1, "ratio": 0.3}, expected=lambda x: x),
    Case(
        "batchnorm-6",
        "BatchNormalization",
        6,
        [IMAGE, *CHANNELS],
        {"is_test": 1},
        expected=lambda x, s, b, m, v: (
            (x - m[:, None, None]) / np.sqrt(v[:, None, None] + np.float32(1e-5)) * s[:, None, None]
            + b[:, None, None]
        ),
    ),
    Case(
        "batchnorm-spatial",
        "BatchNormalization",
        7,
        [IMAGE, *ACTIVATIONS],
        {"spatial": 0},
        expected=lambda x, s, b, m, v: (x - m) / np.sqrt(v + np.float32(1e-5)) * s + b,
    ),
    Case("batchnorm-9", "BatchNormalization", 9, [IMAGE, *CHANNELS], {"epsilon": 0.01, "momentum": 0.7}),
    Case(
        "upsample-sides",
        "Upsample",
        6,
        [IMAGE],
        {"height_scale": 2.0, "width_scale": 3.0},
        expected=lambda x: x.repeat(2, axis=2).repeat(3, axis=3),
    ),
    Case("upsample-attribute", "Upsample", 7, [IMAGE], {"scales": [1.0, 1.0, 2.0, 3.0]}),
    Case("upsample-linear", "Upsample", 8, [IMAGE], {"scales": [1.0, 1.0, 2.0, 3.0], "mode": "linear"}),
    Case("upsample-input", "Upsample", 9, [IMAGE, np.array([1, 1, 2.5, 1.5], np.float32)], constants=[1]),
    Case("upsample-computed", "Upsample", 9, [IMAGE, np.array([1, 1, 2, 2], np.float32)]),
    Case("resize-10-up", "Resize", 10, [IMAGE, np.array([1, 1, 2.5, 1.5], np.float32)], constants=[1]),
    Case("resize-10-down", "Resize", 10, [IMAGE, np.array([1, 1, 0.6, 0.5], np.float32)], constants=[1]),
    Case(
        "resize-10-linear", "Resize", 10, [IMAGE, np.array([1, 1, 2.5, 0.5], np.float32)], {"mode": "linear"}
    ),
    Case(
        "resize-11-sizes",
        "Resize",
        11,
        [IMAGE, np.zeros(0, np.float32), np.zeros(0, np.float32), np.array([1, 2, 5, 7])],
        {"mode": "linear"},
        constants=[1, 2, 3],
    ),
    Case("clip", "Clip", 7, [X], {"min": -0.5, "max": 0.25}),
    Case("clip-min", "Clip", 10, [X], {"min": -0.5}),
    Case(
        "clip-double",
        "Clip",
        6,
        [X.astype(np.float64)],
        {"max": 0.25},
        expected=lambda x: np.minimum(x, 0.25),
    ),
    Case("clip-none", "Clip", 7, [X]),
    Case(
        "pad-1",
        "Pad",
        1,
        [X],
        {"paddings": [0, 1, 2, 1, 0, 0], "value": 2.5},
        expected=lambda x: np.pad(x, ((0, 1), (1, 0), (2, 0)), constant_values=2.5),
    ),
    Case("pad-constant", "Pad", 7, [X], {"pads": [0, 1, 2, 1, 0, 0], "value": 2.5}),
    Case("pad-negative", "Pad", 7, [X], {"pads": [0, -1, 2, 1, 0, -1]}),
    Case("pad-reflect", "Pad", 10, [X], {"pads": [0, 1, 2, 0, 0, 1], "mode": "reflect", "value": 1.0}),
    Case("pad-edge", "Pad", 10, [X], {"pads": [0, 1, 2, 0, 0, 1], "mode": "edge"}),
    Case("slice-axes", "Slice", 9, [X], {"starts": [1, -3], "ends": [3, 100], "axes": [1, 2]}),
    Case("slice-all", "Slice", 7, [X], {"starts": [0, 1], "ends": [1, -1]}),
    Case("split-attribute", "Split", 11, [X], {"axis": 1, "split": [1, 2]}, outputs=2),
    Case("split-equal", "Split", 11, [X], {"axis": 2}, outputs=2),
    Case("split-13", "Split", 13, [X, np.array([1, 2])], {"axis": 1}, constants=[1], outputs=2),
    Case("split-1", "Split", 1, [normal(1, 4, 3)], expected=lambda x: x[:2], outputs=2),
    Case("squeeze", "Squeeze", 11, [normal(1, 2, 1, 3, 1)], {"axes": [1, -1]}),
    Case("squeeze-all", "Squeeze", 11, [normal(1, 2, 1, 3, 1)], static_only=True),
    Case("unsqueeze", "Unsqueeze", 11, [X], {"axes": [0, -1]}),
    Case("topk-1", "TopK", 9, [X], {"k": 2, "axis": 1}, outputs=2),
    Case("topk-10", "TopK", 10, [X, np.array([2])], {"axis": 2}, constants=[1], outputs=2),
    Case("dropout-9", "Dropout", 9, [X], {"ratio": 0.3}),
    Case("dropout-10", "Dropout", 10, [X]),
    Case("scatter-9", "Scatter", 10, [X, np.array([[[0, 1], [2, 0]]]), normal(4, 1, 2, 2)], {"axis": 1}),
    Case("scatter-elements", "ScatterElements", 11, [X, np.array([[[0, 1], [1, 0]]]), normal(4, 1, 2, 2)]),
    Case("gather-elements", "GatherElements", 11, [X, np.array([[[0, 1], [1, 0]]])]),
    Case("onehot-9", "OneHot", 9, [np.array([[0, 2], [1, 1]]), np.array(3), np.array([0.5, 2], np.float32)]),
    Case("maxpool-8", "MaxPool", 8, [IMAGE], {"kernel_shape": [2, 2], "strides": [2, 1]}, outputs=2),
    Case(
        "averagepool-7",
        "AveragePool",
        7,
        [IMAGE],
        {"kernel_shape": [2, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1},
    ),
    Case(
        "averagepool-10",
        "AveragePool",
        10,
        [IMAGE],
        {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
    ),
    Case("conv-1", "Conv", 7, [IMAGE, normal(5, 4, 1, 2, 2)], {"group": 2, "auto_pad": "SAME_LOWER"}),
    Case(
        "convtranspose-1",
        "ConvTranspose",
        7,
        [IMAGE, normal(5, 2, 3, 2, 2)],
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
    ),
    Case("lrn", "LRN", 7, [normal(5, 2, 5, 3, 4)], {"size": 3, "alpha": 0.1}),
    Case("gemm-7", "Gemm", 7, [normal(1, 3, 2), normal(2, 3, 4), normal(3, 1)], {"transA": 1, "alpha": 0.5}),
    Case("sum-8", "Sum", 8, [X, normal(3, 4)]),
    Case("shape", "Shape", 7, [X]),
    Case("cumsum", "CumSum", 11, [X, np.array(1, np.int32)], {"reverse": 1}),
    Case(
        "rnn",
        "RNN",
        7,
        [normal(1, 3, 2, 4), normal(2, 1, 5, 4), normal(3, 1, 5, 5)],
        {"hidden_size": 5},
        outputs=2,
    ),
    Case(
        "gru",
        "GRU",
        7,
        [normal(1, 3, 2, 4), normal(2, 1, 15, 4), normal(3, 1, 15, 5), normal(4, 1, 30)],
        {"hidden_size": 5, "linear_before_reset": 1},
        outputs=2,
    ),
    Case(
        "lstm",
        "LSTM",
        7,
        [normal(1, 3, 2, 4), normal(2, 1, 20, 4), normal(3, 1, 20, 5)],
        {"hidden_size": 5},
        outputs=3,
    ),
    Case(
        "roialign",
        "RoiAlign",
        10,
        [IMAGE, np.array([[0.2, 0.3, 2.9, 2.2]], np.float32), np.array([0])],
        {"output_height": 2, "output_width": 2},
    ),
    Case("gridsample", "GridSample", 16, [IMAGE, normal(4, 1, 2, 2, 2)], target=20),
    Case(
        "gridsample-bicubic", "GridSample", 16, [IMAGE, normal(4, 1, 2, 2, 2)], {"mode": "bicubic"}, target=20
    ),
    Case("dft", "DFT", 17, [normal(4, 2, 5, 3, 1)], target=20),
    Case("dft-axis", "DFT", 17, [normal(4, 2, 5, 3, 1)], {"axis": 2, "onesided": 1}, target=20),
    Case(
        "groupnorm",
        "GroupNormalization",
        18,
        [normal(1, 2, 4, 3), normal(2, 2), normal(3, 2)],
        {"num_groups": 2, "epsilon": 0.1},
        target=21,
        static_only=True,
    ),
    *(
        Case(f"{operator}-{opset}-{axis}", operator, opset, [X], {} if axis is None else {"axis": axis})
        for operator in ("Softmax", "LogSoftmax", "Hardmax")
        for opset, axes in ((9, (None, 0, 2)), (11, (None, -1, -2, -3)))
        for axis in axes
    ),
    Case("softmax-2d-formula", "Softmax", 11, [X], {"axis": 1}, expected=_softmax_2d(1)),
    Case("softmax-trailing-ones", "Softmax", 11, [normal(1, 2, 5, 1, 1)]),
    *(
        Case(
            f"{operator}-{'all' if axes is None else axes}-{keepdims}",
            operator,
            12,
            [POSITIVE],
            {"keepdims": keepdims} | ({} if axes is None else {"axes": axes}),
        )
        for operator in REDUCTIONS.split()
        for axes, keepdims in (([1], 1), ([0, -1], 0), (None, 1))
    ),
    Case("reducesum-13", "ReduceSum", 13, [X, np.array([1])], constants=[1]),
    Case("argmax", "ArgMax", 11, [X], {"axis": 1}),
]
