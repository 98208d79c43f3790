"""The operator: one instance in a net, and the gradient that belongs to a blob."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, TypeAlias

_NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, init=False)
class Operator:
    """One operator of a net: it reads named blobs and writes named blobs.

    The core gives no meaning to ``type``, ``attributes`` or ``device``; a dialect does.

    Attributes:
        type: The operator type, such as ``"Mul"``.
        inputs: Names of the blobs read, in order. ``""`` marks an optional input that is left out.
        outputs: Names of the blobs written, in order. ``""`` marks an optional output that is left out.
        attributes: Named constants of the operator.
        domain: The namespace of ``type``; ``""`` is the dialect's default one.
        device: Where the operator runs, or None where nothing was said. Compared for equality only.
        name: The name of this instance, for messages; may be empty and need not be unique.
    """

    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(hash=False)
    domain: str
    device: Any
    name: str

    def __init__(
        self,
        type: str,
        inputs: Iterable[str] = (),
        outputs: Iterable[str] = (),
        attributes: Mapping[str, Any] = _NO_ATTRIBUTES,
        domain: str = "",
        device: Any = None,
        name: str = "",
    ) -> None:
        # Written out because a backward pass makes millions: the generated one takes three times as long.
        _set_type(self, type)
        _set_inputs(self, tuple(inputs))  # a rule may build its names in lists
        _set_outputs(self, tuple(outputs))
        _set_attributes(self, attributes)
        _set_domain(self, domain)
        _set_device(self, device)
        _set_name(self, name)

    def __reduce__(self) -> tuple[Any, ...]:
        # The shared mapping of an operator without attributes can't be pickled.
        rest = (dict(self.attributes), self.domain, self.device, self.name)
        return Operator, (self.type, self.inputs, self.outputs, *rest)

    def __str__(self) -> str:
        title = f"{self.domain}::{self.type}" if self.domain else self.type
        label = f" '{self.name}'" if self.name else ""
        return f"{title}{label}({', '.join(self.inputs)}) -> ({', '.join(self.outputs)})"


_set_type, _set_inputs, _set_outputs, _set_attributes, _set_domain, _set_device, _set_name = (
    vars(Operator)[field.name].__set__ for field in fields(Operator)
)


_new_operator = Operator.__new__


def without_names(op: Operator, device: Any) -> Operator:
    """A copy of ``op`` on ``device`` whose inputs and outputs aren't set until `set_names`.

    Only while nobody else has the copy; half the time of making an operator twice.
    """
    self = _new_operator(Operator)
    _set_type(self, op.type)
    _set_attributes(self, op.attributes)
    _set_domain(self, op.domain)
    _set_device(self, device)
    _set_name(self, op.name)
    return self


def set_names(op: Operator, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
    """Complete what `without_names` made."""
    _set_inputs(op, inputs)
    _set_outputs(op, outputs)


@dataclass(frozen=True, slots=True)
class GradientSlice:
    """A sparse gradient: row ``indices[k]`` of the derivative receives ``values[k]``; repeated rows add up.

    Attributes:
        indices: Name of the blob of row numbers.
        values: Name of the blob of rows, as many as there are indices.
    """

    indices: str
    values: str


Gradient: TypeAlias = str | GradientSlice
