"""Gradient operators from the lowering of their forward operator, by netgrad's own ONNX rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import onnx_ir as ir

from netgrad.core.backward import backward_pass
from netgrad.core.operator import Operator
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.infer import infer_node
from netgrad.onnx.rules.source import OnnxRules
from netgrad.onnx.rules.vocabulary import OnnxVocabulary
from netgrad.onnx.view import TensorInfo

Forward = Callable[[Builder, "list[Value]"], Sequence[Value]]


def gradients(
    builder: Builder,
    forward: Forward,
    inputs: Sequence[Value],
    cotangents: Sequence[Value | None],
    fixed: Sequence[Value] = (),
) -> list[Value]:
    """The gradients of ``inputs`` through what ``forward`` writes.

    The forward operators are written again; where the net has them already, the builder shares them.

    Args:
        builder: Where the operators go.
        forward: Writes the forward computation with the builder that it is given, from ``inputs`` and
            ``fixed`` in one list; it uses no other values.
        inputs: What is differentiated by.
        cotangents: The gradient of each output of ``forward``, or None.
        fixed: What it reads besides, by which nothing is differentiated.

    Returns:
        A gradient for each input: zeros where it has no influence.
    """
    if any(value is not None and not value.is_floating for value in cotangents):
        return _of_whole_numbers(builder, forward, inputs, cotangents, fixed)
    scratch = Builder(builder.opset, "vjp")
    read = [*inputs, *fixed]
    # an operand that is read twice has a gradient for each place
    given = [scratch.value(f"vjp/in_{k}", value.info.plain) for k, value in enumerate(read)]
    outputs = forward(scratch, given)
    types = {**scratch.types(), **{value.name: value.info for value in given}}
    targets = {
        output.name: cotangent.name
        for output, cotangent in zip(outputs, cotangents, strict=True)
        if cotangent is not None
    }
    operators = _with_needed_outputs(scratch.operators, types, builder.opset)
    result = backward_pass(
        operators,
        targets,
        OnnxRules(types, builder.opset).over(operators, types),
        wrt=[value.name for value in given[: len(inputs)]],
        vocabulary=OnnxVocabulary(types, builder.opset),
        single_assignment=True,
    )
    values = {value.name: value for value in filter(None, cotangents)}
    values.update((stand_in.name, value) for stand_in, value in zip(given, read, strict=True))
    for operator in (*operators, *result.operators):
        written = builder.repeated(operator, [values[name] if name else None for name in operator.inputs])
        values.update((name, value) for name, value in zip(operator.outputs, written, strict=True) if name)
    found = [result.gradients.get(value.name) for value in given[: len(inputs)]]
    return [
        builder.assume_like(values[name], value) if isinstance(name, str) else builder.zeros_like(value)
        for name, value in zip(found, inputs, strict=True)
    ]


def _of_whole_numbers(
    builder: Builder,
    forward: Forward,
    inputs: Sequence[Value],
    cotangents: Sequence[Value | None],
    fixed: Sequence[Value],
) -> list[Value]:
    """`gradients` of integers, which ONNX's rules don't differentiate by: computed with floats."""
    wide = [builder.cast(value, ir.DataType.DOUBLE) for value in inputs]
    slopes = [value if value is None else builder.cast(value, ir.DataType.DOUBLE) for value in cotangents]
    found = gradients(builder, forward, wide, slopes, fixed)
    return [
        builder.cast(slope, value.dtype) if value.dtype is not None else slope
        for slope, value in zip(found, inputs, strict=True)
    ]


def _with_needed_outputs(
    operators: Sequence[Operator], types: dict[str, TensorInfo], opset: int
) -> list[Operator]:
    """The operators with the optional outputs that their rules read, such as the places of maxima."""
    rules = OnnxRules(types, opset)
    found = []
    for operator in operators:
        missing = rules.needed_outputs(operator) - len(operator.outputs)
        if missing > 0:
            more = [f"{operator.outputs[0]}_{k}" for k in range(missing)]
            count = len(operator.outputs) + missing
            inputs = [types[name] if name else None for name in operator.inputs]
            infos = infer_node(operator.type, operator.domain, opset, inputs, operator.attributes, count)
            types.update(zip(more, infos[len(operator.outputs) :], strict=True))
            operator = replace(operator, outputs=(*operator.outputs, *more))
        found.append(operator)
    return found
