"""The registry of what writes ONNX's operators in Caffe2's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from netgrad.caffe2.onnx_import.node import Node
from netgrad.core import InvalidArgumentError

Writer: TypeAlias = "Callable[[Node], None]"
"""Writes the operators of one node."""

WRITERS: dict[str, Writer] = {}
"""By operator type of ONNX's default domain."""


def writes(*types: str) -> Callable[[Writer], Writer]:
    """Register what writes operators of these types."""

    def register(function: Writer) -> Writer:
        for type_ in types:
            if type_ in WRITERS:
                raise InvalidArgumentError(f"{type_} is written by two functions")
            WRITERS[type_] = function
        return function

    return register
