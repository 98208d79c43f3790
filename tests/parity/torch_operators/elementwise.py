"""Elementwise operators: functions of one number, arithmetic, comparisons, selections."""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch
from onnx import helper
from torch.nn import functional

from tests.parity.torch_operators.table import operator, register, single

Tensor = torch.Tensor

for _op_type, _function in {
    "Abs": torch.abs,
    "Acos": torch.acos,
    "Acosh": torch.acosh,
    "Add": torch.add,
    "And": torch.logical_and,
    "Asin": torch.asin,
    "Asinh": torch.asinh,
    "Atan": torch.atan,
    "Atanh": torch.atanh,
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Cosh": torch.cosh,
    "Equal": torch.eq,
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Floor": torch.floor,
    "Greater": torch.gt,
    "GreaterOrEqual": torch.ge,
    "Less": torch.lt,
    "LessOrEqual": torch.le,
    "Log": torch.log,
    "Mul": torch.mul,
    "Neg": torch.neg,
    "Not": torch.logical_not,
    "Or": torch.logical_or,
    "Pow": torch.pow,
    "Reciprocal": torch.reciprocal,
    "Relu": torch.relu,
    "Round": torch.round,
    "Sigmoid": torch.sigmoid,
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Sinh": torch.sinh,
    "Softsign": functional.softsign,
    "Sqrt": torch.sqrt,
    "Sub": torch.sub,
    "Tan": torch.tan,
    "Tanh": torch.tanh,
    "Where": torch.where,
    "Xor": torch.logical_xor,
}.items():
    register(_op_type, _function)


@operator("Identity")
def identity(x: Tensor) -> Tensor:
    return x


@operator("Dropout")
def dropout(x: Tensor) -> Tensor:
    """In inference mode, without the mask; a ratio or a training mode would be a second input."""
    return x


@operator("Div")
def div(a: Tensor, b: Tensor) -> Tensor:
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


@operator("Mod")
def mod(a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    return torch.fmod(a, b) if fmod else torch.remainder(a, b)


@operator("Sum")
def sum_(*values: Tensor) -> Tensor:
    return reduce(torch.add, values)


@operator("Mean")
def mean(*values: Tensor) -> Tensor:
    return reduce(torch.add, values) / len(values)


@operator("Max")
def max_(*values: Tensor) -> Tensor:
    return reduce(torch.maximum, values)


@operator("Min")
def min_(*values: Tensor) -> Tensor:
    return reduce(torch.minimum, values)


@operator("Clip")
def clip(x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    x = x if low is None else torch.maximum(x, low)
    return x if high is None else torch.minimum(x, high)


@operator("Cast")
def cast(x: Tensor, *, to: int) -> Tensor:
    return x.to(dtype_of(to))


def dtype_of(element_type: int) -> Any:
    """PyTorch's type of an element type of ONNX."""
    return getattr(torch, str(helper.tensor_dtype_to_np_dtype(element_type)))


@operator("CastLike")
def cast_like(x: Tensor, like: Tensor) -> Tensor:
    return x.to(like.dtype)


# ---- activations ---------------------------------------------------------------------------------------


@operator("Softplus")
def softplus(x: Tensor) -> Tensor:
    """Without the straight line that PyTorch's own has beyond 20."""
    return torch.logaddexp(x, torch.zeros_like(x))


@operator("HardSigmoid")
def hard_sigmoid(x: Tensor, *, alpha: float = single(0.2), beta: float = 0.5) -> Tensor:
    return torch.clamp(alpha * x + beta, 0.0, 1.0)


@operator("HardSwish")
def hard_swish(x: Tensor) -> Tensor:
    """By the standard's definition."""
    return x * hard_sigmoid(x, alpha=single(1 / 6), beta=0.5)


@operator("Elu")
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return functional.elu(x, alpha)


@operator("Selu")
def selu(x: Tensor, *, alpha: float = single(1.6732632), gamma: float = single(1.050701)) -> Tensor:
    return gamma * functional.elu(x, alpha)


@operator("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = single(0.01)) -> Tensor:
    return functional.leaky_relu(x, alpha)


@operator("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return functional.threshold(x, alpha, 0.0)


@operator("PRelu")
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    return torch.where(x < 0, slope * x, x)


@operator("Gelu")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    return functional.gelu(x, approximate=approximate)


@operator("Mish")
def mish(x: Tensor) -> Tensor:
    return x * torch.tanh(softplus(x))


@operator("Swish")
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return x * torch.sigmoid(alpha * x)
