"""How a gradient rule is declared, and the three kinds of "no gradient".

A rule is a function of an operator and the cotangents of its outputs; its decorator states the facts: which
operator, which attributes it understands, which inputs have no derivative, whether the operator broadcasts.
The facts are enforced in one place (`netgrad.onnx.rules.source`), so that no rule has to.
"""

from __future__ import annotations

import enum
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from netgrad.core.operator import Operator
from netgrad.onnx.builder import Value
from netgrad.onnx.view import TensorInfo

if TYPE_CHECKING:
    from netgrad.onnx.rules.context import RuleContext

Contributions: TypeAlias = "Value | Sequence[Value | None] | None"
RuleFunction: TypeAlias = Callable[..., Contributions]
Inference: TypeAlias = "Callable[..., TensorInfo | Sequence[TensorInfo]]"
_Function = TypeVar("_Function", bound=RuleFunction)


class Kind(enum.Enum):
    """What netgrad knows of an operator's derivative."""

    RULE = "rule"
    NOT_DIFFERENTIABLE = "not differentiable"
    """The output cannot be perturbed, or the input cannot: indices, shapes, booleans, random draws."""
    PIECEWISE_CONSTANT = "piecewise constant"
    """The derivative exists and is zero almost everywhere."""
    NOT_IMPLEMENTED = "not implemented"
    """The derivative exists; the rule is not written."""


class Origin(enum.Enum):
    """Who says what a gradient does at an operator."""

    BUILT_IN = "built-in"
    USER = "the user's"
    """A rule registered by `netgrad.rule`, or a function given in ``gradients``."""
    STOPPED = "stopped"
    """``"stop"`` in ``gradients``."""
    STRAIGHT_THROUGH = "straight-through"
    """``"straight-through"`` in ``gradients``, or ``straight_through=True``."""


@dataclass(frozen=True)
class Declaration:
    """What is declared of one operator type.

    Attributes:
        type: Operator type.
        domain: Operator domain; ``""`` is the standard's.
        kind: A rule, or one of the three kinds of no gradient.
        reason: Why there is no gradient; empty for a rule.
        function: The rule itself, None without one.
        attributes: Names of the attributes that the rule understands; any other must be at its default. None:
            the rule looks at all of them.
        broadcasts: Whether contributions may have the broadcast shape and are summed to the input's.
        not_differentiable: Input positions that cannot be perturbed or have no derivative.
        all_output_gradients: Whether the rule wants zeros in place of absent output cotangents.
        needs_outputs: How many outputs of the operator the rule reads, or a function of its
            `RuleContext` that says so (and writes nothing). Optional outputs among them that the model
            leaves out are added to the forward node; without this, the rule may find them absent.
        constant_when: Says of an operator of the type that its derivative is zero almost everywhere, so that
            no gradient flows through this one; None: of no operator.
        source: ``function (file:line)`` of the rule, for errors.
        origin: Who declared it.
        partial: Whether the rule may return None for an input whose gradient is wanted: nothing flows there.
        infer: What is known of the outputs, from what is known of the inputs, where neither the model nor the
            standard's inference says it; None: the element type is that of the first floating-point input.
        newest: The newest version of its operator set that the rule is meant for; None: that of the table in
            `netgrad.onnx.versions`.
    """

    type: str
    domain: str
    kind: Kind
    reason: str = ""
    function: RuleFunction | None = None
    attributes: tuple[str, ...] | None = ()
    broadcasts: bool = False
    not_differentiable: tuple[int, ...] = ()
    all_output_gradients: bool = False
    needs_outputs: int | Callable[[RuleContext], int] = 0
    constant_when: Callable[[Operator], bool] | None = None
    source: str = ""
    origin: Origin = Origin.BUILT_IN
    partial: bool = False
    infer: Inference | None = None
    newest: int | None = None


_DECLARATIONS: dict[tuple[str, str], Declaration] = {}


def _declare(declaration: Declaration) -> None:
    key = (declaration.domain, declaration.type)
    other = _DECLARATIONS.get(key)
    if other is not None:
        raise AssertionError(
            f"{declaration.type} is declared twice: as {other.kind.value} ({other.source or other.reason}) "
            f"and as {declaration.kind.value} ({declaration.source or declaration.reason})"
        )
    _DECLARATIONS[key] = declaration


def source_of(function: Callable[..., Any]) -> str:
    """``name (file:line)`` of a function, with the file's path from the package on."""
    plain = inspect.unwrap(function)
    code = getattr(plain, "__code__", None)
    if code is None:  # an object that can be called
        return type(function).__name__
    parts = code.co_filename.split(os.sep)
    path = "/".join(parts[parts.index("netgrad") :]) if "netgrad" in parts else parts[-1]
    return f"{plain.__name__} ({path}:{code.co_firstlineno})"


def rule(
    *types: str,
    domain: str = "",
    attributes: Sequence[str] = (),
    broadcasts: bool = False,
    not_differentiable: Sequence[int] = (),
    all_output_gradients: bool = False,
    needs_outputs: int | Callable[[RuleContext], int] = 0,
    constant_when: Callable[[Operator], bool] | None = None,
) -> Callable[[_Function], _Function]:
    """Declare a function as the gradient rule of one or more operator types.

    The function takes a `netgrad.onnx.rules.context.RuleContext` and one cotangent per output (None where
    none arrived), and returns one contribution per input (None exactly at the inputs declared
    ``not_differentiable``, at those left out, and at those for which ``op.wants(i)`` is False if it likes).
    A rule with a single differentiable input may return the bare contribution.

    Args:
        types: Operator types.
        domain: Their domain.
        attributes: Attributes the rule understands.
        broadcasts: See `Declaration`.
        not_differentiable: Input positions without a derivative.
        all_output_gradients: See `Declaration`.
        needs_outputs: See `Declaration`.
        constant_when: See `Declaration`.
    """

    def decorate(function: _Function) -> _Function:
        for op_type in types:
            _declare(
                Declaration(
                    type=op_type,
                    domain=domain,
                    kind=Kind.RULE,
                    function=function,
                    attributes=tuple(attributes),
                    broadcasts=broadcasts,
                    not_differentiable=tuple(not_differentiable),
                    all_output_gradients=all_output_gradients,
                    needs_outputs=needs_outputs,
                    constant_when=constant_when,
                    source=source_of(function),
                )
            )
        return function

    return decorate


def not_differentiable(*types: str, reason: str, domain: str = "") -> None:
    """Declare operators whose inputs or outputs cannot be perturbed (indices, shapes, booleans)."""
    for op_type in types:
        _declare(Declaration(op_type, domain, Kind.NOT_DIFFERENTIABLE, reason))


def piecewise_constant(*types: str, reason: str, domain: str = "", infer: Inference | None = None) -> None:
    """Declare operators whose derivative is zero almost everywhere."""
    for op_type in types:
        _declare(Declaration(op_type, domain, Kind.PIECEWISE_CONSTANT, reason, infer=infer))


def not_implemented(*types: str, reason: str, domain: str = "") -> None:
    """Declare operators whose derivative exists but whose rule is not written."""
    for op_type in types:
        _declare(Declaration(op_type, domain, Kind.NOT_IMPLEMENTED, reason))


def declarations() -> dict[tuple[str, str], Declaration]:
    """All declarations by (domain, operator type)."""
    return dict(_DECLARATIONS)
