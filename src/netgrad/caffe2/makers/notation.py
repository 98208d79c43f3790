"""The notation of gradient makers: one line says which gradient operators an operator gets.

``FCGradient(I0,I1,G0)->(D1,D2,D0)`` is one gradient operator; several are separated by ``;``. The letters:

====  ==============================================================
I     an input of the forward operator
L     the same where only its shape matters: the output, if that overwrites it
O     an output
G     the dense gradient of an output; ``GI``, ``GV``: indices and values of a sparse one
D     the dense gradient of an input, ``<input>_grad``
V, X  ``<input>_grad_values`` and ``<input>_grad_indices``: a sparse one
M     what comes with an input's gradient and nobody reads, ``_<input>_grad_dims``
====  ==============================================================

A number after the letter is a position; ``I*`` stands for all positions. A name may have a text behind it or
before it, in quotes: ``D1"_autogen_pre_red"``. ``D0=G0`` passes a gradient through without an operator, and
``S0=(I1,V0)`` declares the sparse gradient of input 0. ``{scale=0.5,order="NCHW"}`` are arguments of the
gradient operator. Whatever is written to a ``D`` is the gradient of that input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from netgrad.caffe2.arguments import Arguments, make_argument
from netgrad.caffe2.caffe2_pb2 import Argument, OperatorDef
from netgrad.core import Gradient, GradientSlice, Operator
from netgrad.core.tape import without_occurrence

_TOKEN = re.compile(
    r'(?:"(?P<before>[^"]*)")?(?P<letter>GI|GV|[ILOGDVXM])(?P<at>\d+|\*)(?:"(?P<after>[^"]*)")?$'
)
_OPERATOR = re.compile(
    r"(?P<type>\w+)\((?P<reads>[^()]*)\)->\((?P<writes>[^()]*)\)(?:\{(?P<arguments>.*)\})?$"
)
_PASSED = re.compile(r"(?P<kind>[DS])(?P<at>\d+|\*)=\(?(?P<names>[^()]+)\)?$")


class Refusal(Exception):  # noqa: N818  it is no fault of the program, but the maker's answer
    """A maker can't differentiate an operator as it stands; the text says why."""


@dataclass(frozen=True, slots=True)
class Line:
    """What a maker writes.

    Attributes:
        text: The gradient operators in the notation of this module.
        copies_arguments: Whether the forward operator's arguments follow the gradient operators' own.
        arguments: Arguments of every gradient operator, besides those in the text.
    """

    text: str
    copies_arguments: bool = True
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True)
class _Token:
    letter: str
    at: int | None
    before: str
    after: str

    @property
    def is_plain(self) -> bool:
        return not self.before and not self.after


@dataclass(frozen=True, slots=True)
class _Step:
    type: str
    reads: tuple[_Token, ...]
    writes: tuple[_Token, ...]
    arguments: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class _Passed:
    sparse: bool
    at: int | None
    names: tuple[_Token, ...]


def _token(text: str) -> _Token:
    found = _TOKEN.match(text.strip())
    assert found, f"no blob: {text!r}"
    at = None if found["at"] == "*" else int(found["at"])
    return _Token(found["letter"], at, found["before"] or "", found["after"] or "")


def _tokens(text: str) -> tuple[_Token, ...]:
    return tuple(_token(part) for part in text.split(",")) if text.strip() else ()


def _literal(text: str) -> Any:
    if text.startswith('"'):
        return text.strip('"')
    return float(text) if "." in text or "e" in text else int(text)


@cache
def _parsed(text: str) -> tuple[_Step | _Passed, ...]:
    steps: list[_Step | _Passed] = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        compact = re.sub(r"\s+(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", "", part)
        passed = _PASSED.match(compact)
        if passed:
            at = None if passed["at"] == "*" else int(passed["at"])
            steps.append(_Passed(passed["kind"] == "S", at, _tokens(passed["names"])))
            continue
        found = _OPERATOR.match(compact)
        assert found, f"no gradient operator: {part!r}"
        pairs = [pair.split("=", 1) for pair in (found["arguments"] or "").split(",") if pair]
        arguments = tuple((name, _literal(value)) for name, value in pairs)
        steps.append(_Step(found["type"], _tokens(found["reads"]), _tokens(found["writes"]), arguments))
    return tuple(steps)


class _Blobs:
    """What the letters mean for one operator. Names of the operator are passed on as the very objects."""

    def __init__(self, op: Operator, grads: Sequence[Gradient | None]) -> None:
        self._op = op
        self._grads = grads

    def names(self, token: _Token) -> list[str]:
        if token.at is not None:
            return [self._name(token, token.at)]
        count = len(self._op.inputs if token.letter in "ILDVXM" else self._op.outputs)
        return [self._name(token, at) for at in range(count)]

    def _name(self, token: _Token, at: int) -> str:
        op = self._op
        if token.letter == "I":
            name = _at(op.inputs, at, f"{op.type} has no input {at}")
        elif token.letter == "L":
            name = _at(op.inputs, at, f"{op.type} has no input {at}")
            name = next((output for output in op.outputs if output == without_occurrence(name)), name)
        elif token.letter == "O":
            name = _at(op.outputs, at, f"{op.type} has no output {at}")
        elif token.letter in ("G", "GI", "GV"):
            name = self._gradient(token.letter, at)
        else:
            blob = _at(op.inputs, at, f"{op.type} has no input {at}")
            name = {
                "D": f"{blob}_grad",
                "V": f"{blob}_grad_values",
                "X": f"{blob}_grad_indices",
                "M": f"_{blob}_grad_dims",
            }[token.letter]
        return f"{token.before}{name}{token.after}" if not token.is_plain else name

    def _gradient(self, letter: str, at: int) -> str:
        output = _at(self._op.outputs, at, f"{self._op.type} has no output {at}")
        gradient = self._grads[at]
        if gradient is None:
            raise Refusal(f"the gradient of output '{output}' is needed, and there is none")
        if isinstance(gradient, GradientSlice):
            if letter == "G":
                raise Refusal(f"the gradient of output '{output}' is sparse, and a dense one is needed")
            return gradient.indices if letter == "GI" else gradient.values
        if letter != "G":
            raise Refusal(f"the gradient of output '{output}' is dense, and a sparse one is needed")
        return gradient


def _at(names: Sequence[str], at: int, refusal: str) -> str:
    if at >= len(names):
        raise Refusal(refusal)
    return names[at]


def written(
    op: Operator, grads: Sequence[Gradient | None], line: Line
) -> tuple[list[Operator], list[Gradient | None]]:
    """The gradient operators that ``line`` means for ``op``, and the gradient of each of its inputs.

    The gradient operators run on the forward operator's device with its engine, and are marked as such.

    Raises:
        Refusal: The line needs an operand or a gradient that isn't there.
    """
    blobs = _Blobs(op, grads)
    operators: list[Operator] = []
    gradients: list[Gradient | None] = [None] * len(op.inputs)
    for step in _parsed(line.text):
        if isinstance(step, _Passed):
            names = [name for token in step.names for name in blobs.names(token)]
            gradient = GradientSlice(names[0], names[1]) if step.sparse else names[0]
            for at in range(len(op.inputs)) if step.at is None else [step.at]:
                gradients[at] = gradient
            continue
        reads = [name for token in step.reads for name in blobs.names(token)]
        writes: list[str] = []
        for token in step.writes:
            names = blobs.names(token)
            writes += names
            if token.letter == "D" and token.is_plain:
                for at, name in enumerate(names) if token.at is None else [(token.at, names[0])]:
                    gradients[at] = name
        operators.append(Operator(step.type, reads, writes, _arguments(op, step, line), device=op.device))
    return operators, gradients


def _arguments(op: Operator, step: _Step, line: Line) -> Arguments:
    message = OperatorDef(is_gradient_op=True)
    forward = op.attributes.message if isinstance(op.attributes, Arguments) else OperatorDef()
    if forward.HasField("engine"):
        message.engine = forward.engine
    message.arg.extend(make_argument(name, value) for name, value in step.arguments)
    message.arg.extend(line.arguments)
    if line.copies_arguments:
        message.arg.extend(forward.arg)
    return Arguments(message)


def reached_inputs(line: Line) -> Collection[int] | None:
    """Positions of the inputs to which ``line`` gives a gradient; None: all."""
    reached: set[int] = set()
    for step in _parsed(line.text):
        if isinstance(step, _Passed):
            positions = [step.at]
        else:
            positions = [token.at for token in step.writes if token.letter == "D" and token.is_plain]
        for at in positions:
            if at is None:
                return None
            reached.add(at)
    return reached


def uses_gradient(line: Line, output: int) -> bool:
    """Whether ``line`` uses the gradient of one output."""
    tokens = [
        token
        for step in _parsed(line.text)
        for token in (step.names if isinstance(step, _Passed) else step.reads)
    ]
    return any(token.letter.startswith("G") and token.at in (None, output) for token in tokens)


Maker = Callable[[Operator, Sequence[Gradient | None]], "Line | str"]
"""Gives the line for an operator and the gradients of its outputs; or raises `Refusal`.

To find out which inputs can have a gradient it is called with a gradient for each output.
"""
