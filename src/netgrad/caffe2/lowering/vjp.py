"""Gradient operators from the lowering of their forward operator, by netgrad's own ONNX rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from netgrad.core.backward import backward_pass
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.source import OnnxRules
from netgrad.onnx.rules.vocabulary import OnnxVocabulary

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
    scratch = Builder(builder.opset, "vjp")
    read = [*inputs, *fixed]
    given = [scratch.value(value.name, value.info.plain) for value in read]
    outputs = forward(scratch, given)
    types = {**scratch.types(), **{value.name: value.info.plain for value in read}}
    targets = {
        output.name: cotangent.name
        for output, cotangent in zip(outputs, cotangents, strict=True)
        if cotangent is not None
    }
    result = backward_pass(
        scratch.operators,
        targets,
        OnnxRules(types, builder.opset).over(scratch.operators, types),
        wrt=[value.name for value in inputs],
        vocabulary=OnnxVocabulary(types, builder.opset),
        single_assignment=True,
    )
    values = {value.name: value for value in (*read, *filter(None, cotangents))}
    for operator in (*scratch.operators, *result.operators):
        written = builder.repeated(operator, [values[name] if name else None for name in operator.inputs])
        values.update((name, value) for name, value in zip(operator.outputs, written, strict=True) if name)
    found = [result.gradients.get(value.name) for value in inputs]
    return [
        values[name] if isinstance(name, str) else builder.zeros_like(value)
        for name, value in zip(found, inputs, strict=True)
    ]
