"""The values that the states of a Loop or a Scan had before each iteration, and how a gradient reads them.

A tensor is stacked: the forward operator hands it out as scan output. One that is not known to keep its shape
is appended to a sequence, the history, which is carried besides. Sequences cannot be stacked, nor put into
one another; so all tensors of all of them are put one behind the other into a history, and what is stacked is
where each begins in it and how many tensors it has. So are the tensors that optionals hold, with one number
more: whether an optional holds anything. A list to which every iteration appends needs none of that:
backwards, its last tensors are erased.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from netgrad.core.operator import Operator
from netgrad.onnx.body import Body
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.draws import drawing, handed_out
from netgrad.onnx.rules.repetition import Repetition
from netgrad.onnx.rules.subgraph import Draft, Reads
from netgrad.onnx.sequences import empty_sequence, extended, listed, optional_of, part
from netgrad.onnx.view import Dim, Structure, TensorInfo


class SavedState:
    """What the body of a gradient reads to have a state's value before an iteration.

    Attributes:
        names: Formal names of what it reads: a stack, or a history, its places and its lengths.
    """

    def __init__(self, parts: Repetition, reads: Reads, position: int) -> None:
        self._reads = reads
        self._info = parts.info(parts.state_inputs[position])
        self._is_stack = is_stackable(parts, position)
        if self._is_stack:
            self.names: tuple[str, ...] = (reads.add(f"saved_{position}", None),)
        else:
            numbers = [reads.add(f"{what}s_{position}", None) for what in _numbers_of(self._info)]
            self.names = (reads.add(f"history_{position}", None, _listed(self._info)), *numbers)

    def define(self, draft: Draft, name: str, place: Value) -> None:
        """Give ``name`` in the draft the value before iteration ``place``."""
        inner = draft.builder
        values = [inner.value(formal, self._reads.info(formal)) for formal in self.names]
        if self._is_stack:
            draft.define(name, "Gather", [values[0], place], axis=0)
            return
        history, *stacks = values
        if not stacks:
            draft.define(name, "SequenceAt", [history, place])
            return
        first, count, *present = (inner.op("Gather", numbers, place, axis=0) for numbers in stacks)
        tensors = part(inner, history, first, count)
        value = optional_of(inner, [tensors, *present], self._info) if present else tensors
        draft.define(name, "Identity", [value])

    def fill(self, values: Sequence[Value]) -> None:
        """Say what outside of the draft it reads."""
        self._reads.names.update(zip(self.names, values, strict=True))


class GrowingList:
    """A sequence to which every iteration appends equally many tensors, carried backwards by a gradient.

    Attributes:
        name: Formal name, in the body of the gradient, of the sequence after the iteration.
    """

    def __init__(self, reads: Reads, position: int, info: TensorInfo, appended: int) -> None:
        self.name = reads.fresh(f"grown_{position}")
        self._info = info
        self._appended = appended

    def define(self, draft: Draft, name: str, place: Value) -> None:
        """Give ``name`` in the draft the value before the iteration."""
        before = draft.builder.value(self.name, self._info)
        for _ in range(self._appended):
            before = draft.builder.op("SequenceErase", before)
        draft.define(name, "Identity", [before])


def appended_to(parts: Repetition, j: int) -> int | None:
    """How many tensors each iteration appends to state ``j``, if that is all it does to it; else None."""
    if parts.info(parts.state_inputs[j]).structure is not Structure.SEQUENCE:
        return None
    writers = {name: op for op in parts.body.operators for name in op.outputs}
    name, count = parts.state_outputs[j], 0
    while name != parts.state_inputs[j]:
        writer = writers.get(name)
        if writer is None or writer.type not in ("Identity", "SequenceInsert") or any(writer.inputs[2:]):
            return None
        count += writer.type == "SequenceInsert"
        name = writer.inputs[0]
    return count


@dataclass(frozen=True)
class Saved:
    """What was saved.

    Attributes:
        states: Position of a state to what a `SavedState` reads.
        count: A value with as many rows as there were iterations; None if nothing was saved.
    """

    states: dict[int, tuple[Value, ...]]
    count: Value | None


def saved_states(parts: Repetition, wanted: Sequence[int], *, counted: bool = False) -> Saved:
    """The values of states before all iterations, in their order.

    They are outputs of the operator already if it has such outputs; otherwise the operator is run once more,
    with them.

    Args:
        parts: The operator.
        wanted: Positions among its states.
        counted: Whether the iterations have to be counted even if nothing is saved.
    """
    kinds = {j: parts.info(parts.state_inputs[j]) for j in wanted}
    lists = [j for j in wanted if not is_stackable(parts, j)]
    existing = {j: stack for j, stack in _existing(parts).items() if j not in lists}
    absent = [j for j in wanted if j not in lists and j not in existing]
    states: dict[int, tuple[Value, ...]] = {j: (existing[j],) for j in wanted if j in existing}
    count = None
    if absent or lists or (counted and not states):
        again = _Rerun(parts)
        for j in absent:
            again.stack(f"{j}", parts.state_inputs[j])
        for j in lists:
            again.keep_history(j)
        if counted and not again.stacks and not states:
            again.stack("count", parts.body.inputs[0])
        results = again.run()
        states.update((j, (results[f"{j}"],)) for j in absent)
        states.update(
            (j, tuple(results[f"{j}/{what}"] for what in ("history", *_numbers_of(kinds[j])))) for j in lists
        )
        count = results.get("count")
    for j, values in states.items():
        if j not in lists or values[1:]:
            count = values[-1]  # the stack, or the numbers of tensors
    return Saved(states, count)


def _numbers_of(info: TensorInfo) -> tuple[str, ...]:
    """What is stacked of a state that is put into a history; where each tensor is one value, nothing."""
    if info.structure is Structure.TENSOR:
        return ()
    return ("start", "count", "presence") if info.structure.is_optional else ("start", "count")


class _Rerun:
    """The forward operator once more, handing out what is wanted besides."""

    def __init__(self, parts: Repetition) -> None:
        self._parts = parts
        self._inner = Builder(parts.op.builder.opset, "saving")
        self._carried: dict[str, tuple[Value, Value, Value]] = {}  # before the loop, in the body, after
        self._stacked: dict[str, Value] = {}

    @property
    def stacks(self) -> bool:
        """Whether anything is handed out that has a row for each iteration."""
        return bool(self._stacked)

    def stack(self, key: str, name: str) -> None:
        """Hand out the value ``name`` of the body, of all iterations."""
        copy = self._inner.op("Identity", self._inner.value(name, self._parts.info(name)))
        self._stacked[key] = copy

    def keep_history(self, position: int) -> None:
        """Carry a history of a state, and hand out where to find what in it."""
        name = self._parts.state_inputs[position]
        inner, info, tensors = self._inner, self._parts.info(name), _listed(self._parts.info(name))
        state, history = inner.value(name, info), inner.value(f"{name}/history", tensors)
        start = empty_sequence(self._parts.op.builder, tensors)
        if info.structure is Structure.TENSOR:
            longer = inner.op("SequenceInsert", history, state)
            self._carried[f"{position}/history"] = (start, history, longer)
            return
        if info.structure.is_optional:
            self._stacked[f"{position}/presence"] = inner.op("OptionalHasElement", state)
            state = listed(inner, state)
        self._carried[f"{position}/history"] = (start, history, extended(inner, history, state))
        self._stacked[f"{position}/start"] = inner.op("SequenceLength", history)
        self._stacked[f"{position}/count"] = inner.op("SequenceLength", state)

    def run(self) -> dict[str, Value]:
        """Write the operator; what it hands out, by key."""
        _check_draws(self._parts)
        parts, carried, stacked = self._parts, list(self._carried.values()), list(self._stacked.values())
        body, op = parts.body, parts.op
        known = [*stacked, *(value for _, *inside in carried for value in inside)]
        inputs = parts.first + parts.states  # a Loop's counter and condition are no outputs of it
        outputs = len(body.outputs) - len(parts.scan_outputs)
        changed = Body(
            _inserted(body.inputs, inputs, [before.name for _, before, _ in carried]),
            (
                *_inserted(body.outputs, outputs, [after.name for *_, after in carried]),
                *(value.name for value in stacked),
            ),
            body.captured,
            (*body.operators, *self._inner.operators),
            {**body.types, **{value.name: value.info.plain for value in known}},
        )
        attributes = {**op.operator.attributes, "body": changed}
        for name in ("scan_output_axes", "scan_output_directions"):
            if name in attributes:
                attributes[name] = [*attributes[name], *(0 for _ in stacked)]
        given = _inserted(op.operator.inputs, inputs, [start.name for start, *_ in carried])
        infos = [TensorInfo() if value is None else value.info for value in op.outputs]
        infos[parts.states : parts.states] = [after.info.plain for *_, after in carried]
        infos += [_stack_of(value.info) for value in stacked]
        results = op.builder.written(Operator(op.operator.type, given, (), attributes), infos)
        found = dict(zip(self._carried, results[parts.states :], strict=False))
        found.update(zip(self._stacked, results[len(results) - len(stacked) :], strict=True))
        return found


def _check_draws(parts: Repetition) -> None:
    drawn = drawing(parts.op.operator, parts.op.rules.types)
    if drawn is not None:
        raise parts.op.refuse(
            f"the backward pass runs it once more, and {drawn.type} '{drawn.name}' would draw other numbers",
            "draw the numbers outside and let the graph read them; export dropout in inference mode",
        )


def _inserted(names: Sequence[str], place: int, new: Sequence[str]) -> tuple[str, ...]:
    return (*names[:place], *new, *names[place:])


def _stack_of(info: TensorInfo) -> TensorInfo:
    return TensorInfo(info.dtype, None if info.shape is None else (None, *info.shape))


def _existing(parts: Repetition) -> dict[int, Value]:
    """States that the body hands out as they come: outputs of the operator that stack them."""
    copies = {
        copy.outputs[0]: copy.inputs[0]
        for copy in parts.body.operators
        if copy.type == "Identity" and not copy.domain
    }
    found: dict[int, Value] = {}
    for k, name in enumerate(parts.scan_outputs):
        value = parts.op.optional_output(parts.states + k)
        source = copies.get(name)
        if value is not None and source in parts.state_inputs and _is_plain(parts, k):
            found.setdefault(parts.state_inputs.index(source), value)
    return found


def given_draws(parts: Repetition) -> dict[str, Value]:
    """The random draws in the body that the operator hands out: their names, and the stacks of them."""
    found: dict[str, Value] = {}
    for name, k in handed_out(parts.body, parts.scan_outputs, parts.op.rules.types):
        stack = parts.op.optional_output(parts.states + k)
        if stack is not None and _is_plain(parts, k):
            found.setdefault(name, stack)
    return found


def _is_plain(parts: Repetition, k: int) -> bool:
    """Whether scan output ``k`` is stacked along its first axis, in the order of the iterations."""
    axes = parts.op.attribute("scan_output_axes") or []
    directions = parts.op.attribute("scan_output_directions") or []
    return not any(axes[k : k + 1]) and not any(directions[k : k + 1])


def is_stackable(parts: Repetition, j: int) -> bool:
    """Whether state ``j`` is a tensor that keeps its shape, or that the body stacks itself."""
    before, after = (parts.info(names[j]) for names in (parts.state_inputs, parts.state_outputs))
    if before.structure is not Structure.TENSOR:
        return False
    if parts.op.operator.type == "Scan":  # which may not carry anything else
        return True
    return keeps_shape(before.shape, after.shape) or j in _existing(parts)


def keeps_shape(before: Sequence[Dim] | None, after: Sequence[Dim] | None) -> bool:
    """Whether a carried value of these dims before and after an iteration is known to keep its shape."""
    if before is None or after is None or None in before:
        return False
    return tuple(before) == tuple(after)


def _listed(info: TensorInfo) -> TensorInfo:
    """What is known of a sequence of the tensors of a value."""
    return replace(info, structure=Structure.SEQUENCE)
