"""Numbers as others: of another element type, as remainders, and which of them are none."""

from __future__ import annotations

import math

import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.onnx.builder import Value


@lowers("FloatToHalf")
def _to_half(c: Context, x: Value) -> Value:
    return c.b.cast(x, ir.DataType.FLOAT16)


@lowers("HalfToFloat")
def _to_float(c: Context, x: Value) -> Value:
    return c.b.cast(x, ir.DataType.FLOAT)


@lowers("IsNanOrInf")
def _is_strange(c: Context, x: Value) -> Value:
    return c.b.op("Or", c.b.op("IsNaN", x), c.b.op("IsInf", x))


@lowers("IsNaN")
def _is_no_number(c: Context, x: Value) -> Value:
    return c.b.cast(c.b.op("IsNaN", x), ir.DataType.UINT8)


@lowers("Mod")
def _mod(c: Context, x: Value) -> Value:
    """The remainder by a constant, with the sign of the operand or, if asked, of the divisor."""
    divisor = c.argument("divisor", 0)
    if not divisor:
        raise c.refused("the argument 'divisor' is missing or zero")
    by = c.b.scalar(divisor, x)
    if c.argument("sign_follow_divisor", False):
        return c.b.op("Mod", x, by)
    return c.b.op("Sign", x) * c.b.op("Mod", c.b.op("Abs", x), c.b.scalar(math.fabs(divisor), x))
