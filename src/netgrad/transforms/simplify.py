"""Shorter chains of operators that only arrange elements: they meet where two rules do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netgrad.core.operator import Operator

Content = Callable[[str], "np.ndarray[Any, Any] | None"]
"""The content of a value by its name, None where it is not constant."""

_RESHAPING = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})


@dataclass(frozen=True)
class Simplified:
    """Operators, one for each that was given, and what has become of their results.

    Attributes:
        operators: They compute the same; some no longer read others.
        same: Results that are another value, by name. No operator reads them any more.
    """

    operators: list[Operator]
    same: dict[str, str]


def simplified(operators: Sequence[Operator], content: Content) -> Simplified:
    """Let operators read what lies behind Squeeze, Unsqueeze, Flatten, Reshape or Transpose, if they can.

    - Squeeze of what Unsqueeze put in is what there was before; so are two transpositions that undo each
      other.
    - Reshape to a constant shape needs the order of elements only: it reads from before another reshaping.
    - Two transpositions are one.

    Numbers do not change. Operators that nothing reads any more are left for the caller to drop.

    Args:
        operators: In order.
        content: Tells constants that the operators do not write themselves.
    """
    producers: dict[str, Operator] = {}
    same: dict[str, str] = {}

    def constant(name: str) -> np.ndarray[Any, Any] | None:
        producer = producers.get(name)
        if producer is None:
            return content(name)
        is_constant = producer.type == "Constant" and not producer.domain
        return np.asarray(producer.attributes["value"].numpy()) if is_constant else None

    found = []
    for original in operators:
        op = _reading(original, (same.get(name, name) for name in original.inputs))
        behind = producers.get(op.inputs[0]) if op.inputs else None
        if behind is not None and not op.domain and not behind.domain:
            if _undoes(op, behind, constant):
                same[op.outputs[0]] = behind.inputs[0]
            else:
                op = _merged(op, behind, constant)
        producers.update(dict.fromkeys(op.outputs, op))
        found.append(op)
    return Simplified(found, same)


def _reading(op: Operator, inputs: Iterable[str]) -> Operator:
    names = tuple(inputs)
    if names == op.inputs:
        return op
    return Operator(op.type, names, op.outputs, op.attributes, op.domain, op.device, op.name)


def _undoes(op: Operator, behind: Operator, constant: Content) -> bool:
    """Whether ``op`` gives what ``behind`` read."""
    if (op.type, behind.type) == ("Squeeze", "Unsqueeze") and len(op.inputs) == 2:
        axes, put_in = constant(op.inputs[1]), constant(behind.inputs[1])
        return axes is not None and put_in is not None and sorted(axes.tolist()) == sorted(put_in.tolist())
    order = _order(op, behind)
    return order is not None and order == list(range(len(order)))


def _merged(op: Operator, behind: Operator, constant: Content) -> Operator:
    """``op``, reading from before ``behind`` if it can."""
    order = _order(op, behind)
    if order is not None:
        attributes = {**op.attributes, "perm": order}
        return Operator(op.type, behind.inputs, op.outputs, attributes, op.domain, op.device, op.name)
    if op.type == "Reshape" and behind.type in _RESHAPING:
        shape = constant(op.inputs[1])
        if shape is not None and shape.all():  # 0 is the size that its input has there
            return _reading(op, (behind.inputs[0], op.inputs[1]))
    return op


def _order(op: Operator, behind: Operator) -> list[int] | None:
    """The permutation that two transpositions make together."""
    if op.type != "Transpose" or behind.type != "Transpose":
        return None
    second, first = op.attributes.get("perm"), behind.attributes.get("perm")
    return None if first is None or second is None else [first[axis] for axis in second]
