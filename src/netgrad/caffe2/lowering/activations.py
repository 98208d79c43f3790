"""Elementwise functions of one operand, and their gradient operators."""

from __future__ import annotations

from collections.abc import Callable

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.onnx.builder import Builder, Value

_SAME = {
    "Abs": "Abs",
    "Acos": "Acos",
    "Asin": "Asin",
    "Atan": "Atan",
    "Ceil": "Ceil",
    "Copy": "Identity",
    "CopyCPUToGPU": "Identity",
    "CopyFromCPUInput": "Identity",
    "CopyGPUToCPU": "Identity",
    "CopyOnDeviceLike": "Identity",
    "Cos": "Cos",
    "Cosh": "Cosh",
    "EnsureCPUOutput": "Identity",
    "EnsureDense": "Identity",
    "Alias": "Identity",
    "AliasWithName": "Identity",
    "Erf": "Erf",
    "Exp": "Exp",
    "Floor": "Floor",
    "Log": "Log",
    "NanCheck": "Identity",
    "NegateGradient": "Identity",
    "Negative": "Neg",
    "Not": "Not",
    "Reciprocal": "Reciprocal",
    "Relu": "Relu",
    "ReluFp16": "Relu",
    "Sigmoid": "Sigmoid",
    "Sign": "Sign",
    "Sin": "Sin",
    "Sinh": "Sinh",
    "Softplus": "Softplus",
    "Softsign": "Softsign",
    "Sqrt": "Sqrt",
    "StopGradient": "Identity",
    "Tan": "Tan",
    "Tanh": "Tanh",
}


@lowers(*_SAME)
def _same(c: Context, x: Value, *_: Value) -> Value:
    return c.b.op(_SAME[c.definition.type], x)


# ---- functions that ONNX has in other words ----------------------------------------------------------


def _sqr(c: Context, b: Builder, x: Value) -> Value:
    return x * x


def _cube(c: Context, b: Builder, x: Value) -> Value:
    return x * x * x


def _cbrt(c: Context, b: Builder, x: Value) -> Value:
    return b.op("Sign", x) * b.op("Abs", x) ** (1.0 / 3.0)


def _rsqrt(c: Context, b: Builder, x: Value) -> Value:
    return b.op("Reciprocal", b.op("Sqrt", x))


def _swish(c: Context, b: Builder, x: Value) -> Value:
    return x * b.op("Sigmoid", x)


def _mish(c: Context, b: Builder, x: Value) -> Value:
    return x * b.op("Tanh", b.op("Softplus", x))


def _log1p(c: Context, b: Builder, x: Value) -> Value:
    """The logarithm of 1 + x, which is exact for small x as well (Kahan): what rounding adds cancels out."""
    shifted = x + 1.0
    same = shifted.equals(1.0)
    return b.where(same, x, b.op("Log", shifted) * (x / b.where(same, 1.0, shifted - 1.0)))


def _leaky_relu(c: Context, b: Builder, x: Value) -> Value:
    return b.op("LeakyRelu", x, alpha=c.argument("alpha", 0.01))


def _elu(c: Context, b: Builder, x: Value) -> Value:
    return b.op("Elu", x, alpha=c.argument("alpha", 1.0))


def _selu(c: Context, b: Builder, x: Value) -> Value:
    alpha = c.argument("alpha", 1.6732632423543772)
    return b.op("Selu", x, alpha=alpha, gamma=c.argument("scale", 1.0507009873554805))


def _thresholded_relu(c: Context, b: Builder, x: Value) -> Value:
    return b.op("ThresholdedRelu", x, alpha=c.argument("alpha", 1.0))


def _relu_n(c: Context, b: Builder, x: Value) -> Value:
    return b.op("Clip", x, b.scalar(0.0, x), b.scalar(c.argument("n", 6.0), x))


def _clip(c: Context, b: Builder, x: Value) -> Value:
    low = b.scalar(c.argument("min", 0.0), x) if c.has("min") else None
    high = b.scalar(c.argument("max", 0.0), x) if c.has("max") else None
    return b.op("Clip", x, low, high)


def _hard_sigmoid(c: Context, b: Builder, x: Value) -> Value:
    return b.op("HardSigmoid", x, alpha=c.argument("alpha", 0.2), beta=c.argument("beta", 0.5))


def _gelu(c: Context, b: Builder, x: Value) -> Value:
    return b.op("Gelu", x, approximate="tanh" if c.argument("fast_gelu", False) else "none")


def _scale(c: Context, b: Builder, x: Value) -> Value:
    return x * c.argument("scale", 1.0)


def _logit(c: Context, b: Builder, x: Value) -> Value:
    epsilon = c.argument("eps", 1e-6)
    inside = b.op("Clip", x, b.scalar(epsilon, x), b.scalar(1.0 - epsilon, x))
    return b.op("Log", inside / (1.0 - inside))


_COMPOSED: dict[str, Callable[[Context, Builder, Value], Value]] = {
    "Cbrt": _cbrt,
    "Clip": _clip,
    "Cube": _cube,
    "Elu": _elu,
    "ELU": _elu,
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "LeakyRelu": _leaky_relu,
    "Log1p": _log1p,
    "Logit": _logit,
    "Mish": _mish,
    "ReluN": _relu_n,
    "Rsqrt": _rsqrt,
    "Scale": _scale,
    "Selu": _selu,
    "Sqr": _sqr,
    "Swish": _swish,
    "ThresholdedRelu": _thresholded_relu,
}


@lowers(*_COMPOSED)
def _composed(c: Context, x: Value) -> Value:
    return _COMPOSED[c.definition.type](c, c.b, x)


# ---- gradient operators that read the input -----------------------------------------------------------

# Type of the gradient operator to that of the forward one; the first operand is the input, the last the
# gradient of the output, or the other way round.
_INPUT_FIRST = (
    "Abs",
    "Acos",
    "Asin",
    "Atan",
    "Cos",
    "ELU",
    "Erf",
    "Logit",
    "Mish",
    "Sin",
    "Softsign",
    "Swish",
    "Tan",
)
_GRADIENT_FIRST = ("Cosh", "Gelu", "Sinh")


@lowers(*(f"{type_}Gradient" for type_ in (*_INPUT_FIRST, *_GRADIENT_FIRST)))
def _by_the_input(c: Context, *operands: Value) -> Value:
    forward = c.definition.type.removesuffix("Gradient")
    x, dy = (operands[1], operands[0]) if forward in _GRADIENT_FIRST else (operands[0], operands[-1])

    def write(b: Builder, given: list[Value]) -> list[Value]:
        if forward in _SAME:
            return [b.op(_SAME[forward], given[0])]
        return [_COMPOSED[forward](c, b, given[0])]

    return gradients(c.b, write, [x], [dy])[0]


# ---- gradient operators that read the output ----------------------------------------------------------


@lowers("ReluGradient", "ReluFp16Gradient")
def _relu_gradient(c: Context, y: Value, dy: Value) -> Value:
    return c.b.where(y > 0.0, dy, 0.0)


@lowers("ReluNGradient")
def _relu_n_gradient(c: Context, y: Value, dy: Value) -> Value:
    inside = c.b.op("And", y > 0.0, y < c.argument("n", 6.0))
    return c.b.where(inside, dy, 0.0)


@lowers("LeakyReluGradient")
def _leaky_relu_gradient(c: Context, y: Value, dy: Value) -> Value:
    return c.b.where(y >= 0.0, dy, dy * c.argument("alpha", 0.01))


@lowers("EluGradient")
def _elu_gradient(c: Context, y: Value, dy: Value) -> Value:
    return c.b.where(y >= 0.0, dy, dy * (y + c.argument("alpha", 1.0)))


@lowers("SeluGradient")
def _selu_gradient(c: Context, y: Value, dy: Value) -> Value:
    alpha, scale = c.argument("alpha", 1.6732632423543772), c.argument("scale", 1.0507009873554805)
    return c.b.where(y > 0.0, dy * scale, dy * (y + alpha * scale))


@lowers("SigmoidGradient")
def _sigmoid_gradient(c: Context, y: Value, dy: Value) -> Value:
    return dy * y * (1.0 - y)


@lowers("TanhGradient")
def _tanh_gradient(c: Context, y: Value, dy: Value) -> Value:
    return dy * (1.0 - y * y)


@lowers("SoftplusGradient")
def _softplus_gradient(c: Context, y: Value, dy: Value) -> Value:
    return dy * (1.0 - c.b.op("Exp", -y))


@lowers("ThresholdedReluGradient")
def _thresholded_relu_gradient(c: Context, y: Value, dy: Value) -> Value:
    """What passes is above the threshold, which may be negative; the rest is 0."""
    return c.b.where(y.equals(0.0), 0.0, dy)


@lowers("ClipGradient")
def _clip_gradient(c: Context, y: Value, dy: Value) -> Value:
    """The gradient passes where the output lies strictly between the bounds."""
    b, result = c.b, dy
    if c.has("min"):
        result = b.where(y > c.argument("min", 0.0), result, 0.0)
    if c.has("max"):
        result = b.where(y < c.argument("max", 0.0), result, 0.0)
    return result


@lowers("HardSigmoidGradient")
def _hard_sigmoid_gradient(c: Context, y: Value, dy: Value) -> Value:
    inside = c.b.op("And", y > 0.0, y < 1.0)
    return c.b.where(inside, dy * c.argument("alpha", 0.2), 0.0)


@lowers("CubeGradient")
def _cube_gradient(c: Context, dy: Value, x: Value) -> Value:
    return dy * x * x * 3.0


@lowers("ReciprocalGradient")
def _reciprocal_gradient(c: Context, y: Value, dy: Value) -> Value:
    return -(dy * y * y)


@lowers("RsqrtGradient")
def _rsqrt_gradient(c: Context, dy: Value, y: Value) -> Value:
    return dy * y * y * y * -0.5


@lowers("CbrtGradient")
def _cbrt_gradient(c: Context, dy: Value, y: Value) -> Value:
    return dy / (y * y * 3.0)


@lowers("Log1pGradient")
def _log1p_gradient(c: Context, x: Value, dy: Value) -> Value:
    return dy / (x + 1.0)
