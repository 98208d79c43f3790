"""The table of operators.

A function takes the inputs (None for one that is left out) and, as keywords, the attributes. An attribute
that it doesn't name is thus an error of the call, and never ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[..., Any]

OPERATORS: dict[str, Function] = {}


def register(op_type: str, function: Function) -> None:
    assert op_type not in OPERATORS, f"two functions for {op_type}"
    OPERATORS[op_type] = function


def operator(*op_types: str) -> Callable[[Function], Function]:
    """Enter a function under one or more operator types."""

    def decorate(function: Function) -> Function:
        for op_type in op_types:
            register(op_type, function)
        return function

    return decorate


def single(value: float) -> float:
    """The float32 number next to a value: attributes are float32, their defaults, too."""
    return float(np.float32(value))


def whole(tensor: Any) -> list[int]:
    """The elements of an integer tensor."""
    return [int(each) for each in tensor.reshape(-1).tolist()]
