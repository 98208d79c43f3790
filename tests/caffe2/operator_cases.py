"""The table of Caffe2 operators: a net of one operator, what it reads, and its formula in NumPy.

The formulas are written from the description of the operators, in float64 and without netgrad.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Blobs = Mapping[str, Array]

_random = np.random.default_rng(20_18)


@dataclass(frozen=True)
class Case:
    """One row.

    Attributes:
        net: The operator as ``Type(x,w)->(y) {axis=1}``; several are separated by ``;``.
        blobs: What it reads.
        formula: The outputs that are checked, by name, from the blobs.
        wrt: The blobs by which it is differentiated; none: it has no gradient.
        of: The output that is differentiated.
    """

    net: str
    blobs: Blobs
    formula: Callable[[Blobs], dict[str, Array]]
    wrt: Sequence[str] = ("x",)
    of: str = "y"

    def __str__(self) -> str:
        return self.net


def normal(*shape: int) -> Array:
    return _random.normal(size=shape)


def positive(*shape: int) -> Array:
    return _random.uniform(0.3, 2.0, size=shape)


def inside(*shape: int) -> Array:
    return _random.uniform(-0.9, 0.9, size=shape)


def away(*shape: int) -> Array:
    """Numbers of both signs, none near 0 or 1."""
    return np.sign(_random.normal(size=shape)) * _random.uniform(0.2, 0.8, size=shape)


def apart(*shape: int) -> Array:
    """Numbers that differ by at least 0.1, for maxima."""
    count = math.prod(shape)
    return (_random.permutation(count).reshape(shape) * 0.1 - 0.05 * count) + 0.03


def unary(
    net: str, formula: Callable[[Array], Array], x: Array | None = None, wrt: Sequence[str] = ("x",)
) -> Case:
    return Case(net, {"x": away(3, 4) if x is None else x}, lambda b: {"y": formula(b["x"])}, wrt)


def binary(net: str, formula: Callable[[Array, Array], Array], a: Array, b: Array) -> Case:
    return Case(net, {"x": a, "w": b}, lambda given: {"y": formula(given["x"], given["w"])}, ("x", "w"))


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


erf = np.vectorize(math.erf)

UNARY = [
    unary("Abs(x)->(y)", np.abs),
    unary("Acos(x)->(y)", np.arccos, inside(3, 4)),
    unary("Asin(x)->(y)", np.arcsin, inside(3, 4)),
    unary("Atan(x)->(y)", np.arctan),
    unary("Cbrt(x)->(y)", np.cbrt),
    unary("Ceil(x)->(y)", np.ceil, wrt=()),
    unary("Clip(x)->(y) {min=-0.5,max=0.4}", lambda x: np.clip(x, -0.5, 0.4)),
    unary("Clip(x)->(y) {max=0.4}", lambda x: np.minimum(x, 0.4)),
    unary("Copy(x)->(y)", lambda x: x),
    unary("Cos(x)->(y)", np.cos),
    unary("Cosh(x)->(y)", np.cosh),
    unary("Cube(x)->(y)", lambda x: x**3),
    unary("Elu(x)->(y) {alpha=0.7}", lambda x: np.where(x > 0, x, 0.7 * (np.exp(x) - 1))),
    unary("EnsureDense(x)->(y)", lambda x: x),
    unary("Erf(x)->(y)", erf),
    unary("Exp(x)->(y)", np.exp),
    unary("Floor(x)->(y)", np.floor, wrt=()),
    unary("Gelu(x)->(y)", lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2)))),
    unary("HardSigmoid(x)->(y) {alpha=0.9,beta=0.5}", lambda x: np.clip(0.9 * x + 0.5, 0, 1)),
    unary("LeakyRelu(x)->(y) {alpha=0.2}", lambda x: np.where(x >= 0, x, 0.2 * x)),
    unary("Log(x)->(y)", np.log, positive(3, 4)),
    unary("Logit(x)->(y)", lambda x: np.log(x / (1 - x)), _random.uniform(0.1, 0.9, size=(3, 4))),
    unary("Mod(x)->(y) {divisor=3}", lambda x: np.fmod(x, 3), _random.integers(-9, 9, (3, 4)), wrt=()),
    unary("NanCheck(x)->(y)", lambda x: x),
    unary("Negative(x)->(y)", lambda x: -x),
    unary("Pow(x)->(y) {exponent=2.5}", lambda x: x**2.5, positive(3, 4)),
    unary("Copy(x)->(y); Pow(y)->(y) {exponent=3.0}", lambda x: x**3),
    unary("Reciprocal(x)->(y)", lambda x: 1 / x),
    unary("Relu(x)->(y)", lambda x: np.maximum(x, 0)),
    unary("Copy(x)->(y); Relu(y)->(y)", lambda x: np.maximum(x, 0)),
    unary("ReluN(x)->(y) {n=0.5}", lambda x: np.clip(x, 0, 0.5)),
    unary("Rsqrt(x)->(y)", lambda x: x**-0.5, positive(3, 4)),
    unary("Scale(x)->(y) {scale=2.5}", lambda x: 2.5 * x),
    unary(
        "Selu(x)->(y)",
        lambda x: 1.05070099 * np.where(x > 0, x, 1.67326324 * (np.exp(x) - 1)),
    ),
    unary("Sigmoid(x)->(y)", sigmoid),
    unary("Sign(x)->(y)", np.sign, wrt=()),
    unary("Sin(x)->(y)", np.sin),
    unary("Sinh(x)->(y)", np.sinh),
    unary("Softplus(x)->(y)", lambda x: np.log1p(np.exp(x))),
    unary("Softsign(x)->(y)", lambda x: x / (1 + np.abs(x))),
    unary("Sqr(x)->(y)", np.square),
    unary("Sqrt(x)->(y)", np.sqrt, positive(3, 4)),
    unary("Swish(x)->(y)", lambda x: x * sigmoid(x)),
    unary("Tan(x)->(y)", np.tan),
    unary("Tanh(x)->(y)", np.tanh),
    unary("ThresholdedRelu(x)->(y) {alpha=0.5}", lambda x: np.where(x > 0.5, x, 0)),
]

SEVERAL = [
    unary("Mul(x,x)->(y)", lambda x: x * x),
    unary("Div(x,x)->(a); Mul(a,x)->(y)", lambda x: x),
    binary("Add(x,w)->(y)", np.add, normal(2, 3), normal(2, 3)),
    binary("Add(x,w)->(y)", np.add, normal(2, 3, 4), normal(3, 1)),
    binary("Add(x,w)->(y) {broadcast=1}", np.add, normal(2, 3), normal(3)),
    binary("Copy(x)->(y); Add(y,w)->(y) {broadcast=1}", np.add, normal(2, 3), normal(3)),
    binary("Sub(x,w)->(y)", np.subtract, normal(2, 3), normal(2, 3)),
    binary("Copy(w)->(y); Sub(x,y)->(y)", np.subtract, normal(2, 3), normal(2, 3)),
    binary(
        "Sub(x,w)->(y) {broadcast=1,axis=1}",
        lambda a, b: a - b[None, :, None],
        normal(2, 3, 4),
        normal(3),
    ),
    binary("Mul(x,w)->(y)", np.multiply, normal(2, 3), normal(2, 3)),
    binary(
        "Mul(x,w)->(y) {broadcast=1,axis=0}", lambda a, b: a * b[:, :, None], normal(2, 3, 4), normal(2, 3)
    ),
    binary("Mul(x,w)->(y) {broadcast=1}", np.multiply, normal(2, 3), np.asarray(normal(1)[0])),
    binary("Div(x,w)->(y)", np.divide, normal(2, 3), positive(2, 3)),
    binary("Div(x,w)->(y) {broadcast=1}", np.divide, normal(2, 3), positive(3)),
    Case(
        "DivGradient(dy,y,w,y)->(dx,dw)",
        {"w": positive(2, 3), "y": normal(2, 3), "dy": normal(2, 3)},
        lambda g: {"dx": g["dy"] / g["w"], "dw": -g["dy"] * g["y"] / g["w"]},
        (),
    ),
    Case(
        "DivGradient(w,y,dy)->(dx,dw) {broadcast=1}",
        {"w": positive(3), "y": normal(2, 3), "dy": normal(2, 3)},
        lambda g: {"dx": g["dy"] / g["w"], "dw": (-g["dy"] * g["y"] / g["w"]).sum(0)},
        (),
    ),
    binary("Max(x,w)->(y)", np.maximum, apart(2, 6)[:, :3], apart(2, 6)[:, 3:] + 0.01),
    binary("Min(x,w)->(y)", np.minimum, apart(2, 6)[:, :3], apart(2, 6)[:, 3:] + 0.01),
    binary("Mean(x,w)->(y)", lambda a, b: (a + b) / 2, normal(2, 3), normal(2, 3)),
    binary("Sum(x,w,x)->(y)", lambda a, b: 2 * a + b, normal(2, 3), normal(2, 3)),
    binary("Pow(x,w)->(y)", np.power, positive(2, 3), normal(2, 3)),
    binary("Pow(x,w)->(y) {broadcast=1}", np.power, positive(2, 3), normal(3)),
    binary(
        "Pow(x,w)->(y) {broadcast=1,axis=1}",
        lambda a, b: a ** b[:, :, None],
        positive(2, 3, 4, 2),
        normal(3, 4),
    ),
    binary(
        'Pow(x,w)->(y) {broadcast=1,axis_str="C"}', lambda a, b: a ** b[:, None], positive(2, 3, 2), normal(3)
    ),
    binary("PRelu(x,w)->(y)", lambda x, w: np.where(x > 0, x, w[0] * x), away(2, 3), positive(1)),
    binary(
        "PRelu(x,w)->(y)",
        lambda x, w: np.where(x > 0, x, w[:, None, None] * x),
        away(2, 3, 2, 2),
        positive(3),
    ),
    binary("RowMul(x,w)->(y)", lambda x, w: x * w[:, None], normal(3, 4), normal(3)),
    Case(
        "WeightedSum(x,a,w,b)->(y) {grad_on_w=1}",
        {"x": normal(2, 3), "a": normal(1), "w": normal(2, 3), "b": normal(1)},
        lambda g: {"y": g["x"] * g["a"] + g["w"] * g["b"]},
        ("x", "a", "w", "b"),
    ),
    Case(
        "Where(c,x,w)->(y)",
        {"c": normal(2, 3) > 0, "x": normal(2, 3), "w": normal(2, 3)},
        lambda g: {"y": np.where(g["c"], g["x"], g["w"])},
        (),
    ),
    *(
        Case(
            f"{type_}(x,w)->(y)",
            {"x": apart(2, 3), "w": apart(2, 3)},
            lambda g, compare=compare: {"y": compare(g["x"], g["w"])},
            (),
        )
        for type_, compare in {
            "EQ": np.equal,
            "GE": np.greater_equal,
            "GT": np.greater,
            "LE": np.less_equal,
            "LT": np.less,
            "NE": np.not_equal,
        }.items()
    ),
]


def flat(x: Array, axis: int) -> Array:
    return x.reshape(math.prod(x.shape[:axis]), -1)


def rows_fc(g: Blobs) -> dict[str, Array]:
    return {"y": flat(g["x"], 1) @ g["w"].T + g["b"]}


PRODUCTS = [
    Case("FC(x,w,b)->(y)", {"x": normal(3, 4), "w": normal(2, 4), "b": normal(2)}, rows_fc, ("x", "w", "b")),
    Case(
        "FC(x,w,b)->(y)", {"x": normal(3, 2, 2), "w": normal(2, 4), "b": normal(2)}, rows_fc, ("x", "w", "b")
    ),
    Case(
        "FC(x,w,b)->(y) {axis=2}",
        {"x": normal(2, 3, 4), "w": normal(5, 4), "b": normal(5)},
        lambda g: {"y": g["x"] @ g["w"].T + g["b"]},
        ("x", "w", "b"),
    ),
    Case(
        "FCTransposed(x,w,b)->(y)",
        {"x": normal(3, 4), "w": normal(4, 2), "b": normal(2)},
        lambda g: {"y": g["x"] @ g["w"] + g["b"]},
        ("x", "w", "b"),
    ),
    *(
        binary(
            f"MatMul(x,w)->(y) {{trans_a={ta},trans_b={tb}}}",
            lambda a, b, ta=ta, tb=tb: (a.T if ta else a) @ (b.T if tb else b),
            normal(*((4, 3) if ta else (3, 4))),
            normal(*((2, 4) if tb else (4, 2))),
        )
        for ta in (0, 1)
        for tb in (0, 1)
    ),
    *(
        binary(
            f"BatchMatMul(x,w)->(y) {{trans_a={ta},trans_b={tb}}}",
            lambda a, b, ta=ta, tb=tb: (
                (np.swapaxes(a, -1, -2) if ta else a) @ (np.swapaxes(b, -1, -2) if tb else b)
            ),
            normal(2, *((4, 3) if ta else (3, 4))),
            normal(2, *((2, 4) if tb else (4, 2))),
        )
        for ta in (0, 1)
        for tb in (0, 1)
    ),
    binary("DotProduct(x,w)->(y)", lambda a, b: (a * b).sum(1), normal(3, 4), normal(3, 4)),
    binary(
        "SquaredL2Distance(x,w)->(y)", lambda a, b: 0.5 * ((a - b) ** 2).sum(1), normal(3, 4), normal(3, 4)
    ),
    binary("L1Distance(x,w)->(y)", lambda a, b: np.abs(a - b).sum(1), normal(3, 4), normal(3, 4)),
    binary(
        "CosineSimilarity(x,w)->(y)",
        lambda a, b: (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1)),
        normal(3, 4),
        normal(3, 4),
    ),
    Case(
        "ElementwiseLinear(x,w,b)->(y)",
        {"x": normal(3, 4), "w": normal(4), "b": normal(4)},
        lambda g: {"y": g["x"] * g["w"] + g["b"]},
        ("x", "w", "b"),
    ),
    *(
        Case(
            f"ElementwiseLinear(x,w,b)->(y) {{axis={axis}}}",
            {"x": normal(3, 2, 4), "w": normal(size), "b": normal(size)},
            lambda g: {"y": (g["x"].reshape(-1, g["w"].size) * g["w"] + g["b"]).reshape(g["x"].shape)},
            ("x", "w", "b"),
        )
        for axis, size in ((1, 8), (2, 4))
    ),
]


def conv(x: Array, w: Array, stride: int, pads: tuple[int, int, int, int], group: int = 1) -> Array:
    """Cross-correlation, window by window; ``pads`` are top, left, bottom, right."""
    top, left, bottom, right = pads
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    m, inner, kh, kw = w.shape
    oh, ow = (x.shape[2] - kh) // stride + 1, (x.shape[3] - kw) // stride + 1
    y = np.zeros((x.shape[0], m, oh, ow))
    for k in range(m):
        first = k // (m // group) * inner
        for i in range(oh):
            for j in range(ow):
                rows, columns = slice(i * stride, i * stride + kh), slice(j * stride, j * stride + kw)
                patch = x[:, first : first + inner, rows, columns]
                y[:, k, i, j] = (patch * w[k]).sum((1, 2, 3))
    return y


def conv_transpose(x: Array, w: Array, stride: int, pad: int) -> Array:
    n, _, h, width = x.shape
    _, m, kh, kw = w.shape
    y = np.zeros((n, m, (h - 1) * stride + kh, (width - 1) * stride + kw))
    for i in range(h):
        for j in range(width):
            y[:, :, i * stride : i * stride + kh, j * stride : j * stride + kw] += np.einsum(
                "nc,cmhw->nmhw", x[:, :, i, j], w
            )
    return y[:, :, pad : y.shape[2] - pad, pad : y.shape[3] - pad]


def pool(
    x: Array, kernel: int, stride: int, pad: int, function: Callable[[Array], Array], size: int
) -> Array:
    """Windows cut at the image, ``size`` along each side of the result."""
    y = np.zeros((*x.shape[:2], size, size))
    for i in range(size):
        for j in range(size):
            top, left = i * stride - pad, j * stride - pad
            part = x[:, :, max(top, 0) : top + kernel, max(left, 0) : left + kernel]
            y[:, :, i, j] = function(part)
    return y


def nhwc(x: Array) -> Array:
    return x.transpose(0, 2, 3, 1)


def nchw(x: Array) -> Array:
    return x.transpose(0, 3, 1, 2)


def biggest(part: Array) -> Array:
    return part.max((2, 3))


def average(part: Array) -> Array:
    return part.mean((2, 3))


WINDOWS = [
    Case(
        "Conv(x,w,b)->(y) {kernel=3,stride=2,pad=1}",
        {"x": normal(2, 3, 5, 5), "w": normal(4, 3, 3, 3), "b": normal(4)},
        lambda g: {"y": conv(g["x"], g["w"], 2, (1, 1, 1, 1)) + g["b"][:, None, None]},
        ("x", "w", "b"),
    ),
    Case(
        "Conv2D(x,w,b)->(y) {kernel=2}",
        {"x": normal(1, 2, 3, 3), "w": normal(2, 2, 2, 2), "b": normal(2)},
        lambda g: {"y": conv(g["x"], g["w"], 1, (0, 0, 0, 0)) + g["b"][:, None, None]},
        ("x", "w", "b"),
    ),
    Case(
        "Conv(x,w)->(y) {kernel_h=3,kernel_w=2,pad_t=1,pad_l=0,pad_b=0,pad_r=1,group=2}",
        {"x": normal(2, 4, 5, 5), "w": normal(4, 2, 3, 2)},
        lambda g: {"y": conv(g["x"], g["w"], 1, (1, 0, 0, 1), 2)},
        ("x", "w"),
    ),
    Case(
        'Conv(x,w,b)->(y) {kernel=3,order="NHWC"}',
        {"x": normal(2, 5, 5, 3), "w": normal(4, 3, 3, 3), "b": normal(4)},
        lambda g: {"y": nhwc(conv(nchw(g["x"]), nchw(g["w"]), 1, (0, 0, 0, 0))) + g["b"]},
        ("x", "w", "b"),
    ),
    Case(
        "Conv(x,w)->(y) {kernel=2,stride=2,legacy_pad=2}",
        {"x": normal(1, 2, 5, 5), "w": normal(3, 2, 2, 2)},
        lambda g: {"y": conv(g["x"], g["w"], 2, (0, 0, 1, 1))},
        ("x", "w"),
    ),
    Case(
        "Conv(x,w,b)->(y) {kernel=3,no_gradient_to_input=1}",
        {"x": normal(1, 2, 4, 4), "w": normal(3, 2, 3, 3), "b": normal(3)},
        lambda g: {"y": conv(g["x"], g["w"], 1, (0, 0, 0, 0)) + g["b"][:, None, None]},
        ("w", "b"),
    ),
    Case(
        "ConvTranspose(x,w,b)->(y) {kernel=3,stride=2,pad=1}",
        {"x": normal(1, 2, 3, 3), "w": normal(2, 3, 3, 3), "b": normal(3)},
        lambda g: {"y": conv_transpose(g["x"], g["w"], 2, 1) + g["b"][:, None, None]},
        ("x", "w", "b"),
    ),
    unary("MaxPool(x)->(y) {kernel=2,stride=2}", lambda x: pool(x, 2, 2, 0, biggest, 2), apart(1, 2, 4, 4)),
    unary(
        'MaxPool(x)->(y) {kernel=2,stride=2,order="NHWC"}',
        lambda x: nhwc(pool(nchw(x), 2, 2, 0, biggest, 2)),
        apart(1, 4, 4, 2),
    ),
    unary(
        "MaxPool(x)->(y) {kernel=3,stride=2,legacy_pad=3}",
        lambda x: pool(x, 3, 2, 0, biggest, 3),
        apart(1, 2, 6, 6),
    ),
    unary(
        "AveragePool(x)->(y) {kernel=3,stride=2,pad=1}",
        lambda x: pool(x, 3, 2, 1, average, 3),
        normal(1, 2, 5, 5),
    ),
    unary(
        "AveragePool(x)->(y) {global_pooling=1}",
        lambda x: x.mean((2, 3), keepdims=True),
        normal(1, 2, 4, 4),
    ),
    unary(
        "LpPool(x)->(y) {kernel=2,stride=2,p=2.0}",
        lambda x: pool(x, 2, 2, 0, lambda part: np.sqrt((part**2).sum((2, 3))), 2),
        normal(1, 2, 4, 4),
    ),
    unary(
        "PadImage(x)->(y) {pad_t=1,pad_l=2,pad_b=0,pad_r=1,value=0.5}",
        lambda x: np.pad(x, ((0, 0), (0, 0), (1, 0), (2, 1)), constant_values=0.5),
        normal(1, 2, 3, 3),
    ),
    unary(
        'PadImage(x)->(y) {pad=1,mode="reflect"}',
        lambda x: np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="reflect"),
        normal(1, 2, 3, 3),
    ),
    unary(
        'PadImage(x)->(y) {pad=1,mode="edge",order="NHWC"}',
        lambda x: np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge"),
        normal(1, 3, 3, 2),
    ),
    unary("NCHW2NHWC(x)->(y)", nhwc, normal(2, 3, 4, 5)),
    unary("NHWC2NCHW(x)->(y)", nchw, normal(2, 3, 4, 5)),
]


def batch_norm(g: Blobs, axes: tuple[int, ...]) -> dict[str, Array]:
    shape = [1 if axis in axes else -1 for axis in range(g["x"].ndim)]
    mean, var = g["x"].mean(axes), g["x"].var(axes)
    normalized = (g["x"] - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + 1e-5)
    return {
        "y": normalized * g["s"].reshape(shape) + g["b"].reshape(shape),
        "m": 0.8 * g["m"] + 0.2 * mean,
        "v": 0.8 * g["v"] + 0.2 * g["x"].var(axes, ddof=1),
        "sm": mean,
        "si": 1 / np.sqrt(var + 1e-5),
    }


def lrn(x: Array) -> Array:
    squares = np.pad(x * x, ((0, 0), (1, 1), (0, 0), (0, 0)))
    sums = sum(squares[:, k : k + x.shape[1]] for k in range(3))
    return x * (2.0 + 0.5 / 3 * sums) ** -0.75


def layer_norm(x: Array) -> tuple[Array, Array, Array]:
    mean, deviation = x.mean(1, keepdims=True), np.sqrt(x.var(1, keepdims=True) + 1e-3)
    return (x - mean) / deviation, mean, deviation


NORMS = [
    Case(
        "SpatialBN(x,s,b,m,v)->(y,m,v,sm,si) {momentum=0.8,is_test=0}",
        {"x": normal(3, 2, 2, 2), "s": normal(2), "b": normal(2), "m": normal(2), "v": positive(2)},
        lambda g: batch_norm(g, (0, 2, 3)),
        ("x", "s", "b"),
    ),
    Case(
        'SpatialBN(x,s,b,m,v)->(y,m,v,sm,si) {momentum=0.8,is_test=0,order="NHWC"}',
        {"x": normal(3, 2, 2, 2), "s": normal(2), "b": normal(2), "m": normal(2), "v": positive(2)},
        lambda g: batch_norm(g, (0, 1, 2)),
        ("x", "s", "b"),
    ),
    Case(
        "SpatialBN(x,s,b,m,v)->(y) {is_test=1}",
        {"x": normal(3, 2, 2, 2), "s": normal(2), "b": normal(2), "m": normal(2), "v": positive(2)},
        lambda g: {
            "y": (g["x"] - g["m"][:, None, None])
            / np.sqrt(g["v"] + 1e-5)[:, None, None]
            * g["s"][:, None, None]
            + g["b"][:, None, None]
        },
        ("x", "s", "b"),
    ),
    unary("LRN(x)->(y) {size=3,alpha=0.5,beta=0.75,bias=2.0}", lrn, normal(2, 4, 2, 2)),
    Case(
        "LayerNorm(x)->(y,mean,dev) {epsilon=0.001}",
        {"x": normal(3, 5)},
        lambda g: dict(zip(("y", "mean", "dev"), layer_norm(g["x"]), strict=True)),
    ),
    Case(
        "LayerNorm(x,s,b)->(y,mean,dev) {epsilon=0.001,elementwise_affine=1}",
        {"x": normal(3, 5), "s": normal(5), "b": normal(5)},
        lambda g: {"y": layer_norm(g["x"])[0] * g["s"] + g["b"]},
        ("x", "s", "b"),
    ),
    Case(
        "InstanceNorm(x,s,b)->(y)",
        {"x": normal(2, 3, 2, 3), "s": normal(3), "b": normal(3)},
        lambda g: {
            "y": (g["x"] - g["x"].mean((2, 3), keepdims=True))
            / np.sqrt(g["x"].var((2, 3), keepdims=True) + 1e-5)
            * g["s"][:, None, None]
            + g["b"][:, None, None]
        },
        ("x", "s", "b"),
    ),
    unary("Normalize(x)->(y)", lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True), normal(3, 4)),
    unary("Dropout(x)->(y,mask) {is_test=1}", lambda x: x),
]


def cross_entropy(scores: Array, labels: Array) -> Array:
    return -np.log(softmax(scores)[np.arange(len(labels)), labels])


LABELS = np.array([1, 0, 2], np.int32)

LOSSES = [
    unary("Softmax(x)->(y)", softmax, normal(3, 4)),
    unary("Softmax(x)->(y) {axis=1}", lambda x: softmax(flat(x, 1)).reshape(x.shape), normal(2, 3, 2)),
    Case(
        "SoftmaxWithLoss(x,label)->(p,y)",
        {"x": normal(3, 4), "label": LABELS},
        lambda g: {"p": softmax(g["x"]), "y": cross_entropy(g["x"], g["label"]).mean()},
    ),
    Case(
        "SoftmaxWithLoss(x,label)->(y,loss)",
        {"x": normal(3, 4), "label": LABELS},
        lambda g: {"y": softmax(g["x"])},
    ),
    Case(
        "SoftmaxWithLoss(x,label,w)->(p,y) {scale=2.0}",
        {"x": normal(3, 4), "label": LABELS, "w": positive(3)},
        lambda g: {"y": 2 * (cross_entropy(g["x"], g["label"]) * g["w"]).sum() / g["w"].sum()},
    ),
    Case(
        "SoftmaxWithLoss(x,label)->(p,y) {label_prob=1}",
        {"x": normal(3, 4), "label": softmax(normal(3, 4))},
        lambda g: {"y": -(g["label"] * np.log(softmax(g["x"]))).sum(1).mean()},
    ),
    Case(
        "LabelCrossEntropy(x,label)->(y)",
        {"x": softmax(normal(3, 4)), "label": LABELS},
        lambda g: {"y": -np.log(g["x"][np.arange(3), g["label"]])},
    ),
    Case(
        "LabelCrossEntropy(x,label)->(y)",
        {"x": np.array([[[0.2, 0.8]], [[0.6, 0.4]]]), "label": np.array([[1], [0]], np.int32)},
        lambda g: {"y": -np.log(np.array([g["x"][0, 0, 1], g["x"][1, 0, 0]]))},
    ),
    Case(
        "LabelCrossEntropy(x,label)->(y)",
        {"x": np.array([0.3, 0.7]), "label": np.array([1], np.int32)},
        lambda g: {"y": -np.log(g["x"][1:])},
    ),
    Case(
        "CrossEntropy(x,t)->(y)",
        {"x": np.array([[[0.2, 0.8]], [[0.6, 0.4]]]), "t": np.array([[0.1, 0.9], [0.5, 0.5]])},
        lambda g: {"y": -(g["t"] * np.log(g["x"][:, 0])).sum(1)},
    ),
    Case(
        "CrossEntropy(x,t)->(y)",
        {"x": softmax(normal(3, 4)), "t": softmax(normal(3, 4))},
        lambda g: {"y": -(g["t"] * np.log(g["x"])).sum(1)},
    ),
    Case(
        "SigmoidCrossEntropyWithLogits(x,t)->(y)",
        {"x": normal(3, 4), "t": _random.uniform(size=(3, 4))},
        lambda g: {"y": (np.log1p(np.exp(g["x"])) - g["x"] * g["t"]).mean(1)},
    ),
    Case(
        "SigmoidCrossEntropyWithLogits(x,t)->(y) {log_D_trick=1}",
        {"x": normal(3, 4), "t": _random.integers(0, 2, (3, 4)).astype(float)},
        lambda g: {"y": (-(2 * g["t"] - 1) * np.log(1 / (1 + np.exp(-g["x"])))).mean(1)},
    ),
    Case(
        "SigmoidCrossEntropyWithLogits(x,t)->(y) {unjoined_lr_loss=1}",
        {"x": normal(3, 4), "t": _random.integers(0, 2, (3, 4)).astype(float)},
        lambda g: {"y": ((1 - g["t"]) * np.log(1 + np.exp(g["x"])) - g["x"] * g["t"]).mean(1)},
    ),
    Case(
        "WeightedSigmoidCrossEntropyWithLogits(x,t,w)->(y)",
        {"x": normal(3, 4), "t": _random.uniform(size=(3, 4)), "w": positive(3, 4)},
        lambda g: {"y": (g["w"] * (np.log1p(np.exp(g["x"])) - g["x"] * g["t"])).mean(1)},
    ),
    unary("AveragedLoss(x)->(y)", np.mean, normal(3, 4)),
    unary("MakeTwoClass(x)->(y)", lambda x: np.stack([1 - x, x], 1), _random.uniform(size=5)),
    unary("MakeTwoClass(x)->(y)", lambda x: np.stack([1 - x, x], 2), np.array([[0.1, 0.6], [0.7, 0.4]])),
    Case(
        "Accuracy(x,label)->(y) {top_k=2}",
        {"x": apart(3, 4), "label": LABELS},
        lambda g: {"y": np.mean([k in np.argsort(x)[-2:] for x, k in zip(g["x"], g["label"], strict=True)])},
        (),
    ),
]

SHAPES = [
    unary("Reshape(x)->(y,old) {shape=[2,-1]}", lambda x: x.reshape(2, -1), normal(3, 4)),
    Case(
        "Reshape(x,shape)->(y,old)",
        {"x": normal(3, 4), "shape": np.array([2, 6], np.int64)},
        lambda g: {"y": g["x"].reshape(2, 6), "old": np.array([3, 4])},
    ),
    unary("Reshape(x)->(y,old) {shape=[0,-1]}", lambda x: x.reshape(2, -1), normal(2, 3, 4)),
    Case(
        "Reshape(x,shape)->(y,old)",
        {"x": normal(3, 2, 4), "shape": np.array([-1, 0], np.int32)},
        lambda g: {"y": g["x"].reshape(12, 2), "old": np.array([3, 2, 4])},
    ),
    unary("Reshape(x)->(y,old) {shape=[0,-1,0]}", lambda x: x.reshape(0, 0, 0), normal(2, 0)),
    Case(
        "Reshape(x,shape)->(y,old)",
        {"x": normal(2, 0), "shape": np.array([-1, 0, 3], np.int64)},
        lambda g: {"y": g["x"].reshape(0, 0, 3), "old": np.array([2, 0])},
    ),
    unary("Flatten(x)->(y) {axis=2}", lambda x: x.reshape(6, -1), normal(2, 3, 4)),
    unary("FlattenToVec(x)->(y)", np.ravel, normal(2, 3)),
    unary("ExpandDims(x)->(y) {dims=[0,2]}", lambda x: x[None, :, None], normal(2, 3)),
    unary("Squeeze(x)->(y) {dims=[0,2]}", lambda x: x[0, :, 0], normal(1, 3, 1, 2)),
    unary("Transpose(x)->(y) {axes=[1,2,0]}", lambda x: x.transpose(1, 2, 0), normal(2, 3, 4)),
    unary("Transpose(x)->(y)", np.transpose, normal(2, 3, 4)),
    Case(
        "Concat(x,w)->(y,sizes)",
        {"x": normal(2, 3), "w": normal(2, 1)},
        lambda g: {"y": np.concatenate([g["x"], g["w"]], 1), "sizes": np.array([3, 1])},
        ("x", "w"),
    ),
    Case(
        "Concat(x,w)->(y,sizes) {axis=0,add_axis=1}",
        {"x": normal(2, 3), "w": normal(2, 3)},
        lambda g: {"y": np.stack([g["x"], g["w"]])},
        ("x", "w"),
    ),
    Case(
        "DepthConcat(x,w)->(y,sizes)",
        {"x": normal(2, 3, 2), "w": normal(2, 1, 2)},
        lambda g: {"y": np.concatenate([g["x"], g["w"]], 1), "sizes": np.array([3, 1])},
        ("x", "w"),
    ),
    Case(
        "DepthSplit(x)->(a,y) {split=[1,3]}",
        {"x": normal(2, 4, 2)},
        lambda g: {"a": g["x"][:, :1], "y": g["x"][:, 1:]},
    ),
    unary("Alias(x)->(y)", np.copy, normal(2, 3), ()),
    unary("NegateGradient(x)->(y)", np.copy, normal(2, 3), ()),
    unary("CopyCPUToGPU(x)->(y)", np.copy, normal(2, 3)),
    unary("CopyGPUToCPU(x)->(y)", np.copy, normal(2, 3)),
    Case(
        "Split(x)->(a,y) {split=[1,3],axis=1}",
        {"x": normal(2, 4)},
        lambda g: {"a": g["x"][:, :1], "y": g["x"][:, 1:]},
    ),
    Case(
        "Split(x)->(a,y) {axis=0}; Mul(a,y)->(y)",
        {"x": normal(4, 2)},
        lambda g: {"y": g["x"][:2] * g["x"][2:]},
    ),
    unary("Slice(x)->(y) {starts=[1,0],ends=[-1,2]}", lambda x: x[1:, :2], normal(3, 4)),
    unary("Slice(x)->(y) {starts=[0,1],ends=[-1,-2]}", lambda x: x[:, 1:-1], normal(3, 4)),
    unary("Tile(x)->(y) {tiles=3,axis=1}", lambda x: np.tile(x, (1, 3)), normal(2, 3)),
    Case(
        "Gather(x,i)->(y)",
        {"x": normal(4, 2), "i": np.array([3, 0, 3], np.int64)},
        lambda g: {"y": g["x"][g["i"]]},
    ),
    Case(
        "Gather(x,i)->(y) {dense_gradient=1}",
        {"x": normal(4, 2), "i": np.array([3, 0, 3], np.int32)},
        lambda g: {"y": g["x"][g["i"]]},
    ),
    Case(
        "Gather(x,i)->(a); Gather(x,i2)->(c); DotProduct(a,c)->(y)",
        {"x": normal(4, 2), "i": np.array([3, 0], np.int64), "i2": np.array([3, 1], np.int64)},
        lambda g: {"y": (g["x"][g["i"]] * g["x"][g["i2"]]).sum(1)},
    ),
    Case(
        "Gather(x,i)->(y) {axis=-1}",
        {"x": normal(2, 3, 4), "i": np.array([[3, 0], [0, 1]], np.int32)},
        lambda g: {"y": g["x"][:, :, g["i"]]},
    ),
    Case(
        "Gather(x,i)->(y) {axis=2,match_outer=1}",
        {"x": normal(2, 3, 4, 2), "i": np.arange(24).reshape(2, 3, 4)[:, :, [0, 2, 2]] % 4},
        lambda g: {"y": np.take_along_axis(g["x"], g["i"][..., None], 2)},
    ),
    Case(
        "BatchGather(x,i)->(y) {match_outer=1}",
        {"x": normal(2, 4), "i": np.array([[3, 0, 0], [1, 3, 2]], np.int32)},
        lambda g: {"y": np.take_along_axis(g["x"], g["i"], 1)},
    ),
    Case(
        "BatchGather(x,i)->(y)",
        {"x": normal(2, 4), "i": np.array([3, 0, 3], np.int32)},
        lambda g: {"y": g["x"][:, g["i"]]},
    ),
    Case(
        "SparseToDense(i,x,like)->(y)",
        {"i": np.array([2, 0, 2], np.int32), "x": normal(3, 2), "like": normal(4, 2)},
        lambda g: {"y": np.stack([g["x"][1], np.zeros(2), g["x"][0] + g["x"][2], np.zeros(2)])},
    ),
    Case(
        "SparseToDense(i,x,like)->(y)",
        {"i": np.array([4, 0, 4], np.int32), "x": normal(3, 2), "like": np.zeros(5)},
        lambda g: {"y": np.stack([g["x"][1], *np.zeros((3, 2)), g["x"][0] + g["x"][2]])},
        ("x",),
    ),
    Case(
        "SparseToDense(i,x)->(y)",
        {"i": np.array([3, 1, 3]), "x": np.array([5, 2**30, 7], np.int32)},
        lambda g: {"y": np.array([0, 2**30, 0, 12], np.int32)},
        (),
    ),
    Case("Shape(x)->(y)", {"x": normal(3, 4)}, lambda g: {"y": np.array([3, 4])}, ()),
    Case("Size(x)->(y)", {"x": normal(3, 4)}, lambda g: {"y": np.array(12)}, ()),
    Case("Cast(x)->(y) {to=2}", {"x": normal(3, 4)}, lambda g: {"y": g["x"].astype(np.int32)}, ()),
    Case("ArgMin(x)->(y) {axis=0}", {"x": apart(3, 4)}, lambda g: {"y": g["x"].argmin(0)[None]}, ()),
    Case("Not(x)->(y)", {"x": normal(3) > 0}, lambda g: {"y": ~g["x"]}, ()),
    Case(
        "IsNanOrInf(x)->(y)",
        {"x": np.array([1.0, np.nan, -np.inf])},
        lambda g: {"y": np.array([False, True, True])},
        (),
    ),
    Case("FloatToHalf(x)->(h); HalfToFloat(h)->(y)", {"x": np.array([0.5, -3.0])}, lambda g: {"y": g["x"]}),
    Case(
        "StopGradient(x)->(s); Mul(s,w)->(y)",
        {"x": normal(3), "w": normal(3)},
        lambda g: {"y": g["x"] * g["w"]},
        ("w",),
    ),
    Case("ArgMax(x)->(y) {axis=1,keepdims=0}", {"x": apart(3, 4)}, lambda g: {"y": g["x"].argmax(1)}, ()),
]

REDUCTIONS = [
    unary("SumElements(x)->(y)", np.sum),
    unary("SumElements(x)->(y) {average=1}", np.mean),
    unary("ReduceSum(x)->(y) {axes=[1],keepdims=0}", lambda x: x.sum(1)),
    unary("ReduceMean(x)->(y) {axes=[0]}", lambda x: x.mean(0, keepdims=True)),
    unary("ReduceMax(x)->(y) {axes=[1],keepdims=0}", lambda x: x.max(1), apart(3, 4)),
    unary("ReduceMin(x)->(y) {axes=[1],keepdims=0}", lambda x: x.min(1), apart(3, 4)),
    unary("ReduceL1(x)->(y) {axes=[1],keepdims=0}", lambda x: np.abs(x).sum(1)),
    unary("ReduceL2(x)->(y)", lambda x: np.sqrt((x * x).sum(keepdims=True))),
    unary("ReduceFrontSum(x)->(y)", lambda x: x.sum(0), normal(2, 3, 4)),
    unary("ReduceFrontSum(x)->(y)", lambda x: x.sum(0), normal(5)),
    unary("ReduceFrontMean(x)->(y) {num_reduce_dim=2}", lambda x: x.mean((0, 1)), normal(2, 3, 4)),
    unary("ReduceFrontMax(x)->(y)", lambda x: x.max(0), apart(2, 3, 4)),
    unary("ReduceBackSum(x)->(y)", lambda x: x.sum(-1), normal(2, 3, 4)),
    Case(
        "ReduceFrontSumGradient(dy,shape)->(dx) {num_reduce_dim=2}",
        {"dy": normal(4), "shape": np.array([2, 3, 4])},
        lambda g: {"dx": np.broadcast_to(g["dy"], (2, 3, 4))},
        (),
    ),
    Case(
        "ReduceBackMeanGradient(dy,shape,n)->(dx)",
        {"dy": normal(3), "shape": np.array([3, 4]), "n": np.array([4, 1, 2], np.int32)},
        lambda g: {"dx": g["dy"][:, None] * (np.arange(4) < g["n"][:, None]) / g["n"][:, None]},
        (),
    ),
    unary("ReduceBackMean(x)->(y) {num_reduce_dim=2}", lambda x: x.mean((1, 2)), normal(2, 3, 4)),
    unary("ReduceBackMax(x)->(y)", lambda x: x.max(-1), apart(2, 3, 4)),
]

FILLS = [
    Case("ConstantFill()->(y) {shape=[2,3],value=1.5}", {}, lambda g: {"y": np.full((2, 3), 1.5)}, ()),
    Case(
        "ConstantFill(x,v)->(y) {dtype=10}",
        {"x": normal(2, 3), "v": np.array([7])},
        lambda g: {"y": np.full((2, 3), 7, np.int64)},
        (),
    ),
    Case("ConstantFill(x)->(y) {value=2.0}", {"x": normal(2, 3)}, lambda g: {"y": np.full((2, 3), 2.0)}, ()),
    Case(
        "ConstantFill()->(y) {shape=[2],value=7,dtype=10}", {}, lambda g: {"y": np.full(2, 7, np.int64)}, ()
    ),
    Case(
        "GivenTensorFill()->(y) {shape=[2,2],values=[1.0,2.0,3.0,4.0]}",
        {},
        lambda g: {"y": np.array([[1.0, 2.0], [3.0, 4.0]])},
        (),
    ),
    Case("GivenTensorInt64Fill()->(y) {shape=[2],values=[1,2]}", {}, lambda g: {"y": np.array([1, 2])}, ()),
    Case("RangeFill()->(y) {shape=[3]}", {}, lambda g: {"y": np.arange(3.0)}, ()),
]

CASES = [*UNARY, *SEVERAL, *PRODUCTS, *WINDOWS, *NORMS, *LOSSES, *SHAPES, *REDUCTIONS, *FILLS]
