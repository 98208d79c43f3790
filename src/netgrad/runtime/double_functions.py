"""Functions of single elements in float64 on ONNX Runtime, which lacks kernels for many of them.

Each is written in terms of Exp, Log, Sqrt, Sin, Cos and arithmetic. Erf and Atan, which are no such terms,
are integrals over [0, 1] of functions without a singularity near it, for which Gauss's quadrature of some
thirty points has the precision of float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from netgrad.runtime.double_writer import Writer

Function: TypeAlias = Callable[[Writer, ir.Node], "ir.Value | None"]

_POINTS = 32


def _input(node: ir.Node, index: int = 0) -> ir.Value:
    value = node.inputs[index]
    assert value is not None, f"{node.op_type} requires its input {index}"
    return value


def _scaled(w: Writer, x: ir.Value, factor: float) -> ir.Value:
    return w.op("Mul", x, w.constant(factor))


def _where(w: Writer, x: ir.Value, above: float, then: ir.Value, other: ir.Value) -> ir.Value:
    return w.op("Where", w.op("Greater", x, w.constant(above)), then, other)


def _integral(w: Writer, x: ir.Value, integrand: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """The integral over t in [0, 1] of a function of (x t)^2."""
    points, weights = np.polynomial.legendre.leggauss(_POINTS)
    squares = w.constant(((points + 1) / 2) ** 2)
    column = w.op("Unsqueeze", w.op("Mul", x, x), w.ints(-1))
    values = integrand(w.op("Mul", column, squares))
    return w.op("ReduceSum", w.op("Mul", values, w.constant(weights / 2)), w.ints(-1), keepdims=0)


def _erf_of(w: Writer, x: ir.Value) -> ir.Value:
    """Erf x = 2 x / sqrt(pi) times the integral of exp(-x^2 t^2); beyond 6 it is 1 to the last digit."""
    x = w.op("Clip", x, w.constant(-6.0), w.constant(6.0))
    integral = _integral(w, x, lambda squares: w.op("Exp", w.op("Neg", squares)))
    return _scaled(w, w.op("Mul", x, integral), 2 / math.sqrt(math.pi))


def _atan_of(w: Writer, x: ir.Value) -> ir.Value:
    """Atan x = x times the integral of 1 / (1 + x^2 t^2); tan(a / 2) = tan a / (1 + sqrt(1 + tan^2 a))."""
    one = w.constant(1.0)
    for _ in range(2):
        root = w.op("Sqrt", w.op("Add", w.op("Mul", x, x), one))
        x = w.op("Div", x, w.op("Add", root, one))
    integral = _integral(w, x, lambda squares: w.op("Reciprocal", w.op("Add", squares, one)))
    return _scaled(w, w.op("Mul", x, integral), 4.0)


def _asin_of(w: Writer, x: ir.Value) -> ir.Value:
    """Asin x = 2 atan(x / (1 + sqrt(1 - x^2)))."""
    one = w.constant(1.0)
    root = w.op("Sqrt", w.op("Sub", one, w.op("Mul", x, x)))
    return _scaled(w, _atan_of(w, w.op("Div", x, w.op("Add", one, root))), 2.0)


def _erf(w: Writer, node: ir.Node) -> ir.Value:
    return _erf_of(w, _input(node))


def _atan(w: Writer, node: ir.Node) -> ir.Value:
    return _atan_of(w, _input(node))


def _asin(w: Writer, node: ir.Node) -> ir.Value:
    return _asin_of(w, _input(node))


def _acos(w: Writer, node: ir.Node) -> ir.Value:
    return w.op("Sub", w.constant(math.pi / 2), _asin_of(w, _input(node)))


def _tan(w: Writer, node: ir.Node) -> ir.Value:
    return w.op("Div", w.op("Sin", _input(node)), w.op("Cos", _input(node)))


def _sinh(w: Writer, node: ir.Node) -> ir.Value:
    x = _input(node)
    return _scaled(w, w.op("Sub", w.op("Exp", x), w.op("Exp", w.op("Neg", x))), 0.5)


def _cosh(w: Writer, node: ir.Node) -> ir.Value:
    x = _input(node)
    return _scaled(w, w.op("Add", w.op("Exp", x), w.op("Exp", w.op("Neg", x))), 0.5)


def _asinh(w: Writer, node: ir.Node) -> ir.Value:
    """Of |x|, with the sign of x: no difference of two large numbers."""
    x = _input(node)
    root = w.op("Sqrt", w.op("Add", w.op("Mul", x, x), w.constant(1.0)))
    return w.op("Mul", w.op("Sign", x), w.op("Log", w.op("Add", w.op("Abs", x), root)))


def _acosh(w: Writer, node: ir.Node) -> ir.Value:
    x = _input(node)
    root = w.op("Sqrt", w.op("Sub", w.op("Mul", x, x), w.constant(1.0)))
    return w.op("Log", w.op("Add", x, root))


def _atanh(w: Writer, node: ir.Node) -> ir.Value:
    x, one = _input(node), w.constant(1.0)
    return _scaled(w, w.op("Log", w.op("Div", w.op("Add", one, x), w.op("Sub", one, x))), 0.5)


# ---- activations -------------------------------------------------------------------------------------


def _softplus_of(w: Writer, x: ir.Value) -> ir.Value:
    tail = w.op("Add", w.constant(1.0), w.op("Exp", w.op("Neg", w.op("Abs", x))))
    return w.op("Add", w.op("Relu", x), w.op("Log", tail))


def _softplus(w: Writer, node: ir.Node) -> ir.Value:
    return _softplus_of(w, _input(node))


def _mish(w: Writer, node: ir.Node) -> ir.Value:
    return w.op("Mul", _input(node), w.op("Tanh", _softplus_of(w, _input(node))))


def _softsign(w: Writer, node: ir.Node) -> ir.Value:
    x = _input(node)
    return w.op("Div", x, w.op("Add", w.constant(1.0), w.op("Abs", x)))


def _exponential_below_zero(w: Writer, x: ir.Value, factor: float) -> ir.Value:
    """X above 0, else factor (exp x - 1)."""
    below = w.op("Sub", w.op("Exp", w.op("Min", x, w.constant(0.0))), w.constant(1.0))
    return _where(w, x, 0.0, x, _scaled(w, below, factor))


def _elu(w: Writer, node: ir.Node) -> ir.Value:
    return _exponential_below_zero(w, _input(node), float(w.attribute("alpha", 1.0)))


def _selu(w: Writer, node: ir.Node) -> ir.Value:
    alpha = float(w.attribute("alpha", np.float32(1.6732632)))
    return _scaled(
        w,
        _exponential_below_zero(w, _input(node), alpha),
        float(w.attribute("gamma", np.float32(1.050701))),
    )


def _leaky_relu(w: Writer, node: ir.Node) -> ir.Value:
    x = _input(node)
    return _where(w, x, 0.0, x, _scaled(w, x, float(w.attribute("alpha", np.float32(0.01)))))


def _parametric_relu(w: Writer, node: ir.Node) -> ir.Value:
    x = _input(node)
    return _where(w, x, 0.0, x, w.op("Mul", x, _input(node, 1)))


def _thresholded_relu(w: Writer, node: ir.Node) -> ir.Value:
    x = _input(node)
    return _where(w, x, float(w.attribute("alpha", 1.0)), x, w.constant(0.0))


def _hard_swish(w: Writer, node: ir.Node) -> ir.Value:
    """Y = X min(max(a X + 1/2, 0), 1), where the standard's definition has the float32 next to 1/6 as a."""
    x = _input(node)
    gate = w.op("Add", _scaled(w, x, float(np.float32(1 / 6))), w.constant(0.5))
    return w.op("Mul", x, w.op("Clip", gate, w.constant(0.0), w.constant(1.0)))


def _swish(w: Writer, node: ir.Node) -> ir.Value:
    x = _input(node)
    return w.op("Mul", x, w.op("Sigmoid", _scaled(w, x, float(w.attribute("alpha", 1.0)))))


def _gelu(w: Writer, node: ir.Node) -> ir.Value | None:
    x, way = _input(node), w.attribute("approximate", "none")
    if way == "none":
        inner = _erf_of(w, _scaled(w, x, math.sqrt(0.5)))
    elif way == "tanh":
        cube = w.op("Mul", w.op("Mul", x, x), x)
        sum_ = w.op("Add", x, _scaled(w, cube, 0.044715))
        inner = w.op("Tanh", _scaled(w, sum_, math.sqrt(2 / math.pi)))
    else:
        return None
    return _scaled(w, w.op("Mul", x, w.op("Add", w.constant(1.0), inner)), 0.5)


# ---- over several elements ---------------------------------------------------------------------------


def _mean(w: Writer, node: ir.Node) -> ir.Value:
    return _scaled(w, w.op("Sum", *node.inputs), 1 / len(node.inputs))


def _over_space(w: Writer, reduction: str, x: ir.Value) -> ir.Value | None:
    """A reduction over all axes but the first two, which stay as axes of size 1."""
    if x.shape is None:
        return None
    axes = list(range(2, len(x.shape)))
    if w.opset >= 18:
        return w.op(reduction, x, w.ints(*axes))
    return w.op(reduction, x, axes=axes)


def _global_max_pool(w: Writer, node: ir.Node) -> ir.Value | None:
    return _over_space(w, "ReduceMax", _input(node))


def _instance_normalization(w: Writer, node: ir.Node) -> ir.Value | None:
    """Y = scale (X - mean) / sqrt(var + epsilon) + bias, with mean and var of each channel of each image."""
    x = _input(node)
    mean = _over_space(w, "ReduceMean", x)
    if mean is None or x.shape is None:
        return None
    centred = w.op("Sub", x, mean)
    square = w.op("Mul", centred, centred)
    square.shape = x.shape
    variance = _over_space(w, "ReduceMean", square)
    assert variance is not None, "its rank is that of X"
    epsilon = w.constant(float(w.attribute("epsilon", np.float32(1e-5))))
    normal = w.op("Div", centred, w.op("Sqrt", w.op("Add", variance, epsilon)))
    column = w.ints(-1, *([1] * (len(x.shape) - 2)))
    scale, bias = (w.op("Reshape", _input(node, k), column) for k in (1, 2))
    return w.op("Add", w.op("Mul", normal, scale), bias)


def _one_hot(w: Writer, node: ir.Node) -> ir.Value | None:
    """Y = values[1] where the position along a new axis is the index, which may count from the end."""
    indices = _input(node)
    if indices.shape is None:
        return None
    rank = len(indices.shape)
    axis = int(w.attribute("axis", -1)) % (rank + 1)
    depth = w.op("Reshape", w.op("Cast", _input(node, 1), to=ir.DataType.INT64), w.ints())
    places = w.op("Cast", indices, to=ir.DataType.INT64)
    zero = w.constant(np.int64(0))
    places = w.op("Where", w.op("Less", places, zero), w.op("Add", places, depth), places)
    positions = w.op("Range", zero, depth, w.constant(np.int64(1)))
    positions = w.op("Reshape", positions, w.ints(-1, *([1] * (rank - axis))))
    hit = w.op("Equal", w.op("Unsqueeze", places, w.ints(axis)), positions)
    off, on = (w.op("Gather", _input(node, 2), w.constant(np.int64(k)), axis=0) for k in (0, 1))
    return w.op("Where", hit, on, off)


FUNCTIONS: dict[str, Function] = {
    "Acos": _acos,
    "Acosh": _acosh,
    "Asin": _asin,
    "Asinh": _asinh,
    "Atan": _atan,
    "Atanh": _atanh,
    "Cosh": _cosh,
    "Elu": _elu,
    "Erf": _erf,
    "Gelu": _gelu,
    "GlobalMaxPool": _global_max_pool,
    "HardSwish": _hard_swish,
    "InstanceNormalization": _instance_normalization,
    "LeakyRelu": _leaky_relu,
    "Mean": _mean,
    "Mish": _mish,
    "OneHot": _one_hot,
    "PRelu": _parametric_relu,
    "Selu": _selu,
    "Sinh": _sinh,
    "Softplus": _softplus,
    "Softsign": _softsign,
    "Swish": _swish,
    "Tan": _tan,
    "ThresholdedRelu": _thresholded_relu,
}
"""What writes each function, by operator type."""
