"""What blobs hold while a net is written: values, and stacks of workspaces as far as they are known.

A ``Do`` leaves a frame: what its gradient reads of the blobs that it has computed. What an ``If`` leaves
depends on its condition; what a ``While`` leaves is as many frames as it has made turns, the values of which
are stacked up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import onnx_ir as ir

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.definitions import to_operator
from netgrad.core import UnsupportedOperatorError
from netgrad.core.errors import MissingRule
from netgrad.onnx.builder import Value
from netgrad.onnx.view import TensorInfo


class ControlFlowError(UnsupportedOperatorError):
    """An operator that holds nets, or something in them, can't be written in ONNX.

    Cause: a branch that leaves a blob unwritten, branches that write different types, a loop that changes the
    type or the rank of a blob, or an operator inside that ONNX has no words for.

    Example: ``If`` without ``else_net`` that writes ``y``, where nothing has written ``y`` before.

    What to do: write the blob before, or run the net in a workspace, where such operators run in Python.
    """


def refused(definition: OperatorDef, reason: str) -> ControlFlowError:
    """The error that says why an operator with nets can't be written in ONNX."""
    operator = to_operator(definition)
    return ControlFlowError(
        f"{operator} can't be written in ONNX: {reason}", [MissingRule(operator, 0, reason, ())]
    )


TRUTH = TensorInfo(ir.DataType.BOOL, ())
"""What is known of a condition."""


@dataclass(frozen=True, slots=True)
class Perhaps:
    """What a blob holds that is perhaps not written.

    Attributes:
        error: What says so.
        condition: The name of the value on which it depends whether it is written; empty if there isn't one.
        holds: Whether it is written where the condition holds, or where it doesn't.
        value: The value where it is written.
    """

    error: ControlFlowError
    condition: str = ""
    holds: bool = True
    value: Value | None = None


@dataclass(frozen=True, slots=True)
class Ref:
    """A blob of the net around: whatever it holds when it is read."""

    blob: str


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The blobs of one workspace by name."""

    blobs: Mapping[str, Held | Ref]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What an ``If`` has left: by its condition (the name of that value) one thing or another."""

    condition: str
    then: tuple[Element, ...]
    otherwise: tuple[Element, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repeated:
    """Frames of the turns of a loop: ``count`` of them (int64 of no dims), with values stacked on axis 0."""

    count: Value
    frame: Frame


Element: TypeAlias = "Frame | Choice | Repeated"


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """A stack of workspaces, the last one on top."""

    elements: tuple[Element, ...] = ()

    def same(self, other: Stack) -> bool:
        """Whether both hold the same workspaces."""
        return len(self.elements) == len(other.elements) == self.common(other)

    def common(self, other: Stack) -> int:
        """How many workspaces both have at the bottom."""
        count = 0
        for one, two in zip(self.elements, other.elements, strict=False):
            if one is not two:
                break
            count += 1
        return count


Held: TypeAlias = "Value | Stack | Perhaps"
"""What a blob holds."""


def mapped(element: Element, change: Callable[[Value], Value]) -> Element:
    """An element with every value changed."""
    if isinstance(element, Frame):
        return _mapped_frame(element, change)
    if isinstance(element, Repeated):
        return Repeated(change(element.count), _mapped_frame(element.frame, change))
    then = tuple(mapped(one, change) for one in element.then)
    return Choice(element.condition, then, tuple(mapped(one, change) for one in element.otherwise))


def _mapped_frame(frame: Frame, change: Callable[[Value], Value]) -> Frame:
    found: dict[str, Held | Ref] = {}
    for name, held in frame.blobs.items():
        if isinstance(held, Value):
            found[name] = change(held)
        elif isinstance(held, Stack):
            found[name] = Stack(tuple(mapped(one, change) for one in held.elements))
        elif isinstance(held, Perhaps) and held.value is not None:
            found[name] = replace(held, value=change(held.value))
        else:
            found[name] = held
    return Frame(found)
