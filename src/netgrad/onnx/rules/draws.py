"""Random draws in the bodies of operators: the backward pass must see the numbers of the forward run.

A gradient computes a body again, and would draw other numbers. So the forward operator hands out what it
drew there (see `netgrad.transforms.saved`), and in the body of the gradient each draw is what was handed out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from netgrad.core.operator import Operator
from netgrad.onnx.body import Body, bodies
from netgrad.onnx.builder import Builder
from netgrad.onnx.view import TensorInfo

RANDOM: Final = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Operators of the standard whose only output is a draw; so is the mask of a Dropout in training."""


def draws(op: Operator, types: Mapping[str, TensorInfo]) -> bool:
    """Whether ``op`` itself draws random numbers."""
    if op.domain:
        return False
    if op.type == "Dropout" and len(op.inputs) > 2 and op.inputs[2]:
        training = types.get(op.inputs[2], TensorInfo()).constant
        return training is None or bool(training)
    return op.type in RANDOM


def drawing(op: Operator, types: Mapping[str, TensorInfo]) -> Operator | None:
    """The operator that draws random numbers: ``op`` itself, one inside it, or None."""
    if draws(op, types):
        return op
    for body in bodies(op):
        for inner in body.operators:
            found = drawing(inner, {**types, **body.types})
            if found is not None:
                return found
    return None


def handed_out(body: Body, outputs: Sequence[str], types: Mapping[str, TensorInfo]) -> list[tuple[str, int]]:
    """The draws of a body that are among ``outputs`` as they come: their names and positions there."""
    known = {**types, **body.types}
    drawn = {op.outputs[op.type == "Dropout"] for op in body.operators if draws(op, known) and _shown(op)}
    copies = {op.outputs[0]: op.inputs[0] for op in body.operators if op.type == "Identity" and not op.domain}
    sources = [(copies.get(name, name), k) for k, name in enumerate(outputs)]
    return [(name, k) for name, k in sources if name in drawn]


def _shown(op: Operator) -> bool:
    return op.type != "Dropout" or (len(op.outputs) > 1 and bool(op.outputs[1]))


def with_given_draws(
    operators: Sequence[Operator],
    given: Collection[str],
    types: Mapping[str, TensorInfo],
    builder: Builder,
) -> tuple[list[Operator], dict[str, TensorInfo]]:
    """The operators without those that draw ``given``, which is computed before them; and new types.

    Of a Dropout that is left which depends on its mask: ``y = x / (1 - ratio)`` where the mask is true, else
    0; outside of training mode, which keeps all, without the division.

    Args:
        operators: The operators of a body.
        given: Names of draws.
        types: What is known of the values that the operators read and write.
        builder: Writes what a Dropout becomes; its names must be free.
    """
    result: list[Operator] = []
    for op in operators:
        if not any(name in given for name in op.outputs):
            result.append(op)
        elif op.type == "Dropout":
            result += _dropout(op, types, builder)
    return result, builder.types()


def _dropout(op: Operator, types: Mapping[str, TensorInfo], b: Builder) -> list[Operator]:
    x, training, mask = (
        b.value(name, types.get(name, TensorInfo())) for name in (op.inputs[0], op.inputs[2], op.outputs[1])
    )
    assert x.dtype is not None, "what a Dropout drops from is of known type"
    b.operators.clear()
    if op.inputs[1]:
        kept = 1.0 - b.cast(b.value(op.inputs[1], types.get(op.inputs[1], TensorInfo())), x.dtype)
    else:
        kept = b.scalar(0.5, x)
    if training.constant is None:
        kept = b.where(training, kept, 1.0)
    y = b.where(mask, x / kept, 0.0)
    written = [*b.operators, Operator("Identity", (y.name,), (op.outputs[0],))]
    b.operators.clear()
    return written
