"""What the gradients of Loop and Scan share: which states matter, and where their values were saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from netgrad.core.operator import Operator
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
        info = self.body.types.get(name) or self.op.rules.types.get(name, TensorInfo())
        return TensorInfo(info.dtype, info.shape)

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

    def saved(self, wanted: Sequence[int]) -> dict[int, Value]:
        """For each of the wanted states, its values before all iterations, stacked in their order.

        They are outputs of the operator already if it has such outputs; otherwise the operator is run once
        more, with them.

        Args:
            wanted: Positions among the states.

        Raises:
            UnsupportedOperatorError: A state changes its shape, so that its values can't be stacked.
        """
        if not wanted:
            return {}
        for j in wanted:
            self._check_stackable(j)
        existing = self._existing()
        if all(j in existing for j in wanted):
            return {j: existing[j] for j in wanted}
        names = {j: f"{self.state_inputs[j]}/saved" for j in wanted}
        copies = tuple(Operator("Identity", (self.state_inputs[j],), (names[j],)) for j in wanted)
        types = {**self.body.types, **{names[j]: self.info(self.state_inputs[j]) for j in wanted}}
        body = Body(
            self.body.inputs,
            (*self.body.outputs, *names.values()),
            self.body.captured,
            (*self.body.operators, *copies),
            types,
        )
        attributes = {**self.op.operator.attributes, "body": body}
        for name in ("scan_output_axes", "scan_output_directions"):
            if name in attributes:
                attributes[name] = [*attributes[name], *(0 for _ in wanted)]
        again = Operator(self.op.operator.type, self.op.operator.inputs, (), attributes)
        infos = [TensorInfo() if value is None else value.info for value in self.op.outputs]
        for j in wanted:
            info = self.info(self.state_inputs[j])
            infos.append(TensorInfo(info.dtype, None if info.shape is None else (None, *info.shape)))
        results = self.op.builder.written(again, infos)
        return dict(zip(wanted, results[-len(wanted) :], strict=True))

    def _existing(self) -> dict[int, Value]:
        """States that the body hands out as they come: outputs of the operator that stack them."""
        copies = {
            copy.outputs[0]: copy.inputs[0]
            for copy in self.body.operators
            if copy.type == "Identity" and not copy.domain
        }
        found: dict[int, Value] = {}
        for k, name in enumerate(self.scan_outputs):
            value = self.op.optional_output(self.states + k)
            source = copies.get(name)
            if value is not None and source in self.state_inputs and self._is_plain(k):
                found.setdefault(self.state_inputs.index(source), value)
        return found

    def _is_plain(self, k: int) -> bool:
        """Whether scan output ``k`` is stacked along its first axis, in the order of the iterations."""
        axes = self.op.attribute("scan_output_axes") or []
        directions = self.op.attribute("scan_output_directions") or []
        return not any(axes[k : k + 1]) and not any(directions[k : k + 1])

    def _floats(self, name: str) -> bool:
        info = self.info(name)
        return info.dtype is None or info.dtype.is_floating_point()

    def _check_stackable(self, j: int) -> None:
        before, after = self.state_inputs[j], self.state_outputs[j]
        old, new = self.info(before).shape, self.info(after).shape
        if old is None or new is None:
            return
        pairs = zip(old, new, strict=False)
        changed = any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)
        if changed or len(old) != len(new):
            raise self.op.refuse(
                f"the carried value '{before}' changes its shape from {old} to {new}, so that its "
                f"values before all iterations cannot be stacked",
                "give it its final shape from the start, or hand out what is new as scan output",
            )
