"""The operator: one instance in a net, and the gradient that belongs to a blob."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

_NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})


def _no_attributes() -> Mapping[str, Any]:
    return _NO_ATTRIBUTES  # one shared object: a net of a million operators has few attributes


@dataclass(frozen=True, slots=True)
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
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=_no_attributes, hash=False)
    domain: str = ""
    device: Any = None
    name: str = ""

    def __post_init__(self) -> None:
        # Lists are accepted because rules build names in lists; the operator itself is immutable.
        if type(self.inputs) is not tuple:
            object.__setattr__(self, "inputs", tuple(self.inputs))
        if type(self.outputs) is not tuple:
            object.__setattr__(self, "outputs", tuple(self.outputs))

    def __str__(self) -> str:
        title = f"{self.domain}::{self.type}" if self.domain else self.type
        label = f" '{self.name}'" if self.name else ""
        return f"{title}{label}({', '.join(self.inputs)}) -> ({', '.join(self.outputs)})"


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
