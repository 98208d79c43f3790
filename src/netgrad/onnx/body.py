"""Graphs inside an operator (the branches of If, the bodies of Loop and Scan) as lists of core operators."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netgrad.core.operator import Operator

if TYPE_CHECKING:
    from netgrad.onnx.view import TensorInfo


@dataclass(frozen=True, eq=False)
class Body:
    """A graph that an operator holds as an attribute.

    The values that it reads from outside are the last inputs of its operator, after those that the operator's
    schema knows; ``captured`` says under which names the body reads them. All bodies of one operator have the
    same list. So a body's names are its own, and the operator can be renamed like any other.

    Attributes:
        inputs: Names of its inputs.
        outputs: Names of its outputs.
        captured: Names under which it reads the last inputs of its operator, in their order.
        operators: What it computes, in order.
        types: What is known of its inputs and of what its operators write, by name.
        purpose: What a body that netgrad wrote itself is there for, where something else asks for it.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    captured: tuple[str, ...]
    operators: tuple[Operator, ...]
    types: Mapping[str, TensorInfo]
    purpose: str = ""


def bodies(op: Operator) -> Iterator[Body]:
    """The bodies that ``op`` holds."""
    for value in op.attributes.values():
        if isinstance(value, Body):
            yield value


def captured_of(op: Operator) -> tuple[str, ...]:
    """The names under which the bodies of ``op`` read its last inputs; none where it has no bodies."""
    return next((body.captured for body in bodies(op)), ())


def live(operators: Sequence[Operator], wanted: Collection[str]) -> list[int]:
    """Indices of the operators that contribute to ``wanted``, in order."""
    needed = set(wanted)
    kept: list[int] = []
    for index in range(len(operators) - 1, -1, -1):
        op = operators[index]
        if any(name in needed for name in op.outputs if name):
            kept.append(index)
            needed.update(op.inputs)
    kept.reverse()
    return kept
