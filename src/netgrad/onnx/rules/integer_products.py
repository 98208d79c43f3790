"""Products of integers that stand for real numbers: what MatMulInteger and ConvInteger pass straight through.

Y = (A - a) (B - b) with zero points a and b is differentiated as the product of real numbers that it is; the
cotangents are those of the integers, so that no scale comes in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from netgrad.core.operator import Operator
from netgrad.onnx.broadcast import unbroadcast
from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.conv import conv
from netgrad.onnx.rules.declaration import Declaration, Kind, Origin, source_of
from netgrad.onnx.rules.linear import matmul


def matmul_integer(op: RuleContext, dy: Value) -> list[Value | None]:
    """Y = (A - a) (B - b); dA = dY (B - b)^T, dB = (A - a)^T dY."""
    left, right = _exact(op, dy, 0, rows=True), _exact(op, dy, 1, rows=False)
    grads = matmul(_as_real(op, "MatMul", left, right), dy)
    return [
        None if grad is None else unbroadcast(op.builder, grad, exact)
        for grad, exact in zip(grads, (left, right), strict=True)
    ] + [None] * (len(op.inputs) - 2)


def conv_integer(op: RuleContext, dy: Value) -> list[Value | None]:
    """Y = (X - x) * (W - w), a convolution; dX and dW are those of Conv."""
    image, kernel = _exact(op, dy, 0, rows=False), _exact(op, dy, 1, rows=True)
    return conv(_as_real(op, "Conv", image, kernel), dy) + [None] * (len(op.inputs) - 2)


def _exact(op: RuleContext, dy: Value, index: int, *, rows: bool) -> Value:
    """Input ``index`` without its zero point, in the type of ``dy``.

    A zero point may be a vector of those of the columns; ``rows`` says that it must be a single one.
    """
    b, name = op.builder, op.operator.inputs[index]
    integers = b.value(name, op.rules.types[name])
    exact = b.cast(integers, op.floating(dy))
    zero = op.optional(2 + index)
    if zero is None:
        return b.assume_like(exact, integers)
    shift = b.cast(zero, op.floating(dy))
    if rows and zero.static_shape not in (None, (), (1,)):
        raise op.refuse(
            f"its zero point '{zero.name}' is not a single one, and no runtime has a kernel for it"
        )
    if rows:
        shift = b.reshape(shift, [])
    return b.assume_like(exact - shift, integers)


def _as_real(op: RuleContext, op_type: str, first: Value, second: Value) -> RuleContext:
    """The operator on real numbers, as the rule of ``op_type`` sees it."""
    inputs = (first.name, second.name)
    real = Operator(op_type, inputs, op.operator.outputs, op.operator.attributes, name=op.operator.name)
    wanted = (op.wants(0), op.wants(1))
    return RuleContext(real, (first, second), op.outputs, wanted, op.builder, op.rules, op.exposed)


def _declared(op_type: str, function: object, attributes: Sequence[str]) -> Declaration:
    assert callable(function), "a rule is a function"
    return Declaration(
        op_type,
        "",
        Kind.RULE,
        function=function,
        attributes=tuple(attributes),
        not_differentiable=(2, 3),
        source=source_of(function),
        origin=Origin.STRAIGHT_THROUGH,
        partial=True,
    )


PRODUCTS: Mapping[str, Declaration] = {
    "ConvInteger": _declared(
        "ConvInteger", conv_integer, ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    ),
    "MatMulInteger": _declared("MatMulInteger", matmul_integer, ()),
}
"""Of products of integers, where an operand stands for real numbers."""
