"""Gradient rules: what the sweep asks of a dialect, and the registry that answers from plain functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

from netgrad.core.errors import InvalidArgumentError
from netgrad.core.operator import Gradient, Operator
from netgrad.core.tape import occurrence
from netgrad.core.vocabulary import ClassicVocabulary

RuleResult: TypeAlias = tuple[Sequence[Operator], Sequence[Gradient | None]]

Rule: TypeAlias = Callable[[Operator, Sequence[Any]], Any]
"""A function of an operator and the gradients of its outputs (None where there is none).

It returns gradient operators (a sequence, one operator, or None) and a sequence with one gradient per input:
a name that the operators write, a name that exists already (the gradient is passed through), a
`GradientSlice` of such names, or None. Its operators may read the operator's inputs, outputs and output
gradients and what they wrote themselves. The names they write are local to the rule.
"""


class RuleSource(Protocol):
    """What the sweep asks of a dialect."""

    def missing(self, op: Operator) -> str | None:
        """None if there is a rule for ``op``, else the reason why there is none."""
        ...

    def blocked_inputs(self, op: Operator) -> Collection[int]:
        """Positions of inputs through which no gradient ever flows (indices, shapes, integers).

        All positions for an operator that isn't differentiable.
        """
        ...

    def gradient(
        self, op: Operator, grads: Sequence[Gradient | None], wanted: Sequence[bool]
    ) -> tuple[Sequence[Operator], Sequence[Gradient | None]]:
        """The gradient operators of ``op`` and the gradient of each of its inputs.

        Args:
            op: A forward operator. If it works in place, the names in its outputs equal names in its inputs
                but are other objects; pass on the object, and the right version is meant.
            grads: One gradient per output, None where none arrives.
            wanted: Which input gradients will be used; the others may be left None.
        """
        ...


@runtime_checkable
class TypedRules(Protocol):
    """A rule source that can say of whole types that they are in no gradient's way; so it is asked less.

    Attributes:
        open_types: (domain, type) of operators that have a rule, and whose inputs are none of them blocked.
    """

    open_types: Collection[tuple[str, str]]


@runtime_checkable
class ZeroFilling(Protocol):
    """A rule source some of whose rules can't do without an output gradient."""

    def needs_all_output_gradients(self, op: Operator) -> bool:
        """Whether absent output gradients are to be replaced by zeros before the rule is asked."""
        ...


@runtime_checkable
class Densifying(Protocol):
    """A rule source some of whose rules can't take sparse output gradients."""

    def needs_dense_gradients(self, op: Operator) -> bool:
        """Whether sparse output gradients are to be made dense before the rule is asked."""
        ...


@runtime_checkable
class SpecialOperators(Protocol):
    """A rule source that knows more of some operators than their rules.

    Attributes:
        asked_always: (domain, type) of operators whose rule is asked even if no gradient arrives.
        must_be_read: (domain, type) of operators whose first output some operator must read, because
            cutting the gradient has no effect otherwise.
        value_keeping: (domain, type) of operators whose first output has the value of their first input. If
            one works in place, the value that it overwrites is still there.
    """

    asked_always: Collection[tuple[str, str]]
    must_be_read: Collection[tuple[str, str]]
    value_keeping: Collection[tuple[str, str]]


@runtime_checkable
class Located(Protocol):
    """A rule source that knows where its rules are written."""

    def location(self, op: Operator) -> str:
        """``file:line`` of the rule for ``op``."""
        ...


def with_occurrences(op: Operator) -> Operator:
    """``op`` with different names for the occurrences of a blob that it reads more than once.

    So that a rule that makes names from input names makes different ones for different positions.
    """
    if len(set(op.inputs)) == len(op.inputs):
        return op
    first = {blob: k for k, blob in reversed(list(enumerate(op.inputs)))}
    names = [
        blob if not blob or first[blob] == k else occurrence(blob, k) for k, blob in enumerate(op.inputs)
    ]
    return replace(op, inputs=tuple(names))


@dataclass(frozen=True, slots=True)
class _Entry:
    rule: Rule | None
    reason: str | None
    blocked: Collection[int] | None  # None: all inputs
    partial: bool
    dense: bool = False


class RuleRegistry:
    """Rules as plain functions, by operator type and domain. Registering a type again replaces its rule.

    Example:
        >>> rules = RuleRegistry()
        >>> @rules.register("Double")
        ... def double(op, grads):
        ...     gradient = f"{op.inputs[0]}_grad"
        ...     return [Operator("Double", grads, (gradient,))], [gradient]
    """

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], _Entry] = {}
        self.open_types: set[tuple[str, str]] = set()
        self.asked_always: set[tuple[str, str]] = set()
        self.must_be_read: set[tuple[str, str]] = set()
        self.value_keeping: set[tuple[str, str]] = set()

    def register(
        self,
        type: str,
        rule: Rule | None = None,
        *,
        domain: str = "",
        blocked: Collection[int] = (),
        partial: bool = False,
        dense: bool = False,
        value_keeping: bool = False,
    ) -> Any:
        """Register the gradient rule of an operator type.

        Args:
            type: Operator type.
            rule: The rule, see `Rule`. An operator that lists a blob more than once is shown to it with
                different names for the occurrences, so that names made from them differ.
            domain: Namespace of the type.
            blocked: Positions of inputs through which no gradient ever flows.
            partial: Whether the rule accepts None for outputs without a gradient. Otherwise it is given
                zeros for them.
            dense: Whether sparse output gradients are to be made dense for the rule. Otherwise it may be
                given a `GradientSlice`.
            value_keeping: Whether the first output always has the value of the first input.

        Returns:
            ``rule``, or without ``rule`` a decorator that registers a function.
        """
        if rule is None:
            return lambda function: self.register(
                type,
                function,
                domain=domain,
                blocked=blocked,
                partial=partial,
                dense=dense,
                value_keeping=value_keeping,
            )
        self._add(type, domain, _Entry(rule, None, frozenset(blocked), partial, dense))
        if value_keeping:
            self.value_keeping.add((domain, type))
        return rule

    def no_gradient(self, *types: str, domain: str = "") -> None:
        """Declare types at which a gradient silently ends: fills, readers, one-hot operators."""
        for type_ in types:
            self._add(type_, domain, _Entry(None, None, None, True))

    def should_not_do_gradient(self, *types: str, domain: str = "") -> None:
        """Declare types that no gradient may reach: comparisons, metrics, optimizers."""
        for type_ in types:
            self._add(type_, domain, _Entry(None, "gradient forbidden", frozenset(), True))

    def not_implemented(self, *types: str, domain: str = "", reason: str = "") -> None:
        """Declare types that have a derivative but no rule yet."""
        text = (
            f"not implemented ({reason}): no gradient rule" if reason else "not implemented: no gradient rule"
        )
        for type_ in types:
            self._add(type_, domain, _Entry(None, text, frozenset(), True))

    def zero_gradient(self, type: str = "ZeroGradient", *, domain: str = "") -> None:
        """Declare a type (one input, no outputs) that gives its input a gradient of zeros in every sweep."""

        def zeros(op: Operator, grads: Sequence[Gradient | None]) -> RuleResult:
            gradient = f"{op.inputs[0]}_grad"
            return ClassicVocabulary().zeros(op.inputs[0], gradient, op.device), [gradient]

        self._add(type, domain, _Entry(zeros, None, frozenset(), True))
        self.asked_always.add((domain, type))

    def stop_gradient(self, type: str = "StopGradient", *, domain: str = "") -> None:
        """Declare a type at which the gradient ends, and whose first output must be read by some operator."""
        self.no_gradient(type, domain=domain)
        self.must_be_read.add((domain, type))
        self.value_keeping.add((domain, type))

    # ---- what the sweep asks ------------------------------------------------------------------------

    def missing(self, op: Operator) -> str | None:
        """None if there is a rule for ``op``, else the reason why there is none."""
        entry = self._entries.get((op.domain, op.type))
        return "no gradient rule" if entry is None else entry.reason

    def blocked_inputs(self, op: Operator) -> Collection[int]:
        """Positions of inputs through which no gradient ever flows."""
        entry = self._entries.get((op.domain, op.type))
        if entry is None:
            return ()
        return range(len(op.inputs)) if entry.blocked is None else entry.blocked

    def needs_all_output_gradients(self, op: Operator) -> bool:
        """Whether the rule is given zeros for outputs without a gradient."""
        return not self._entries[op.domain, op.type].partial

    def needs_dense_gradients(self, op: Operator) -> bool:
        """Whether sparse output gradients are made dense for the rule."""
        return self._entries[op.domain, op.type].dense

    def location(self, op: Operator) -> str:
        """``file:line`` of the rule for ``op``."""
        rule = self._entries[op.domain, op.type].rule
        code = getattr(rule, "__code__", None)
        return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(rule)

    def gradient(
        self, op: Operator, grads: Sequence[Gradient | None], wanted: Sequence[bool]
    ) -> tuple[Sequence[Operator], Sequence[Gradient | None]]:
        """Ask the rule of ``op``."""
        rule = self._entries[op.domain, op.type].rule
        assert rule is not None, f"{op.type} has a rule, or all its inputs are blocked"
        if len(op.inputs) > 1:
            op = with_occurrences(op)
        result: RuleResult = rule(op, grads)
        return result

    def rule(self, op: Operator, grads: Sequence[Gradient | None]) -> RuleResult:
        """One rule call by itself: the gradient operators of ``op`` and the gradients of its inputs.

        Raises:
            InvalidArgumentError: There is no rule for ``op``.
        """
        reason = self.missing(op)
        if reason is not None:
            raise InvalidArgumentError(f"{reason} for {op}")
        if self._entries[op.domain, op.type].rule is None:
            return [], [None] * len(op.inputs)
        return self.gradient(op, grads, [True] * len(op.inputs))

    def _add(self, type: str, domain: str, entry: _Entry) -> None:
        if not type or not isinstance(type, str):
            raise InvalidArgumentError(f"an operator type is a name, not {type!r}")
        if entry.rule is not None and not callable(entry.rule):
            raise InvalidArgumentError(f"a gradient rule is a function, not {entry.rule!r}")
        key = (domain, type)
        self.open_types.discard(key)
        if (
            entry.rule is not None
            and entry.reason is None
            and entry.blocked is not None
            and not entry.blocked
        ):
            self.open_types.add(key)
        self.asked_always.discard(key)
        self.must_be_read.discard(key)
        self.value_keeping.discard(key)
        self._entries[key] = entry
