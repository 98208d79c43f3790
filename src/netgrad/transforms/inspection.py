"""What an inspection of a model found, to read and as data."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from netgrad.transforms.cost import Cost
from netgrad.transforms.text import counted, indented, listed, shortened, table

LISTED = 12
"""Lines that a list in the text form has at most."""


class Differentiability(enum.Enum):
    """What a gradient does at an operator."""

    RULE = "rule"
    USER = "rule (user's)"
    STRAIGHT_THROUGH = "straight-through"
    """The cotangent passes, though the derivative is zero; the caller asked for it."""
    STOPPED = "stopped"
    """The caller lets the gradient end there."""
    EXPANDED = "expanded"
    """It has no rule of its own; its definition is differentiated."""
    PIECEWISE_CONSTANT = "piecewise constant"
    NOT_DIFFERENTIABLE = "not differentiable"
    NOT_IMPLEMENTED = "not implemented"
    """The derivative exists, the rule is not written."""
    MISSING = "missing"
    """Nothing is known of the operator."""


@dataclass(frozen=True)
class OperatorInfo:
    """One operator of the prepared model.

    Attributes:
        type: Operator type, with its domain outside the standard.
        node: Name of the node.
        gradient: What a gradient does there.
        active: Whether it lies on a differentiable path from ``wrt`` to ``of``.
        reason: Why there is no gradient, where that was declared.
        rule: The rule, as ``function (file:line)``.
        cost: Its floating-point operations and bytes.
        inside: The node whose branch or body it is in; empty in the main graph.
    """

    type: str
    node: str
    gradient: Differentiability
    active: bool
    reason: str
    rule: str
    cost: Cost
    inside: str = ""


@dataclass(frozen=True)
class AccumulationInfo:
    """A value whose gradient is the sum of several contributions.

    Attributes:
        value: Its name.
        contributions: How many there are.
        operators: The nodes that contribute, ``type 'name'``, in the order of the sum.
        strategy: How they are added: ``sum``, ``running`` or ``fused``.
    """

    value: str
    contributions: int
    operators: tuple[str, ...]
    strategy: str


@dataclass(frozen=True)
class ParameterInfo:
    """A floating-point initializer.

    Attributes:
        name: Its name.
        shape: Its shape.
        dtype: Its element type.
        role: What it is for the operator that reads it.
        is_weight: Whether it is differentiated by default.
        reason: Why.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: str
    is_weight: bool
    reason: str

    @property
    def size(self) -> int:
        """Number of elements."""
        count = 1
        for dim in self.shape:
            count *= dim
        return count


@dataclass(frozen=True)
class Inspection:
    """What `netgrad.inspect` found.

    Attributes:
        wrt: The names to differentiate by.
        of: The names to differentiate.
        operators: The operators of the prepared model, in order; those of a branch or a body follow its node.
        accumulations: Where gradients are added up.
        parameters: The floating-point initializers.
        given_nodes: Nodes as given, those in branches and bodies included, as in all counts.
        prepared_nodes: Nodes after preparation.
        gradient_nodes: Nodes of the model with its gradient; None if that cannot be built.
        forward_cost: Cost of the prepared model: of all branches, and of one pass of each loop.
        gradient_cost: Cost of the model with its gradient; None if that cannot be built.
        uncounted: Operators with the gradient (else without) of which the cost is not known.
        actions: What was done to prepare the model.
        problem: Why the gradient cannot be built; empty if it can.
    """

    wrt: tuple[str, ...]
    of: tuple[str, ...]
    operators: tuple[OperatorInfo, ...]
    accumulations: tuple[AccumulationInfo, ...]
    parameters: tuple[ParameterInfo, ...]
    given_nodes: int
    prepared_nodes: int
    gradient_nodes: int | None
    forward_cost: Cost
    gradient_cost: Cost | None
    uncounted: int
    actions: tuple[str, ...]
    problem: str

    @property
    def differentiable(self) -> bool:
        """Whether the gradient can be built."""
        return not self.problem

    def __str__(self) -> str:
        """A page of plain text."""
        sections = [
            self._sizes(),
            self._operators(),
            self._parameters(),
            accumulation_lines(self.accumulations),
            listed("prepared", self.actions),
            problem_lines(self.problem),
        ]
        return "\n".join(line for section in sections for line in section)

    def to_dict(self) -> dict[str, Any]:
        """The inspection as plain data for JSON."""
        return {
            "differentiable": self.differentiable,
            "problem": self.problem,
            "wrt": list(self.wrt),
            "of": list(self.of),
            "nodes": {
                "given": self.given_nodes,
                "prepared": self.prepared_nodes,
                "gradient": self.gradient_nodes,
            },
            "cost": {
                "forward": asdict(self.forward_cost),
                "gradient": None if self.gradient_cost is None else asdict(self.gradient_cost),
                "uncounted": self.uncounted,
            },
            "operators": [{**asdict(info), "gradient": info.gradient.value} for info in self.operators],
            "accumulations": [
                {**asdict(info), "operators": list(info.operators)} for info in self.accumulations
            ],
            "parameters": [{**asdict(info), "shape": list(info.shape)} for info in self.parameters],
            "actions": list(self.actions),
        }

    def _sizes(self) -> list[str]:
        nodes = f"{counted(self.given_nodes, 'node')}, {self.prepared_nodes} prepared"
        if self.gradient_nodes is not None:
            ratio = self.gradient_nodes / max(self.given_nodes, 1)
            nodes += f", {self.gradient_nodes} with the gradient ({ratio:.1f} times the given)"
        least = "at least " if self.uncounted else ""
        cost = f"{least}{_flops(self.forward_cost)} and {_bytes(self.forward_cost)} forward"
        if self.gradient_cost is not None:
            cost += (
                f", {least}{_flops(self.gradient_cost)} and {_bytes(self.gradient_cost)} with the gradient"
            )
        notes = ["all branches, one pass of each loop"] if any(info.inside for info in self.operators) else []
        if self.uncounted:
            notes.append(
                f"{counted(self.uncounted, 'operator')} not counted: of sizes known only at run time, "
                "or of a kind without a formula"
            )
        names = shortened(self.wrt)
        return [
            f"gradient of {', '.join(self.of) or 'nothing'} by {names or 'nothing'}",
            f"size      {nodes}",
            f"cost      {cost}",
            *(f"          {note}" for note in notes),
        ]

    def _operators(self) -> list[str]:
        counts = Counter((info.type, info.gradient.value) for info in self.operators)
        active = Counter((info.type, info.gradient.value) for info in self.operators if info.active)
        rows = [("operator", "count", "on the path", "gradient")]
        rows += [(key[0], str(count), str(active[key]), key[1]) for key, count in sorted(counts.items())]
        return ["", *table(rows)]

    def _parameters(self) -> list[str]:
        weights = [info for info in self.parameters if info.is_weight]
        others = len(self.parameters) - len(weights)
        if not self.parameters:
            return []
        title = f"{counted(len(weights), 'weight')} with {sum(info.size for info in weights):,} elements"
        if others:
            title += f"; {counted(others, 'other floating-point initializer')}"
        rows = [
            (info.name, f"{info.dtype}[{', '.join(map(str, info.shape))}]", info.role)
            for info in weights[:LISTED]
        ]
        more = [f"and {len(weights) - LISTED} more"] if len(weights) > LISTED else []
        return ["", title, *indented([*table(rows), *more])]


def problem_lines(problem: str) -> list[str]:
    """Why there is no gradient, in the text form; nothing where there is one."""
    if not problem:
        return []
    lines = f"no gradient: {problem}".splitlines()
    hidden = len(lines) - LISTED
    return ["", *lines[:LISTED], *([f"  and {hidden} more lines (see --json)"] if hidden > 0 else [])]


def accumulation_lines(accumulations: Sequence[AccumulationInfo]) -> list[str]:
    """Where gradients are added up, in the text form."""
    if not accumulations:
        return []
    rows = [
        (info.value, f"{info.contributions} contributions", info.strategy, ", ".join(info.operators[:4]))
        for info in accumulations[:LISTED]
    ]
    hidden = len(accumulations) - LISTED
    more = [f"and {hidden} more"] if hidden > 0 else []
    title = f"gradients accumulate at {counted(len(accumulations), 'value')}"
    return ["", title, *indented([*table(rows), *more])]


def _flops(cost: Cost) -> str:
    return _scaled(cost.flops or 0, "FLOP")


def _bytes(cost: Cost) -> str:
    return _scaled(cost.bytes or 0, "B")


def _scaled(number: int, unit: str) -> str:
    """Such as ``1.23 MFLOP``: three digits and a prefix."""
    value, prefixes = float(number), ["", "k", "M", "G", "T", "P"]
    while value >= 1000 and len(prefixes) > 1:
        value /= 1000
        prefixes.pop(0)
    return f"{value:.3g} {prefixes[0]}{unit}"
