"""Cotangents that pass operators whose derivative is zero: the straight-through estimate.

Rounding is differentiated as if it did not round. Where an operator gives integers (QuantizeLinear), they
stand for real numbers until an operator makes floating-point numbers of them again (DequantizeLinear, Cast).
On this stretch, through operators that only move elements, their cotangents are floating-point tensors.

Source: Bengio, Léonard, Courville, Estimating or propagating gradients through stochastic neurons (2013),
https://arxiv.org/abs/1308.3432; for scales: Esser et al., Learned step size quantization (2020),
https://arxiv.org/abs/1902.08153.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from netgrad.core.operator import Operator
from netgrad.onnx.broadcast import unbroadcast
from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import Contributions, Declaration, Kind, Origin, source_of
from netgrad.onnx.rules.integer_products import PRODUCTS
from netgrad.onnx.rules.quantised_operators import QUANTISED, quantised_gradient
from netgrad.onnx.rules.quantize import along_axis, scale_gradient, sum_of_blocks
from netgrad.onnx.view import FLOATING, Structure, TensorInfo

ROUNDING = frozenset(
    ("", op_type)
    for op_type in (
        *("Ceil", "Floor", "Hardmax", "Round", "Sign"),
        *("DynamicQuantizeLinear", "QuantizeLinear"),
    )
)
"""The operators that ``straight_through=True`` speaks of."""

_MOVED: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(
        [
            *("Cast", "CastLike", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements"),
            *("GatherND", "Identity", "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile"),
            *("Transpose", "Unsqueeze"),
        ],
        (0,),
    ),
    "Concat": (),
}
"""Operators that move or convert elements, and at which inputs they take them; ``()``: at all."""


def takes_stand_in(op: Operator, index: int) -> bool:
    """Whether input ``index`` may be integers that stand for real numbers."""
    quantised = QUANTISED.get((op.domain, op.type))
    if quantised is not None:
        return index in quantised.operands_of(op)
    if op.domain:
        return False
    if op.type == "DequantizeLinear":
        return index == 0
    if op.type in PRODUCTS:
        return index < 2
    positions = _MOVED.get(op.type)
    return positions is not None and (not positions or index in positions)


def stand_ins(
    operators: Iterable[Operator],
    types: Mapping[str, TensorInfo],
    passes: Callable[[Operator], bool],
    known: Mapping[str, TensorInfo] | None = None,
) -> dict[str, TensorInfo]:
    """Values that are no floating-point numbers but stand for some, with what their cotangents are.

    Args:
        operators: Operators in order.
        types: What is known of every value.
        passes: Whether an operator passes cotangents straight through.
        known: Such values that are known already.
    """
    found = dict(known or {})
    for op in operators:
        dtype: ir.DataType | None = None
        if passes(op) and (source := _first_real(op, types, found)) is not None:
            dtype = source.dtype
            outputs: Sequence[str] = op.outputs[:1]
        elif op.type != "DequantizeLinear":
            outputs = op.outputs
            for k, name in enumerate(op.inputs):
                if name in found and takes_stand_in(op, k):
                    dtype = found[name].dtype
                    break
        if dtype is None:
            continue
        for name in outputs:
            info = types.get(name, TensorInfo())
            tensor = info.structure is Structure.TENSOR
            if name and tensor and info.dtype is not None and info.dtype not in FLOATING:
                found[name] = TensorInfo(dtype, info.shape)
    return found


def _first_real(
    op: Operator, types: Mapping[str, TensorInfo], found: Mapping[str, TensorInfo]
) -> TensorInfo | None:
    """The first input that is a floating-point tensor, or stands for one."""
    for k, name in enumerate(op.inputs):
        if name in found and takes_stand_in(op, k):
            return found[name]
        if name and types.get(name, TensorInfo()).dtype in FLOATING:
            return types[name]
    return None


def pass_through(op: Operator) -> Declaration:
    """What is declared of an operator that passes cotangents straight through."""
    known = _OF_THEIR_OWN.get((op.domain, op.type))
    return known or Declaration(
        op.type,
        op.domain,
        Kind.RULE,
        function=straight_through,
        attributes=None,
        source=source_of(straight_through),
        origin=Origin.STRAIGHT_THROUGH,
        partial=True,
    )


def straight_through(op: RuleContext, *dy: Value | None) -> Contributions:
    """The cotangent of the first output is that of the first floating-point input; the others get none."""
    found = next((k for k, value in enumerate(op.inputs) if value is not None and value.is_floating), None)
    contributions: list[Value | None] = [None] * len(op.inputs)
    if found is None:
        raise op.refuse("it has no floating-point input that a cotangent could go straight through to")
    x, cotangent = op.required(found), dy[0]
    if cotangent is None:
        return contributions
    have, want = op.output.shape, x.shape
    if have is not None and want is not None and _differ(have, want):
        raise op.refuse(
            f"its output has shape {list(have)} and its first floating-point input {list(want)}, so the "
            "cotangent cannot go straight through",
            "give a function instead",
        )
    contributions[found] = cotangent
    return contributions


def quantize_linear(op: RuleContext, dy: Value | None) -> Contributions:
    """Y = saturate(round(X / s) + z); dX = m dY / s and ds = -sum of m dY X / s^2.

    Here m is 1 where nothing saturates, and 0 elsewhere. With the scale's part in DequantizeLinear this is
    the gradient of a learned step size. There is none of the zero point.
    """
    contributions: list[Value | None] = [None] * len(op.inputs)
    if dy is None:
        return contributions
    b, x, scale = op.builder, op.required(0), op.required(1)
    axis, block = int(op.attribute("axis", 1)), int(op.attribute("block_size", 0))
    spread = b.cast(_spread(op, scale, x, axis, block), op.floating(x))
    steps = x / spread
    dtype = _quantized_type(op)
    low, high = _limits(dtype)
    zero = op.optional(2)
    if zero is not None and dtype.is_integer():
        shifted = _spread(op, b.cast(zero, op.floating(x)), x, axis, block)
        level = op.emit("Round", steps) + shifted
    else:
        level = op.emit("Round", steps) if dtype.is_integer() else steps
    inside = op.emit("And", level >= low, level <= high)
    passed = op.masked(inside, dy) / spread
    contributions[0] = passed
    if op.wants(1):
        products = -(passed * steps)
        if block:
            contributions[1] = sum_of_blocks(op, products, axis % op.rank(x), block)
        else:
            one_per_index = along_axis(op, scale, x, axis)
            contributions[1] = b.reshape_like(unbroadcast(b, products, one_per_index), scale)
    return contributions


def dynamic_quantize_linear(op: RuleContext, dy: Value | None, *rest: Value | None) -> Contributions:
    """Y = round(X / s) + z with s and z such that nothing saturates; dX = dY / s, s taken for a constant."""
    scale = op.optional_output(1)
    assert scale is not None, "an output that the rule needs is there"
    return [None if dy is None else dy / scale]


def dequantize_stand_in(op: RuleContext, dy: Value) -> Contributions:
    """Y = (X - z) s; dX = s dY, ds as without straight-through."""
    x, scale = op.required(0), op.required(1)
    axis, block = int(op.attribute("axis", 1)), int(op.attribute("block_size", 0))
    contributions: list[Value | None] = [None] * len(op.inputs)
    if op.wants(1):
        integers = op.builder.value(x.name, op.rules.types[x.name])
        contributions[1] = scale_gradient(op, integers, dy)
    spread = _spread(op, scale, x, axis, block)
    contributions[0] = dy * op.builder.cast(spread, op.floating(dy))
    return contributions


def of_stand_ins(op: Operator, known: Mapping[str, TensorInfo]) -> Declaration | None:
    """What is declared of an operator because an input stands for real numbers, or None."""
    declared = _OF_STAND_INS.get((op.domain, op.type))
    if declared is None:
        return None
    return (
        declared if any(name in known and takes_stand_in(op, k) for k, name in enumerate(op.inputs)) else None
    )


DEQUANTIZE = Declaration(
    "DequantizeLinear",
    "",
    Kind.RULE,
    function=dequantize_stand_in,
    attributes=("axis", "block_size", "output_dtype"),
    not_differentiable=(2,),
    source=source_of(dequantize_stand_in),
    origin=Origin.STRAIGHT_THROUGH,
    partial=True,
)
"""Of DequantizeLinear where its first input stands for real numbers."""


def quantised_operator(op: RuleContext, dy: Value) -> Contributions:
    """Y = quantize(f(dequantize(X_1), ...)): the gradients of these three, one behind the other."""
    return quantised_gradient(op, dy, quantize_linear, dequantize_stand_in)


_OF_STAND_INS: Mapping[tuple[str, str], Declaration] = {
    ("", "DequantizeLinear"): DEQUANTIZE,
    **{("", op_type): declared for op_type, declared in PRODUCTS.items()},
    **{
        (domain, op_type): Declaration(
            op_type,
            domain,
            Kind.RULE,
            function=quantised_operator,
            attributes=None,
            source=source_of(quantised_operator),
            origin=Origin.STRAIGHT_THROUGH,
            partial=True,
        )
        for domain, op_type in QUANTISED
    },
}
"""Of operators with an input that stands for real numbers."""

_OF_THEIR_OWN: Mapping[tuple[str, str], Declaration] = {
    ("", "DequantizeLinear"): DEQUANTIZE,
    ("", "DynamicQuantizeLinear"): Declaration(
        "DynamicQuantizeLinear",
        "",
        Kind.RULE,
        function=dynamic_quantize_linear,
        needs_outputs=2,
        source=source_of(dynamic_quantize_linear),
        origin=Origin.STRAIGHT_THROUGH,
        partial=True,
    ),
    ("", "QuantizeLinear"): Declaration(
        "QuantizeLinear",
        "",
        Kind.RULE,
        function=quantize_linear,
        attributes=("axis", "block_size", "output_dtype", "precision", "saturate"),
        not_differentiable=(2,),
        source=source_of(quantize_linear),
        origin=Origin.STRAIGHT_THROUGH,
        partial=True,
    ),
}

_LARGEST: Mapping[ir.DataType, float] = {
    ir.DataType.FLOAT8E4M3FN: 448.0,
    ir.DataType.FLOAT8E4M3FNUZ: 240.0,
    ir.DataType.FLOAT8E5M2: 57344.0,
    ir.DataType.FLOAT8E5M2FNUZ: 57344.0,
    ir.DataType.FLOAT4E2M1: 6.0,
}
"""The largest number of each narrow floating-point type: https://onnx.ai/onnx/technical/float8.html."""


def _differ(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) != len(b) or any(
        isinstance(m, int) and isinstance(n, int) and m != n for m, n in zip(a, b, strict=True)
    )


def _spread(op: RuleContext, scale: Value, x: Value, axis: int, block: int) -> Value:
    """One scale per element of ``x``, or something that broadcasts to it."""
    if not block:
        return along_axis(op, scale, x, axis)
    b = op.builder
    ones = b.op("ConstantOfShape", b.shape_of(x), value=ir.tensor(np.ones(1, np.int8)))
    return b.op("DequantizeLinear", ones, scale, axis=axis, block_size=block)


def _quantized_type(op: RuleContext) -> ir.DataType:
    """The element type that QuantizeLinear gives."""
    zero = op.optional(2)
    given = op.rules.types.get(op.operator.outputs[0], TensorInfo()).dtype
    if given is None and zero is not None:
        given = zero.dtype
    assert given is not None, "only a value of known type stands for real numbers"
    return given


def _limits(dtype: ir.DataType) -> tuple[float, float]:
    """The least and the largest number of an element type."""
    if not dtype.is_integer():
        return -_LARGEST[dtype], _LARGEST[dtype]
    levels = 2.0**dtype.bitwidth
    return (-levels / 2, levels / 2 - 1) if dtype.is_signed() else (0.0, levels - 1)
