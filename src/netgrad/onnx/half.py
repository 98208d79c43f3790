"""The half-precision element types, and which operators take them at which opset.

The standard admitted float16 and bfloat16 operator by operator: ConstantOfShape takes bfloat16 from opset 20
on, Round from 22, Einsum from 27, OneHot never.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import onnx_ir as ir

from netgrad.onnx.infer import schema_of

HALF = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
"""The element types of two bytes, whose sums leave their digits or their range early."""


def working_type(dtype: ir.DataType) -> ir.DataType:
    """float32 for the half-precision types, else ``dtype`` itself.

    Sums over many elements, counts and reciprocals of counts leave the range of float16 (65504) long before
    the gradient itself does.
    """
    return ir.DataType.FLOAT if dtype in HALF else dtype


@dataclass(frozen=True)
class Detour:
    """How an operator that does not take a half type is computed in float32.

    Attributes:
        inputs: Positions of the operands to convert to float32.
        outputs: For each output, the type to convert it back to, or None where it is none of float32.
    """

    inputs: tuple[int, ...]
    outputs: tuple[ir.DataType | None, ...]


@cache
def detour(
    op_type: str, domain: str, opset: int, dtypes: Sequence[ir.DataType | None], outputs: int
) -> Detour | None:
    """The detour by float32 that an operator needs on operands of these types, or None if it takes them.

    Args:
        op_type: Operator type.
        domain: Operator domain.
        opset: Version of that domain.
        dtypes: Element type of each operand, None where it is unknown or left out; a tuple.
        outputs: Number of outputs.
    """
    schema = schema_of(op_type, opset, domain)
    if schema is None:
        return None
    refused: dict[str, ir.DataType] = {}  # type parameter of the schema to the half type that it excludes
    groups = [schema.inputs[min(k, len(schema.inputs) - 1)] for k in range(len(dtypes))]
    for dtype, formal in zip(dtypes, groups, strict=True):
        if dtype in HALF and _spelled(dtype) not in formal.types and "tensor(float)" in formal.types:
            refused[formal.type_str] = dtype
    if not refused:
        return None
    back = [refused.get(schema.outputs[min(k, len(schema.outputs) - 1)].type_str) for k in range(outputs)]
    positions = [k for k, formal in enumerate(groups) if formal.type_str in refused and dtypes[k] in HALF]
    return Detour(tuple(positions), tuple(back))


@cache
def can_fill(dtype: ir.DataType, opset: int) -> bool:
    """Whether ConstantOfShape makes tensors of ``dtype`` at this opset."""
    schema = schema_of("ConstantOfShape", opset)
    return schema is None or _spelled(dtype) in schema.outputs[0].types


def _spelled(dtype: ir.DataType) -> str:
    return f"tensor({dtype.name.lower()})"
