"""What a caller chose for single nodes or operator types: a function, no gradient, or straight through."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from netgrad.core.errors import InvalidArgumentError, nearest
from netgrad.core.operator import Operator
from netgrad.onnx.body import bodies
from netgrad.onnx.rules.declaration import Declaration, Kind, Origin, source_of
from netgrad.onnx.rules.straight_through import ROUNDING, pass_through
from netgrad.onnx.rules.user import user_declarations

Chosen: TypeAlias = "Callable[..., Any] | Literal['stop', 'straight-through']"
GradientChoices: TypeAlias = Mapping[str, Chosen]


def title_of(op: Operator) -> str:
    """The operator's type, with its domain outside the standard."""
    return f"{op.domain}::{op.type}" if op.domain else op.type


@dataclass(frozen=True)
class Choices:
    """The choices of one call.

    Attributes:
        gradients: Node name or operator type (``domain::type`` outside the standard) to what was chosen for
            it: a function with the signature of a gradient rule, ``"stop"`` or ``"straight-through"``.
        straight_through: Whether the operators in `ROUNDING` for which nothing else was chosen pass
            cotangents straight through.
        declarations: Declarations in place of those that hold otherwise, by (domain, operator type).
    """

    gradients: GradientChoices = field(default_factory=dict)
    straight_through: bool = False
    declarations: Mapping[tuple[str, str], Declaration] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.gradients) or self.straight_through

    def of(self, op: Operator) -> Chosen | None:
        """What was chosen for an operator: by its name, else by its type."""
        if self.gradients:
            for key in _keys(op):
                if key in self.gradients:
                    return self.gradients[key]
        return "straight-through" if self.straight_through and (op.domain, op.type) in ROUNDING else None

    def declared(self, op: Operator, standing: Declaration | None) -> Declaration | None:
        """The declaration that the choice for an operator makes; ``standing`` where there is no choice."""
        chosen = self.of(op)
        if chosen is None:
            return standing
        if chosen == "stop":
            return Declaration(
                op.type,
                op.domain,
                Kind.NOT_DIFFERENTIABLE,
                "the caller stops the gradient there",
                origin=Origin.STOPPED,
            )
        if chosen == "straight-through":
            return pass_through(op)
        assert callable(chosen), "checked when the choices were made"
        return Declaration(
            op.type,
            op.domain,
            Kind.RULE,
            function=chosen,
            attributes=None,
            broadcasts=standing is not None and standing.broadcasts,
            not_differentiable=() if standing is None else standing.not_differentiable,
            needs_outputs=0 if standing is None else standing.needs_outputs,
            source=source_of(chosen),
            origin=Origin.USER,
            partial=True,
            infer=None if standing is None else standing.infer,
        )

    def opaque(self) -> set[tuple[str, str]]:
        """(Domain, type) of the model's functions, if it has such, that are differentiated by a rule."""
        pairs = (key.rpartition("::") for key in self.gradients)
        return {*user_declarations(), *((domain, name) for domain, separator, name in pairs if separator)}

    def within(self, op: Operator) -> Choices:
        """The choices that say anything of a model of this operator alone."""
        everything = list(_all_operators([op]))
        names = {name for one in everything for name in _keys(one)}
        return replace(self, gradients={key: self.gradients[key] for key in self.gradients if key in names})

    def verify(self, operators: Sequence[Operator]) -> None:
        """Check that every key names something.

        Raises:
            InvalidArgumentError: A key matches nothing, or a node and another type than the node's.
        """
        if not self.gradients:
            return
        everything = list(_all_operators(operators))
        nodes = {op.name: op for op in everything if op.name}
        titles = {title_of(op) for op in everything}
        titles |= {f"ai.onnx::{op.type}" for op in everything if not op.domain}
        for key in self.gradients:
            if key in nodes and key in titles:
                # Nodes without a name were named after their type: there the type is meant.
                if key not in _keys(replace(nodes[key], name="")):
                    raise InvalidArgumentError(
                        f"`gradients` names '{key}', which is a node of type {title_of(nodes[key])} and the "
                        "type of other nodes",
                        hint="rename the node",
                    )
            elif key not in nodes and key not in titles:
                raise InvalidArgumentError(
                    f"`gradients` names '{key}', which is neither a node nor an operator type of the model"
                    f"{nearest(key, [*titles, *nodes])}",
                    hint="netgrad.inspect lists the nodes and types of the model, as it is prepared; a type "
                    "outside the standard, or a function of the model, is written 'domain::type'",
                )


NONE_CHOSEN = Choices()
"""What holds where a caller chooses nothing."""


def choices_of(gradients: GradientChoices | None, straight_through: bool = False) -> Choices:
    """The choices of a call, checked as far as they can be without a model.

    Raises:
        InvalidArgumentError: ``gradients`` is no mapping from names to functions or the words.
    """
    given = {} if gradients is None else gradients
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(
            f"`gradients` is {gradients!r}; it maps node names or operator types to functions"
        )
    for key, chosen in given.items():
        if not isinstance(key, str) or not key:
            raise InvalidArgumentError(f"`gradients` has the key {key!r}, which is no name")
        if chosen not in ("stop", "straight-through") and not callable(chosen):
            hint = nearest(chosen, ("stop", "straight-through")) if isinstance(chosen, str) else ""
            raise InvalidArgumentError(
                f"`gradients` gives {chosen!r} for '{key}'{hint}; it can be a function, 'stop' or "
                "'straight-through'"
            )
    return Choices(dict(given), straight_through)


def _keys(op: Operator) -> list[str]:
    """What an operator may be called in ``gradients``, the strongest first."""
    keys = [op.name, title_of(op), "" if op.domain else f"ai.onnx::{op.type}"]
    return [key for key in keys if key]


def _all_operators(operators: Sequence[Operator]) -> Iterator[Operator]:
    """The operators and those inside them, at any depth."""
    pending = list(reversed(operators))
    while pending:
        op = pending.pop()
        yield op
        for body in bodies(op):
            pending.extend(reversed(body.operators))
