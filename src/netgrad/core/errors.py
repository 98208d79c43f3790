"""Every error that netgrad raises on purpose; the docstring of a class is its help page.

An error says what is wrong, where (operator, node, blob and version), why it matters there, and what can
be done. The same facts are attributes, so that a program need not parse the text.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from netgrad.core.operator import Operator


def nearest(name: str, choices: Iterable[str]) -> str:
    """A hint such as ``; did you mean 'x'?`` for a misspelt name, or nothing where no choice comes near."""
    known = list(choices)
    matches = [choice for choice in known if choice.lower() == name.lower()]
    matches = matches or difflib.get_close_matches(name, known, n=1)
    return f"; did you mean '{matches[0]}'?" if matches else ""


class NetgradError(Exception):
    """The base of all errors that a user of netgrad can cause and cure.

    Catch this class to catch them all. Anything else that netgrad raises is a defect of netgrad.

    Attributes:
        message: What is wrong, where and why.
        hint: What can be done about it, or None.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class InvalidArgumentError(NetgradError):
    """A call got an argument that it can't use.

    Cause: a name that the net doesn't have, a value outside the permitted ones, or the wrong kind of thing.

    Example: ``backward_pass(ops, "y", rules)``; targets are a list of names or a mapping, not one string.

    What to do: the message lists what is permitted.
    """


class InvalidModelError(NetgradError):
    """The net itself is broken, or isn't what was announced.

    Cause: a file that can't be read as a model, a blob that is read before anything writes it, a
    ``StopGradient`` whose output nobody reads.

    Example: ``StopGradient(h) -> (h2)`` while every other operator goes on reading ``h``.

    What to do: correct the model; the message names the operator and the blob.
    """


@dataclass(frozen=True, slots=True)
class MissingRule:
    """One operator that a gradient must pass, and that has no rule for it.

    Attributes:
        operator: The operator.
        index: Its position in the list of forward operators, from 0.
        reason: Why there is no rule: ``"no gradient rule"``, ``"not implemented: ..."``.
        path: Blob names from the blob that is differentiated by (or a net input) through the operator to a
            target, both included. Empty when no path was looked for.
    """

    operator: Operator
    index: int
    reason: str
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        op = self.operator
        title = f"{op.domain}::{op.type}" if op.domain else op.type
        label = f"node '{op.name}'" if op.name else f"operator {self.index}"
        signature = f"{', '.join(op.inputs)} -> {', '.join(op.outputs)}"
        text = f"{self.reason} for {title}, {label} ({signature})"
        if len(self.path) > 1:
            text += f"\n    it lies between '{self.path[0]}' and '{self.path[-1]}': {' -> '.join(self.path)}"
        return text


class UnsupportedOperatorError(NetgradError):
    """A gradient has to pass operators that have no gradient rule.

    Cause: between what is differentiated and what it is differentiated by lies an operator type that netgrad
    doesn't know, that isn't implemented yet, or that has no derivative. All of them are reported at once.

    Example: ``y = GridSample(x, theta)`` with ``wrt=["theta"]`` in a release without a rule for GridSample.

    What to do: leave the blobs behind the operator out of ``wrt``, or register a rule for its type.

    Attributes:
        operators: The operators without a rule, in the order of the net; empty where only the message tells.
    """

    def __init__(
        self, message: str, operators: Sequence[MissingRule] = (), *, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.operators = tuple(operators)


class OverwrittenBlobError(NetgradError):
    """A gradient operator needs a value that a later forward operator has overwritten.

    Cause: the forward net writes a blob a second time (often in place) while the derivative of an operator
    that read or wrote the blob earlier is computed from the earlier value.

    Example: ``Mul(x, w) -> (y)`` followed by ``Relu(x) -> (x)``: the gradient of ``w`` needs the old ``x``.

    What to do: let the later operator write another blob, or pass ``overwritten="keep"``, which keeps the
    value under another name.

    Attributes:
        blob: The name of the blob.
        needed: The version that is needed.
        current: The version that the blob has when the backward pass runs.
        reader: The forward operator whose gradient needs the value.
        writer: The forward operator that overwrites it.
    """

    def __init__(
        self,
        blob: str,
        needed: int,
        current: int,
        reader: Operator,
        writer: Operator,
        history: Sequence[str] = (),
        *,
        kept: bool = False,
    ) -> None:
        self.blob = blob
        self.needed = needed
        self.current = current
        self.reader = reader
        self.writer = writer
        lines = [
            f"the gradient of {reader} needs version {needed} of blob '{blob}', but {writer} has "
            f"overwritten it and its last version is {current}"
        ]
        super().__init__(
            "\n    ".join([*lines, *history]),
            hint=f"let the operator write another blob than '{blob}'"
            + ("" if kept else ", or pass overwritten='keep' to keep the value"),
        )


class AccumulationError(NetgradError):
    """The gradients that several operators give for one value can't be added up.

    Cause: the dialect has no words for what is needed, for example no operator that copies between the
    devices on which the gradients lie, or none that turns a sparse gradient into a dense one.

    Example: an embedding table that is both gathered from and multiplied, in a vocabulary without
    ``slice_to_dense``.

    What to do: the message names the value and the operators that contributed.

    Attributes:
        blob: The name of the blob.
        version: Its version.
        operators: The forward operators whose gradients are to be added.
    """

    def __init__(self, message: str, blob: str, version: int, operators: Sequence[Operator]) -> None:
        self.blob = blob
        self.version = version
        self.operators = tuple(operators)
        super().__init__(
            "\n    ".join(
                [f"the gradients of version {version} of blob '{blob}' can't be added: {message}"]
                + [f"contribution of {op}" for op in self.operators]
            )
        )


class RuleError(NetgradError):
    """A gradient rule broke its contract; this message is for the author of the rule.

    Cause: the rule raised, returned another number of gradients than the operator has inputs, let an operator
    read a blob that is neither an input, an output nor an output gradient of its operator, or returned
    something that isn't a gradient.

    Example: a rule for an operator of two inputs that returns one gradient.

    What to do: correct the rule; ``location`` says where it is.

    Attributes:
        operator: The forward operator for which the rule was asked, or None where only the message tells.
        location: ``file:line`` of the rule, or the name of the rule source if it doesn't know.
    """

    def __init__(self, message: str, operator: Operator | None = None, location: str = "") -> None:
        super().__init__(message)
        self.operator = operator
        self.location = location


class RuntimeFailureError(NetgradError):
    """ONNX Runtime refused or failed to run a net.

    Cause: an operator that the chosen execution provider has no kernel for, inputs of another shape or type
    than the net's, or too little memory.

    Example: a float64 model with an operator that exists in float32 only.

    What to do: the message carries ONNX Runtime's own text and, for a generated node, the forward operator
    and the rule it came from.

    Attributes:
        operators: The forward operators concerned, as far as known.
    """

    def __init__(self, message: str, *, operators: Sequence[Operator] = (), hint: str | None = None) -> None:
        self.operators = tuple(operators)
        super().__init__(message, hint=hint)


class NetgradWarning(UserWarning):
    """Something that is probably not what was meant, though it can be carried out.

    Cause: for example a name in ``wrt`` that does not influence ``of``; its gradient is zeros.

    What to do: the message names the blob. Silence it with ``warnings.simplefilter`` where it is meant.
    """
