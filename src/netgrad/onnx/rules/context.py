"""What a gradient rule sees: one forward operator, and the builder to write the gradient with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from netgrad.core.errors import UnsupportedOperatorError
from netgrad.core.operator import Operator
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.infer import attribute_default, schema_of
from netgrad.onnx.rules.precision import widened

if TYPE_CHECKING:
    from netgrad.onnx.rules.source import OnnxRules


def unsupported_form(op: Operator, why: str, hint: str | None = None) -> UnsupportedOperatorError:
    """The error for an operator that has a rule, which does not cover this form of it."""
    title = f"{op.domain}::{op.type}" if op.domain else op.type
    signature = f"{', '.join(op.inputs)} -> {', '.join(op.outputs)}"
    return UnsupportedOperatorError(
        f"no gradient for this form of {title}, node '{op.name}' ({signature}): {why}", hint=hint
    )


class RuleContext:
    """One forward operator as its rule sees it.

    Attributes:
        operator: The operator itself.
        inputs: Its inputs as values; None for one that is left out.
        outputs: Its outputs as values; None for one that is left out.
        builder: Writes the gradient's operators.
        rules: The rules that this one is part of, for operators inside this one.
        exposed: Whether the output's cotangent may be infinite, so that a mask of zeros must select instead
            of multiply (see `netgrad.onnx.rules.singular`).
        vanishing: Whether the output ends in a denominator, so that it has no influence where it is infinite.
    """

    def __init__(
        self,
        operator: Operator,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value | None],
        wanted: Sequence[bool],
        builder: Builder,
        rules: OnnxRules,
        exposed: bool = False,
        vanishing: bool = False,
    ) -> None:
        self.operator = operator
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.builder = builder
        self.rules = rules
        self.exposed = exposed
        self.vanishing = vanishing
        self._wanted = tuple(wanted)

    @property
    def input(self) -> Value:
        """The first input."""
        return self.required(0)

    @property
    def output(self) -> Value:
        """The first output."""
        value = self.outputs[0]
        assert value is not None, "an operator on the path to the target has its first output"
        return value

    def required(self, index: int) -> Value:
        """Input ``index``, which the operator's schema requires."""
        value = self.inputs[index]
        assert value is not None, f"{self.operator.type} requires input {index}"
        return value

    def optional(self, index: int) -> Value | None:
        """Input ``index``, or None where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def optional_output(self, index: int) -> Value | None:
        """Output ``index``, or None where the model does not have it."""
        return self.outputs[index] if index < len(self.outputs) else None

    def wants(self, index: int) -> bool:
        """Whether the gradient of input ``index`` will be used; a rule may return None where it is not."""
        return index < len(self._wanted) and self._wanted[index]

    def has_attribute(self, name: str) -> bool:
        """Whether the node sets attribute ``name`` itself."""
        return self.operator.attributes.get(name) is not None

    def attribute(self, name: str, default: Any = None) -> Any:
        """Attribute ``name``: the node's, else the schema's default, else ``default``.

        Integer and float lists come as Python lists, tensors as `onnx_ir.TensorProtocol`.
        """
        value = self.operator.attributes.get(name)
        if value is not None:
            return list(value) if isinstance(value, tuple) else value
        schema = schema_of(self.operator.type, self.builder.opset, self.operator.domain)
        fallback = None if schema is None else attribute_default(schema, name)
        return default if fallback is None else fallback

    def emit(self, op_type: str, *inputs: Value | None, **attributes: Any) -> Value:
        """Write one standard operator with one output (see `Builder.op`)."""
        return self.builder.op(op_type, *inputs, **attributes)

    def comparable(self) -> tuple[list[Value | None], Value]:
        """The inputs and the first output, so that they are equal where the operator passes an input on.

        ONNX Runtime computes half precision in float32 and leaves out roundings between operators where it
        can, so that of an input and the output one may be rounded and the other not. In half precision the
        operator is written once more, in float32.
        """
        wide = [None if value is None else widened(self.builder, value) for value in self.inputs]
        if all(value is given for value, given in zip(wide, self.inputs, strict=True)):
            return list(self.inputs), self.output
        op = self.operator
        again = self.builder.op(op.type, *wide, domain=op.domain, **op.attributes)
        return wide, self.builder.assume_like(again, self.output)

    def masked(self, condition: Value, dy: Value) -> Value:
        """``dy`` where the boolean ``condition`` holds, else 0.

        A product with a mask of zeros and ones takes a tenth of the time of Where on ONNX Runtime; it is
        right as long as ``dy`` is finite.
        """
        if self.exposed:
            return self.builder.where(condition, dy, 0)
        return dy * self.emit("Cast", condition, to=int(self.floating(dy)))

    def refuse(self, why: str, hint: str = "") -> UnsupportedOperatorError:
        """The error to raise for a form of the operator that the rule does not cover."""
        return unsupported_form(self.operator, why, hint or None)

    def rank(self, value: Value) -> int:
        """The rank of ``value``; refused where it is not known before the model runs."""
        if value.rank is None:
            raise self.refuse(
                f"the rank of '{value.name}' is unknown",
                "declare the model's input shapes (symbolic dims are enough), or run shape inference on it",
            )
        return value.rank

    def floating(self, value: Value) -> ir.DataType:
        """The element type of ``value``, which is a floating-point type."""
        assert value.dtype is not None, f"the element type of '{value.name}' is unknown"
        return value.dtype
