"""Operators on quantised numbers that give quantised numbers: QLinearMatMul, QLinearConv and their like.

Y = quantize(f(dequantize(X_1), dequantize(X_2), ...)) rounds: its derivative is zero almost everywhere. Where
its inputs stand for real numbers, cotangents pass straight through as they would pass the operators that it
is made of: QuantizeLinear, f, and DequantizeLinear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from netgrad.core.operator import Operator
from netgrad.onnx.broadcast import unbroadcast
from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.view import TensorInfo

_MICROSOFT: Final = "com.microsoft"


@dataclass(frozen=True)
class Quantised:
    """One of these operators.

    Attributes:
        real: The operator f of the standard.
        operands: Positions of the quantised operands; scale and zero point follow each. None: all behind the
            result's, however many.
        result: Position of the scale of the result; its zero point follows.
        attributes: The attributes of f that the operator has too.
        fixed: Attributes that f has not, with the only value that is understood.
        bias: Position of a bias in steps of the product of the first two scales.
    """

    real: str
    operands: tuple[int, ...] | None
    result: int
    attributes: tuple[str, ...] = ()
    fixed: Mapping[str, Any] | None = None
    bias: int | None = None

    def operands_of(self, op: Operator) -> tuple[int, ...]:
        """Positions of the quantised operands of one node."""
        return tuple(range(2, len(op.inputs), 3)) if self.operands is None else self.operands


_WINDOWS: Final = ("auto_pad", "kernel_shape", "pads", "strides")
_LAST: Final = {"channels_last": 0}

QUANTISED: Final[Mapping[tuple[str, str], Quantised]] = {
    ("", "QLinearConv"): Quantised("Conv", (0, 3), 6, (*_WINDOWS, "dilations", "group"), bias=8),
    ("", "QLinearMatMul"): Quantised("MatMul", (0, 3), 6),
    (_MICROSOFT, "QLinearAdd"): Quantised("Add", (0, 3), 6),
    (_MICROSOFT, "QLinearAveragePool"): Quantised(
        "AveragePool", (0,), 3, (*_WINDOWS, "ceil_mode", "count_include_pad"), _LAST
    ),
    (_MICROSOFT, "QLinearConcat"): Quantised("Concat", None, 0, ("axis",)),
    (_MICROSOFT, "QLinearGlobalAveragePool"): Quantised("GlobalAveragePool", (0,), 3, (), _LAST),
    (_MICROSOFT, "QLinearLeakyRelu"): Quantised("LeakyRelu", (0,), 3, ("alpha",)),
    (_MICROSOFT, "QLinearMul"): Quantised("Mul", (0, 3), 6),
    (_MICROSOFT, "QLinearSigmoid"): Quantised("Sigmoid", (0,), 3),
}
"""By domain and type. That the kernels round as QuantizeLinear behind f does is tested."""


def result_type(operands: int) -> Callable[..., TensorInfo]:
    """What is known of the result of an operator without a schema, by what is known of its inputs.

    Args:
        operands: How many quantised operands there are; 0: as many as stand behind the result's scale.
    """

    def infer(*given: TensorInfo | None) -> TensorInfo:
        chosen = given[2::3] if not operands else given[: 3 * operands : 3]
        known = [info for info in chosen if info is not None]
        dtype = next((info.dtype for info in known if info.dtype is not None), None)
        shapes = [info.shape for info in known]
        if len(shapes) == 1 and operands == 1:
            shape = shapes[0]
            return TensorInfo(dtype, None if shape is None else (None,) * len(shape))
        ranks = [len(shape) for shape in shapes if shape is not None]
        return TensorInfo(dtype, (None,) * max(ranks) if len(ranks) == len(shapes) else None)

    return infer


def quantised_gradient(
    op: RuleContext, dy: Value, quantize: Callable[..., Any], dequantize: Callable[..., Any]
) -> Sequence[Value | None]:
    """The gradients of quantised operands and of all scales.

    Args:
        op: The operator.
        dy: Cotangent of the result's integers.
        quantize: What passes QuantizeLinear.
        dequantize: What passes a DequantizeLinear whose input stands for real numbers.
    """
    form, b = QUANTISED[op.operator.domain, op.operator.type], op.builder
    for name, only in (form.fixed or {}).items():
        if op.attribute(name, only) != only:
            raise op.refuse(f"its {name} is {op.attribute(name)}, only {only} is understood")
    places = form.operands_of(op.operator)
    axis = {"Conv": 0, "MatMul": -1}.get(form.real)  # of several scales of the second operand, the weights
    readings = [_Reading(op, place, axis if k == 1 else None) for k, place in enumerate(places)]
    reals = [reading.real for reading in readings]
    if form.bias is not None and (bias := op.optional(form.bias)) is not None:
        unit = op.required(places[0] + 1) * op.required(places[1] + 1)
        reals.append(b.cast(bias, op.floating(unit)) * unit)
    attributes = {name: op.attribute(name) for name in form.attributes if op.has_attribute(name)}
    result = b.op(form.real, *reals, **attributes)

    scale, zero = op.required(form.result), op.optional(form.result + 1)
    rounding = _context(
        op, "QuantizeLinear", (result, scale, zero), op.outputs[:1], (True, op.wants(form.result), False)
    )
    dresult, dscale, *_ = quantize(rounding, dy)
    assert dresult is not None, "a result has a cotangent"
    wanted = [op.wants(reading.place) or op.wants(reading.place + 1) for reading in readings]
    inner = _context(op, form.real, reals, (result,), [*wanted, False], attributes)
    declared = op.rules.declaration(inner.operator)
    assert declared is not None, f"{form.real} has a rule"
    assert declared.function is not None, f"{form.real} has a rule"
    answer = declared.function(inner, dresult)
    dreals: Sequence[Value | None] = [answer] if isinstance(answer, Value) or answer is None else answer

    contributions: list[Value | None] = [None] * len(op.inputs)
    if op.wants(form.result):
        contributions[form.result] = dscale
    for reading, dreal, wants in zip(readings, dreals, wanted, strict=False):
        if not wants or dreal is None:
            continue
        if declared.broadcasts:
            dreal = unbroadcast(b, dreal, reading.real)
        dinteger, dunit, *_ = dequantize(reading.context(op), dreal)
        for place, gradient in ((reading.place, dinteger), (reading.place + 1, dunit)):
            if op.wants(place):
                contributions[place] = gradient
    return contributions


class _Reading:
    """One quantised operand, dequantised."""

    def __init__(self, op: RuleContext, place: int, axis: int | None) -> None:
        b, name = op.builder, op.operator.inputs[place]
        self.place = place
        self._inputs = (op.required(place), op.required(place + 1), op.optional(place + 2))
        integers = b.value(name, op.rules.types[name])
        scale = self._inputs[1]
        several = scale.static_shape not in ((), (1,), None)
        if several and (axis is None or integers.rank is None):
            why = (
                "it has several scales" if axis is None else "its rank is unknown, and it has several scales"
            )
            raise op.refuse(f"of '{name}': {why}")
        self._attributes = {}
        if several and axis is not None and integers.rank is not None:
            self._attributes = {"axis": axis % integers.rank}
        one, zero = scale, self._inputs[2]
        if not several:
            one, zero = b.reshape(scale, []), None if zero is None else b.reshape(zero, [])
        real = op.emit("DequantizeLinear", integers, one, zero, **self._attributes)
        self.real = b.assume_like(real, integers)

    def context(self, op: RuleContext) -> RuleContext:
        """The DequantizeLinear as its rule sees it."""
        wanted = (op.wants(self.place), op.wants(self.place + 1), False)
        return _context(op, "DequantizeLinear", self._inputs, (self.real,), wanted, self._attributes)


def _context(
    op: RuleContext,
    op_type: str,
    inputs: Sequence[Value | None],
    outputs: Sequence[Value | None],
    wanted: Sequence[bool],
    attributes: Mapping[str, Any] | None = None,
) -> RuleContext:
    read, written = (
        tuple("" if value is None else value.name for value in values) for values in (inputs, outputs)
    )
    operator = Operator(op_type, read, written, dict(attributes or {}), name=op.operator.name)
    return RuleContext(operator, inputs, outputs, wanted[: len(inputs)], op.builder, op.rules)
