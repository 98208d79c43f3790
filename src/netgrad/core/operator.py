"""The operator: one instance in a net, and the gradient that belongs to a blob."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

_NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})


class Draft:
    """An operator that is being made: its slots, which can still be set.

    A backward pass makes millions of operators, and setting the slots of a frozen dataclass from within takes
    three times as long as setting these and changing the class.
    """

    __slots__ = ("attributes", "device", "domain", "inputs", "name", "outputs", "type")

    type: str
    inputs: tuple[Any, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    domain: str
    device: Any
    name: str


_new_draft: Callable[[], Any] = Draft


@dataclass(frozen=True, init=False)
class Operator(Draft):
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

    __slots__ = ()

    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(hash=False)
    domain: str
    device: Any
    name: str

    def __new__(
        cls,
        type: str,
        inputs: Iterable[str] = (),
        outputs: Iterable[str] = (),
        attributes: Mapping[str, Any] = _NO_ATTRIBUTES,
        domain: str = "",
        device: Any = None,
        name: str = "",
    ) -> Operator:
        """Blob names may be given in any iterable; a rule may build them in lists."""
        self = _new_draft()
        self.type = type
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.attributes = attributes
        self.domain = domain
        self.device = device
        self.name = name
        self.__class__ = cls
        finished: Operator = self
        return finished

    def __reduce__(self) -> tuple[Any, ...]:
        # The shared mapping of an operator without attributes can't be pickled.
        rest = (dict(self.attributes), self.domain, self.device, self.name)
        return Operator, (self.type, self.inputs, self.outputs, *rest)

    def __str__(self) -> str:
        title = f"{self.domain}::{self.type}" if self.domain else self.type
        label = f" '{self.name}'" if self.name else ""
        return f"{title}{label}({', '.join(self.inputs)}) -> ({', '.join(self.outputs)})"


def draft(op: Operator, inputs: tuple[Any, ...], device: Any) -> Draft:
    """A copy of ``op`` on ``device`` with something else for its inputs, and names that are still to come."""
    self = _new_draft()
    self.type = op.type
    self.inputs = inputs
    self.outputs = op.outputs
    self.attributes = op.attributes
    self.domain = op.domain
    self.device = device
    self.name = op.name
    made: Draft = self
    return made


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
