"""Elementwise operators of several operands, with Caffe2's two kinds of broadcasting, and their gradients."""

from __future__ import annotations

import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.onnx.broadcast import unbroadcast
from netgrad.onnx.builder import Builder, Value

_OPERATORS = {
    "Add": "Add",
    "And": "And",
    "BitwiseAnd": "BitwiseAnd",
    "BitwiseOr": "BitwiseOr",
    "BitwiseXor": "BitwiseXor",
    "Div": "Div",
    "EQ": "Equal",
    "GE": "GreaterOrEqual",
    "GT": "Greater",
    "LE": "LessOrEqual",
    "LT": "Less",
    "Mul": "Mul",
    "NE": "Equal",
    "Or": "Or",
    "Sub": "Sub",
    "Xor": "Xor",
}

_ORDERS = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")


def _axis(c: Context, a: Value, b: Value) -> int:
    """Where the dims of ``b`` lie among those of ``a``, with the old broadcasting."""
    name = c.argument("axis_str", "")
    if name:
        return c.argument("order", "NCHW").index(name)
    axis = c.argument("axis", -1)
    return c.rank(a) - c.rank(b) if axis == -1 else axis


def aligned(c: Context, builder: Builder, a: Value, b: Value) -> Value:
    """``b`` with dims of size 1 behind it, so that ONNX broadcasts it as Caffe2 does.

    With ``broadcast=1`` its shape is a run of the dims of ``a`` from ``axis`` on, by default the last ones.
    """
    if not c.argument("broadcast", False) or c.rank(b) == 0:
        return b
    behind = c.rank(a) - c.rank(b) - _axis(c, a, b)
    if behind < 0:
        raise c.refused("the second operand has more dims than the first one has left from the axis on")
    first = c.rank(b)
    return builder.unsqueeze(b, range(first, first + behind))


@lowers(*_OPERATORS)
def _elementwise(c: Context, a: Value, b: Value) -> Value:
    type_ = _OPERATORS[c.definition.type]
    if a.dtype is ir.DataType.BOOL and type_.startswith("Bitwise"):
        type_ = type_.removeprefix("Bitwise")
    elif a.dtype is ir.DataType.BOOL and type_ in _ORDERS:
        a, b = (c.b.cast(x, ir.DataType.INT32) for x in (a, b))
    result = c.b.op(type_, a, aligned(c, c.b, a, b))
    return c.b.op("Not", result) if c.definition.type == "NE" else result


@lowers("DivGradient")
def _div_gradient(c: Context, *operands: Value) -> list[Value]:
    """From the gradient and both operands; in older nets from divisor, result and gradient."""
    if len(operands) == 4 and c.definition.input[1] == c.definition.input[3]:
        # It has worked in place: where the dividend was is the result.
        operands = (operands[2], operands[3], operands[0])
    if len(operands) != 3:
        return _both_gradients(c, "Div", *operands[:3])
    divisor, result, dy = operands
    wide = aligned(c, c.b, result, divisor)
    by_dividend = dy / wide
    by_divisor = unbroadcast(c.b, c.b.op("Neg", by_dividend * result), wide)
    return [by_dividend, c.b.reshape_like(by_divisor, divisor)]


@lowers("AddGradient", "SubGradient", "MulGradient")
def _elementwise_gradient(c: Context, dy: Value, a: Value, b: Value, *_: Value) -> list[Value]:
    return _both_gradients(c, c.definition.type.removesuffix("Gradient"), dy, a, b)


def _both_gradients(c: Context, type_: str, dy: Value, a: Value, b: Value) -> list[Value]:
    def write(builder: Builder, given: list[Value]) -> list[Value]:
        return [builder.op(type_, given[0], aligned(c, builder, given[0], given[1]))]

    return gradients(c.b, write, [a, b], [dy])


@lowers("SumReduceLike")
def _sum_reduce_like(c: Context, x: Value, like: Value) -> Value:
    """The sum over the dims that the old broadcasting has added."""
    if c.rank(like) == 0:
        return c.b.reduce_sum(x, range(c.rank(x)))
    axis = _axis(c, x, like)
    rest = [k for k in range(c.rank(x)) if not axis <= k < axis + c.rank(like)]
    return unbroadcast(c.b, c.b.reduce_sum(x, rest), like)


# ---- any number of operands --------------------------------------------------------------------------


@lowers("Sum", "SumInt", "Max", "Min", "Mean")
def _variadic(c: Context, *terms: Value) -> Value:
    """Of terms in one shape: these operators have never broadcast."""
    first, *others = c.definition.input
    for name, term in zip(others, terms[1:], strict=True):
        if _differ(term, terms[0]):
            raise c.refused(f"'{name}' has another shape than '{first}'")
    if len(terms) == 1:
        return c.b.op("Identity", terms[0])
    type_ = "Sum" if c.definition.type == "SumInt" else c.definition.type
    if type_ == "Mean" and terms[0].dtype is ir.DataType.DOUBLE:
        return c.b.op("Sum", *terms) * (1.0 / len(terms))  # ONNX Runtime has a kernel for float32
    if terms[0].is_floating or type_ != "Sum":
        return c.b.op(type_, *terms)
    total = terms[0]
    for term in terms[1:]:  # Sum takes no whole numbers
        total = total + term
    return total


def _differ(a: Value, b: Value) -> bool:
    """Whether shapes are known to differ; in the body of a loop even a rank may be unknown."""
    if a.rank is None or b.rank is None or a.rank != b.rank:
        return a.rank is not None and b.rank is not None
    dims = [(a.dim(axis), b.dim(axis)) for axis in range(a.rank)]
    return any(isinstance(one, int) and isinstance(other, int) and one != other for one, other in dims)


@lowers("MaxGradient", "MinGradient")
def _extreme_gradient(c: Context, y: Value, dy: Value, *terms: Value) -> list[Value]:
    """Every operand that equals the result gets the whole gradient, as in the original."""
    return [c.b.where(term.equals(y), dy, 0.0) for term in terms]


@lowers("MeanGradient")
def _mean_gradient(c: Context, dy: Value) -> list[Value]:
    return [dy * (1.0 / c.outputs)] * c.outputs


@lowers("WeightedSum")
def _weighted_sum(c: Context, *operands: Value) -> Value:
    """The sum, in the shape of the first blob; others have as many elements, in any number of axes."""
    first = operands[0]
    operands = tuple(
        c.b.reshape_like(x, first) if at % 2 == 0 and c.rank(x) != c.rank(first) else x
        for at, x in enumerate(operands)
    )
    terms = [
        x if weight is None else x * c.b.cast(_scalar(c, weight), x.dtype or ir.DataType.FLOAT)
        for x, weight in zip(operands[::2], operands[1::2], strict=True)
    ]
    return terms[0] if len(terms) == 1 else c.b.op("Sum", *terms)


@lowers("WeightedSumGradient")
def _weighted_sum_gradient(c: Context, dy: Value, *operands: Value) -> list[Value]:
    blobs = [x if c.rank(x) == c.rank(dy) else c.b.reshape_like(x, dy) for x in operands[::2]]
    by_terms = [
        c.b.reshape_like(dy * _scalar(c, weight), x) if c.rank(x) != c.rank(dy) else dy * _scalar(c, weight)
        for x, weight in zip(operands[::2], operands[1::2], strict=True)
    ]
    if not c.argument("grad_on_w", False):
        return by_terms
    axes = range(c.rank(dy))
    sums = [c.b.reduce_sum(dy * x, axes) for x in blobs]
    return by_terms + [
        c.b.reshape_like(total, weight) for total, weight in zip(sums, operands[1::2], strict=True)
    ]


def _scalar(c: Context, weight: Value) -> Value:
    return weight if c.rank(weight) == 0 else c.b.reshape(weight, [])


@lowers("Pow")
def _pow(c: Context, x: Value, exponent: Value | None = None) -> Value:
    if exponent is not None:
        return c.b.op("Pow", x, aligned(c, c.b, x, exponent))
    if not c.has("exponent"):
        raise c.refused("the argument 'exponent' is missing")
    return x ** c.argument("exponent", 0.0)


@lowers("PRelu")
def _prelu(c: Context, x: Value, slope: Value) -> Value:
    return c.b.op("PRelu", x, _per_channel(c, c.b, x, slope))


@lowers("PReluGradient")
def _prelu_gradient(c: Context, y: Value, dy: Value, x: Value, slope: Value) -> list[Value]:
    def write(b: Builder, given: list[Value]) -> list[Value]:
        return [b.op("PRelu", given[0], _per_channel(c, b, given[0], given[1]))]

    return gradients(c.b, write, [x, slope], [dy])


def _per_channel(c: Context, b: Builder, x: Value, slope: Value) -> Value:
    """A slope per channel with dims behind it; one slope for all as it is."""
    if slope.static_shape == (1,) or c.argument("order", "NCHW") == "NHWC":
        return slope
    c.static(slope, 0)
    return b.unsqueeze(slope, range(1, c.rank(x) - 1)) if c.rank(x) > 2 else slope


@lowers("Where")
def _where(c: Context, condition: Value, yes: Value, no: Value) -> Value:
    if c.argument("broadcast_on_rows", False) or c.argument("enable_broadcast", False):
        condition = c.b.unsqueeze(condition, range(1, c.rank(yes)))
    return chosen(c.b, condition, yes, no)


def chosen(b: Builder, condition: Value, yes: Value, no: Value) -> Value:
    """One of two where a condition holds. ONNX Runtime has no kernel for truth values."""
    if yes.dtype is not ir.DataType.BOOL:
        return b.op("Where", condition, yes, no)
    return b.op("Or", b.op("And", condition, yes), b.op("And", b.op("Not", condition), no))


@lowers("RowMul")
def _row_mul(c: Context, matrix: Value, weights: Value) -> Value:
    return matrix * c.b.unsqueeze(c.b.reshape(weights, [-1]), range(1, c.rank(matrix)))


@lowers("ReduceTailSum")
def _reduce_tail_sum(c: Context, x: Value) -> Value:
    return c.b.reduce_sum(x, range(1, c.rank(x)))


@lowers("Glu")
def _gated(c: Context, x: Value) -> Value:
    """One half of the elements along an axis by the sigmoid of the other."""
    halves = c.b.ops("Split", x, outputs=2, axis=c.axis(x, c.argument("dim", -1)), num_outputs=2)
    return halves[0] * c.b.op("Sigmoid", halves[1])


@lowers("BatchBoxCox")
def _box_cox(c: Context, x: Value, power: Value, shift: Value) -> Value:
    """((x + shift)^power - 1) / power, or the logarithm for a power of 0; of 1e-6 at least."""
    b = c.b
    base = b.op("Max", x + shift, b.scalar(1e-6, x))
    is_zero = power.equals(0.0)
    exponent = b.where(is_zero, 1.0, power)
    return b.where(is_zero, b.op("Log", base), (base**exponent - 1.0) / exponent)
