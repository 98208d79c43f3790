"""Gradient rules of users: for operators of their own, and deliberately in place of built-in rules.

They are kept apart from the built-in ones, which they precede, so that it makes no difference which module is
imported first. What would make a difference is refused: two rules for one operator.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

import onnx.defs

from netgrad.core.errors import InvalidArgumentError, nearest
from netgrad.onnx.fused import fused_operators
from netgrad.onnx.lowering.lower import lowered_operators
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import (
    Declaration,
    Inference,
    Kind,
    Origin,
    RuleFunction,
    _Function,
    declarations,
    source_of,
)

Layer: TypeAlias = "dict[tuple[str, str], Declaration]"

_EVERYWHERE: Layer = {}
_LOCK = threading.Lock()
_BLOCKS: ContextVar[tuple[Layer, ...]] = ContextVar("netgrad_local_rules", default=())


def rule(
    domain: str,
    *types: str,
    attributes: Sequence[str] = (),
    broadcasts: bool = False,
    not_differentiable: Sequence[int] = (),
    all_output_gradients: bool = False,
    needs_outputs: int | Callable[[RuleContext], int] = 0,
    infer: Inference | None = None,
    newest: int | None = None,
    replace: bool = False,
) -> Callable[[_Function], _Function]:
    """Register a function as the gradient rule of one or more operators.

    The function gets the operator (`netgrad.onnx.rules.context.RuleContext`) and one cotangent per output,
    None where none arrives, and returns one gradient contribution per input; the bare value if only one input
    can have a gradient. Values and cotangents are `netgrad.onnx.builder.Value`: arithmetic on them writes
    ONNX operators, ``op.emit("Cos", x)`` writes any other standard operator. What is written can be
    differentiated again. ``op.emit("FooGradient", x, dy, domain="my.domain")`` writes a call of another
    operator, or of a function that the model holds for it; a set that the model does not import is imported
    at version 1.

    A rule holds from then on in the whole process, or inside a `local_rules` block until its end. A function
    of the model with such a name is not taken apart, but differentiated by the rule.

    Args:
        domain: Domain of the operators; ``""`` or ``"ai.onnx"`` is the standard's.
        types: Operator types.
        attributes: Attributes that the rule understands. An operator that sets another is refused.
        broadcasts: Whether contributions may have the broadcast shape; they are summed to the input's.
        not_differentiable: Positions of inputs without a gradient; None is returned for them.
        all_output_gradients: Whether zeros are wanted in place of absent cotangents.
        needs_outputs: How many outputs of the operator the rule reads; those that the model leaves out are
            added to the forward node.
        infer: A function of one `netgrad.onnx.view.TensorInfo` (element type and shape) per input, None for
            one that is left out, that returns the same for the output, or for all outputs. It is asked where
            neither the model nor the standard's shape inference knows them. Without it, outputs have the
            element type of the first floating-point input, and a shape that is known when the model runs.
        newest: The newest version of the domain that the rule is meant for: a model of a later one is
            refused. None: any.
        replace: Must be True to take the place of a rule or an expansion that netgrad has.

    Raises:
        InvalidArgumentError: There is such a rule already, or no such operator in the standard.
    """
    domain = "" if domain == "ai.onnx" else domain
    for position, name in enumerate((domain, *types)):
        if not isinstance(name, str) or (position and not name):
            raise InvalidArgumentError(f"an operator has a domain and a type, which are names, not {name!r}")
    if not types:
        raise InvalidArgumentError(
            f"the rule for '{domain}' names no operator type", hint='write rule("my.domain", "Foo")'
        )
    for given, what in ((attributes, "attributes"), (not_differentiable, "not_differentiable")):
        if isinstance(given, str | int):
            raise InvalidArgumentError(f"`{what}` is {given!r}; it is a list")
    for op_type in types:
        _check_place(domain, op_type, replace)

    def decorate(function: _Function) -> _Function:
        if not callable(function):
            raise InvalidArgumentError(f"a gradient rule is a function, not {function!r}")
        for op_type in types:
            _register(
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
                    source=source_of(function),
                    origin=Origin.USER,
                    infer=infer,
                    newest=newest,
                )
            )
        return function

    return decorate


@contextmanager
def local_rules() -> Iterator[None]:
    """A block at whose end all rules that were registered inside it are forgotten.

    Inside it a rule may take the place of one that was registered outside, with ``replace=True``. The block
    is the business of its own thread (and of its own asyncio task); others do not see its rules.
    """
    token = _BLOCKS.set((*_BLOCKS.get(), {}))
    try:
        yield
    finally:
        _BLOCKS.reset(token)


def user_declarations() -> Mapping[tuple[str, str], Declaration]:
    """The rules that users have registered and that hold here, by (domain, operator type)."""
    found = dict(_EVERYWHERE)
    for layer in _BLOCKS.get():
        found.update(layer)
    return found


def _check_place(domain: str, op_type: str, replace: bool) -> None:
    """Refuse a rule that would hide one of netgrad's unasked, or that no operator would ever ask for."""
    title = f"{domain}::{op_type}" if domain else op_type
    built_in = (domain, op_type) in declarations() or (domain, op_type) in fused_operators()
    built_in = built_in or op_type in lowered_operators(domain)
    if not domain and not built_in:
        live = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
        if op_type not in live or onnx.defs.get_schema(op_type).deprecated:
            raise InvalidArgumentError(
                f"the standard has no operator {op_type}{nearest(op_type, live)}",
                hint="an operator of your own needs a domain of your own; models that use an operator that "
                "the standard has dropped are brought to its successor first, so give that one a rule",
            )
        built_in = True  # defined by a function of the standard
    layers = [_EVERYWHERE, *_BLOCKS.get()]
    outside = next((layer[domain, op_type] for layer in layers[:-1] if (domain, op_type) in layer), None)
    if (built_in or outside) and not replace:
        raise InvalidArgumentError(
            f"netgrad has a rule for {title} itself"
            if outside is None
            else f"{title} has a rule already: {outside.source}",
            hint="say replace=True to use yours instead, or give it to one call: "
            f'gradients={{"{title}": function}}',
        )
    if replace and not built_in and (domain, op_type) not in user_declarations():
        raise InvalidArgumentError(f"there is no rule for {title} to replace: leave out replace=True")


def _register(declared: Declaration) -> None:
    key = (declared.domain, declared.type)
    blocks = _BLOCKS.get()
    layer = blocks[-1] if blocks else _EVERYWHERE
    with _LOCK:
        other = layer.get(key)
        if other is not None and not _redefined(other.function, declared.function):
            title = f"{declared.domain}::{declared.type}" if declared.domain else declared.type
            raise InvalidArgumentError(
                f"{title} has a rule already: {other.source}; the new one is {declared.source}",
                hint="register one of them inside `with netgrad.local_rules():`, or give it to one call by "
                "`gradients`",
            )
        layer[key] = declared


def _redefined(old: RuleFunction | None, new: RuleFunction | None) -> bool:
    """Whether the two are the same function, perhaps defined anew: a cell of a notebook run again."""

    def place(function: RuleFunction | None) -> tuple[object, object]:
        return getattr(function, "__module__", None), getattr(function, "__qualname__", None)

    named = getattr(new, "__qualname__", "<lambda>").rpartition(".")[2] != "<lambda>"
    return old is new or (named and place(old) == place(new))
