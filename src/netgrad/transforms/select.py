"""Which values a caller names: resolving `wrt` and `of` against a graph, with errors that help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from netgrad.core.errors import InvalidArgumentError, nearest
from netgrad.onnx.view import FLOATING, values_of


def listed(names: Iterable[str], limit: int = 8) -> str:
    """Names for a message: quoted, and cut after ``limit``."""
    everything = list(names)
    shown = ", ".join(f"'{name}'" for name in everything[:limit])
    return f"{shown} and {len(everything) - limit} more" if len(everything) > limit else shown or "none"


def as_names(given: str | Iterable[str], what: str) -> list[str]:
    """A name or an iterable of names as a list without repetitions."""
    names = [given] if isinstance(given, str) else list(given)
    if not names:
        raise InvalidArgumentError(f"`{what}` names nothing; leave it out for the default")
    for name in names:
        if not isinstance(name, str):
            raise InvalidArgumentError(f"`{what}` holds {name!r}, which is not a name")
    return list(dict.fromkeys(names))


def check_float_values(graph: ir.Graph, names: Iterable[str], what: str) -> None:
    """Check that ``names`` are floating-point values of ``graph``.

    Raises:
        InvalidArgumentError: There is no such value, or its element type has no gradient.
    """
    values = {value.name: value for value in values_of(graph) if value.name}
    for name in names:
        _check_float_value(graph, values, name, what)


def _check_float_value(graph: ir.Graph, values: Mapping[str, ir.Value], name: str, what: str) -> None:
    value = values.get(name)
    if value is None:
        outside = [v.name for v in [*graph.inputs, *graph.initializers.values(), *graph.outputs] if v.name]
        raise InvalidArgumentError(
            f"`{what}` names '{name}', which the model does not have{nearest(name, values)}",
            hint=f"the model's inputs, initializers and outputs are {listed(dict.fromkeys(outside))}",
        )
    dtype = value.dtype if value.const_value is None else value.const_value.dtype
    if dtype is not None and dtype not in FLOATING:
        raise InvalidArgumentError(
            f"`{what}` names '{name}', whose elements are {dtype.name}: "
            f"only floating-point tensors have a gradient"
        )


def default_target(graph: ir.Graph) -> str:
    """The only floating-point output.

    Raises:
        InvalidArgumentError: There are several, or none.
    """
    names = [v.name for v in graph.outputs if v.name and (v.dtype is None or v.dtype in FLOATING)]
    if len(names) == 1:
        return names[0]
    if not names:
        raise InvalidArgumentError("the model has no floating-point output to differentiate")
    raise InvalidArgumentError(
        f"the model has {len(names)} floating-point outputs: say with `of` which one to differentiate",
        hint=f"the outputs are {listed(names)}",
    )


def targets_of(graph: ir.Graph, of: str | Sequence[str] | None) -> list[str]:
    """The names in ``of``, checked; by default the only output."""
    names = [default_target(graph)] if of is None else as_names(of, "of")
    check_float_values(graph, names, "of")
    return names
