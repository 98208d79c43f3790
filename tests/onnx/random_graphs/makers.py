"""The register of makers: each writes one use of an operator, of a random form, onto random values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tests.onnx.random_graphs.writer import Writer

Make = Callable[[Writer], None]
_Function = TypeVar("_Function", bound=Make)


@dataclass(frozen=True)
class Maker:
    """A function that adds to a graph.

    Attributes:
        name: Its name, by which recipes call it.
        make: The function.
        since: The first opset that has the form.
        until: The last opset at which ONNX Runtime has it.
        double: Whether ONNX Runtime has float64 kernels for it at every opset.
        weight: How often it is drawn in comparison with others.
        body: Whether it may stand in the body of a control operator or a function.
    """

    name: str
    make: Make
    since: int
    until: int
    double: bool
    weight: float
    body: bool


MAKERS: dict[str, Maker] = {}


def register(
    name: str,
    make: Make,
    *,
    since: int = 13,
    until: int = 99,
    double: bool = True,
    weight: float = 1.0,
    body: bool = True,
) -> None:
    assert name not in MAKERS, f"two makers are called {name}"
    MAKERS[name] = Maker(name, make, since, until, double, weight, body)


def maker(
    *, since: int = 13, double: bool = True, weight: float = 1.0, body: bool = True
) -> Callable[[_Function], _Function]:
    """Register a function under its own name."""

    def decorate(function: _Function) -> _Function:
        register(function.__name__, function, since=since, double=double, weight=weight, body=body)
        return function

    return decorate
