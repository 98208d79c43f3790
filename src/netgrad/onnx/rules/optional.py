"""Gradient rules of operators on optionals.

The cotangent of an optional is an optional, which holds something exactly where its primal does.
"""

from __future__ import annotations

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.sequences import held


@rule("Optional", attributes=("type",))
def optional(op: RuleContext, dy: Value) -> Value:
    """O = an optional that holds X; dX = what dO holds."""
    return op.builder.assume_like(held(op.builder, dy), op.input)


@rule("OptionalGetElement")
def optional_get_element(op: RuleContext, dy: Value) -> Value:
    """Y = what O holds; dO = an optional that holds dY. A tensor or a sequence stands for itself."""
    return op.emit("Optional", dy) if op.input.structure.is_optional else dy
