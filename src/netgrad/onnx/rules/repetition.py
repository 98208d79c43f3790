"""What the gradients of Loop and Scan share: their parts, and which states matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from netgrad.onnx.body import Body
from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.source import OnnxRules
from netgrad.onnx.rules.subgraph import influenced, needed
from netgrad.onnx.view import TensorInfo


@dataclass(frozen=True)
class Repetition:
    """A Loop or a Scan, part by part.

    Attributes:
        op: The operator.
        body: Its body.
        first: Position of the first initial state among the operator's inputs.
        state_inputs: Names of the states in the body, before an iteration.
        state_outputs: Names of the states in the body, after an iteration.
        scan_outputs: Names in the body of what is stacked.
    """

    op: RuleContext
    body: Body
    first: int
    state_inputs: tuple[str, ...]
    state_outputs: tuple[str, ...]
    scan_outputs: tuple[str, ...]

    @property
    def states(self) -> int:
        """Number of states."""
        return len(self.state_inputs)

    @property
    def captured(self) -> list[int]:
        """Positions of the captured values among the operator's inputs, those that are wanted."""
        explicit = len(self.op.inputs) - len(self.body.captured)
        return [k for k in range(explicit, len(self.op.inputs)) if self.op.wants(k)]

    def info(self, name: str) -> TensorInfo:
        """What is known of a value that the body computes or reads, apart from its content."""
        return (self.body.types.get(name) or self.op.rules.types.get(name, TensorInfo())).plain

    def active_states(self, dy: Sequence[Value | None], elements: Sequence[str]) -> list[int]:
        """The states that lie between what is wanted and what has a cotangent.

        Args:
            dy: The cotangents of the operator's outputs.
            elements: Names in the body of the wanted scanned inputs.
        """
        operators = self.body.operators
        rules: OnnxRules = self.op.rules.inside(operators, self.body.types)
        sources = {self.op.operator.inputs[k] for k in self.captured} | set(elements)
        sources.update(name for j, name in enumerate(self.state_inputs) if self.op.wants(self.first + j))
        pairs = list(zip(self.state_inputs, self.state_outputs, strict=True))
        size = -1
        while size != len(sources):  # what one iteration leads to may start something in the next
            size = len(sources)
            reached = influenced(operators, rules, sources)
            sources.update(before for before, after in pairs if after in reached and self._floats(before))
        outputs = [*self.state_outputs, *self.scan_outputs][: len(dy)]
        ends = {name for name, cotangent in zip(outputs, dy, strict=True) if cotangent is not None}
        size = -1
        while size != len(ends):
            size = len(ends)
            before_ends = needed(operators, rules, ends)
            ends.update(after for before, after in pairs if before in before_ends)
        return [j for j, (before, after) in enumerate(pairs) if before in sources and after in ends]

    def _floats(self, name: str) -> bool:
        info = self.info(name)
        return info.dtype is None or info.dtype.is_floating_point()
