"""The backward pass of a graph inside an operator, and the writing of operators that hold graphs.

The gradient of an operator with bodies (If, Loop, Scan) is again an operator with bodies. Each of its bodies
computes one body of the forward operator again, from what that body read, and then its backward pass. So
nothing has to be handed out of a branch that may never run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import onnx_ir as ir

from netgrad.core.backward import backward_pass
from netgrad.core.operator import Operator
from netgrad.onnx.body import Body, bodies, captured_of, live
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.half import working_type
from netgrad.onnx.infer import infer_node
from netgrad.onnx.names import NameAuthority
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.draws import drawing, with_given_draws
from netgrad.onnx.rules.source import OnnxRules
from netgrad.onnx.rules.vocabulary import OnnxVocabulary
from netgrad.onnx.sequence_sums import add_to_single_tensors
from netgrad.onnx.sequences import cast, zeros_like
from netgrad.onnx.sequences import total as sum_of
from netgrad.onnx.view import TensorInfo


class Draft:
    """One body of a gradient operator while it is written.

    Args:
        op: The forward operator.
        body: The body of it that is differentiated.
        reads: Formal names under which the draft reads values from outside, shared by all drafts of one
            gradient operator; what the forward body reads is among them.

    Attributes:
        builder: Writes what comes before and after the backward pass.
        inputs: Names of the inputs of the draft.
        outputs: Names of its outputs.
        types: What is known of every value in it, by name.
    """

    def __init__(self, op: RuleContext, body: Body, reads: Reads) -> None:
        self._op = op
        self._body = body
        self._reads = reads
        self.builder = Builder(op.builder.opset, reads.fresh("gradient"))
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.types: dict[str, TensorInfo] = dict(body.types)
        self._operators: list[Operator] = []
        self._forward = 0
        self._given: set[str] = set()

    def input(self, name: str, info: TensorInfo) -> Value:
        """A new input of the draft."""
        self.inputs.append(name)
        self.types[name] = info
        return self.builder.value(name, info)

    def output(self, gradient: Value | None, like: str) -> None:
        """Give out the gradient of the value ``like``: zeros where there is none."""
        primal = self.value(like)
        result = zeros_like(self.builder, primal) if gradient is None else gradient
        self.hand_on(result, primal)

    def add_to(self, total: Value, gradient: Value | None) -> None:
        """Give out ``total``, an input of the draft, with one more contribution."""
        if gradient is not None:
            assert total.dtype is not None, "what has a gradient is of known type"
            gradient = cast(self.builder, gradient, total.dtype)
            total = self.builder.assume_like(sum_of(self.builder, [total, gradient]), total)
        self.hand_on(total, total)

    def hand_on(self, value: Value, like: Value) -> None:
        """Give out ``value``, which is of the type of ``like``."""
        self.outputs.append(value.name)
        self.types[value.name] = like.info.plain

    def value(self, name: str) -> Value:
        """A value that the draft computes or reads."""
        info = self.types.get(name)
        return self.builder.value(name, self._reads.info(name) if info is None else info)

    def define(self, name: str, op_type: str, inputs: Iterable[Value], **attributes: int) -> None:
        """Give a value of the forward body its content, before the backward pass is written."""
        self._flush()
        names = tuple(value.name for value in inputs)
        self._operators.append(Operator(op_type, names, (name,), attributes))

    def give(self, drawn: str) -> None:
        """Take a random draw of the forward body as given: as an input, or by `define`."""
        self._given.add(drawn)

    def differentiate(self, cotangents: Mapping[str, Value], wrt: Collection[str]) -> dict[str, Value]:
        """Write the forward body and its backward pass.

        Args:
            cotangents: Output of the forward body to its cotangent (see `arrive`).
            wrt: Names to differentiate by.

        Returns:
            The gradients; names without influence are missing.
        """
        self._flush()
        targets = {output: self._reads.fresh(f"target_{k}") for k, output in enumerate(cotangents)}
        # One operator more per output: a body may give a value twice, or one that it was given.
        writer = Builder(self.builder.opset, self._reads.fresh("dropped"))
        operators, written = with_given_draws(
            self._body.operators, self._given, {**self._op.rules.types, **self.types}, writer
        )
        self.types.update(written)
        operators += [Operator("Identity", (output,), (target,)) for output, target in targets.items()]
        known = {**{name: self._reads.info(name) for name in self._reads.names}, **self.types}
        for output, target in targets.items():
            known[target] = known.get(output, TensorInfo()).plain
        for output, cotangent in cotangents.items():
            known.setdefault(cotangent.name, known.get(output, TensorInfo()))
        rules = self._op.rules.inside(operators, known)
        operators, added = _with_needed_outputs(operators, rules, wrt, targets.values(), self._reads)
        if added:
            self.types.update(added)
            rules = self._op.rules.inside(operators, {**known, **added})
        result = backward_pass(
            operators,
            {targets[output]: cotangent.name for output, cotangent in cotangents.items()},
            rules,
            wrt=wrt,
            accumulation="auto",
            vocabulary=OnnxVocabulary(rules.cotangent_types, rules.opset),
            single_assignment=True,
            reserved=self._reads.taken,
        )
        self._operators += operators
        self._forward = len(self._operators)
        self._check_random(result.operators)
        self._operators += result.operators
        self._reads.taken.update(name for op in result.operators for name in op.outputs)
        gradients: dict[str, Value] = {}
        for name in wrt:
            gradient = result.gradients.get(name)
            if gradient is not None:
                found = self.builder.value(str(gradient), known.get(name, TensorInfo()).plain)
                found.shape_owner = name
                gradients[name] = found
        return gradients

    def _check_random(self, backward: Sequence[Operator]) -> None:
        """Refuse a body whose backward pass needs a random number that was drawn in the forward run."""
        everything = [*self._operators, *backward]
        for index in live(everything, {name for op in backward for name in op.outputs}):
            if (
                index < self._forward
                and (drawn := drawing(everything[index], self._op.rules.types)) is not None
            ):
                raise self._op.refuse(
                    f"the backward pass computes the graph inside it again, and {drawn.type} "
                    f"'{drawn.name}' would draw other numbers",
                    "draw the numbers outside and let the graph read them; export dropout in inference mode",
                )

    def _flush(self) -> None:
        self._operators += self.builder.operators
        self.builder.operators.clear()

    def finish(self) -> tuple[list[Operator], set[str]]:
        """The operators that its outputs need, and all names that these and the outputs read."""
        self._flush()
        shortened = add_to_single_tensors(self._operators, self.outputs, self._reads.taken)
        operators = [op for op, _ in shortened]
        kept = [operators[index] for index in live(operators, self.outputs)]
        read = {name for op in kept for name in op.inputs if name}
        return kept, read | set(self.outputs)


class Reads:
    """What the bodies of one gradient operator read from outside, by the names they use for it.

    Attributes:
        names: Formal name to the value outside; None for one that is not known yet.
        taken: Names that a new one must differ from.
    """

    def __init__(self, op: RuleContext) -> None:
        captured = captured_of(op.operator)
        explicit = len(op.inputs) - len(captured)
        self.names: dict[str, Value | None] = dict(zip(captured, op.inputs[explicit:], strict=True))
        inside = (name for body in bodies(op.operator) for name in _names_in(body))
        self._free = NameAuthority([*inside, *captured])
        self.taken = self._free.taken
        self._infos: dict[str, TensorInfo] = {}

    def fresh(self, wish: str) -> str:
        """A name that no value in the bodies has."""
        return self._free.unique(wish)

    def add(self, wish: str, value: Value | None, info: TensorInfo | None = None) -> str:
        """Read one more value from outside; ``info`` is what is known of it inside."""
        name = self.fresh(wish)
        self.names[name] = value
        if info is not None:
            self._infos[name] = info
        return name

    def info(self, name: str) -> TensorInfo:
        """What is known of a value from outside."""
        value = self.names.get(name)
        return self._infos.get(name, TensorInfo() if value is None else value.info)


def write(
    op: RuleContext,
    op_type: str,
    explicit: Sequence[Value | None],
    drafts: Mapping[str, Draft],
    reads: Reads,
    infos: Sequence[TensorInfo],
    **attributes: object,
) -> tuple[Value, ...]:
    """Write the gradient operator.

    Args:
        op: The forward operator.
        op_type: Type of the gradient operator.
        explicit: Its inputs.
        drafts: Attribute name to body.
        reads: What the bodies read from outside; by now all of it that is read must be known.
        infos: Types of its outputs.
        attributes: Its other attributes; None means: leave it at its default.
    """
    finished = {name: draft.finish() for name, draft in drafts.items()}
    read = set().union(*(names for _, names in finished.values()))
    captured = {name: value for name, value in reads.names.items() if name in read}
    assert None not in captured.values(), "what is read is known"
    formal = tuple(captured)
    made = {
        name: Body(tuple(draft.inputs), tuple(draft.outputs), formal, tuple(finished[name][0]), draft.types)
        for name, draft in drafts.items()
    }
    names = [value.name if value is not None else "" for value in (*explicit, *captured.values())]
    given = {name: value for name, value in attributes.items() if value is not None}
    return op.builder.written(Operator(op_type, names, (), {**made, **given}), infos)


def influenced(operators: Sequence[Operator], rules: OnnxRules, sources: Collection[str]) -> set[str]:
    """``sources`` and all that they influence differentiably."""
    found = set(sources)
    for op in operators:
        if found.isdisjoint(op.inputs):
            continue
        blocked = rules.blocked_inputs(op)
        if any(name in found and k not in blocked for k, name in enumerate(op.inputs)):
            found.update(name for name in op.outputs if name)
    return found


def needed(operators: Sequence[Operator], rules: OnnxRules, targets: Collection[str]) -> set[str]:
    """``targets`` and all that influences them differentiably."""
    found = set(targets)
    for op in reversed(operators):
        if not found.isdisjoint(op.outputs):
            blocked = rules.blocked_inputs(op)
            found.update(name for k, name in enumerate(op.inputs) if name and k not in blocked)
    return found


def _names_in(body: Body) -> set[str]:
    names = {*body.inputs, *body.outputs}
    for op in body.operators:
        names.update(op.inputs, op.outputs)
    return names


def _with_needed_outputs(
    operators: Sequence[Operator],
    rules: OnnxRules,
    wrt: Collection[str],
    targets: Collection[str],
    reads: Reads,
) -> tuple[list[Operator], dict[str, TensorInfo]]:
    """The operators with the optional outputs that rules on the active path read, and those outputs."""
    active = influenced(operators, rules, wrt) & needed(operators, rules, targets)
    result: list[Operator] = []
    added: dict[str, TensorInfo] = {}
    for op in operators:
        count = 0 if active.isdisjoint(op.outputs) else rules.needed_outputs(op)
        outputs = list(op.outputs) + [""] * (count - len(op.outputs))
        absent = [k for k in range(count) if not outputs[k]]
        if absent:
            inputs = [rules.types.get(name, TensorInfo()) if name else None for name in op.inputs]
            infos = infer_node(op.type, op.domain, rules.opset, inputs, op.attributes, len(outputs))
            for k in absent:
                outputs[k] = reads.fresh(f"{outputs[0] or op.type}_output_{k}")
                added[outputs[k]] = infos[k]
            op = replace(op, outputs=tuple(outputs))
        result.append(op)
    return result, added


def arrive(builder: Builder, cotangents: dict[str, Value], name: str, cotangent: Value) -> None:
    """Add a cotangent to those of the forward body's outputs; a body may give one value several times."""
    cotangents[name] = sum_of(builder, [cotangents[name], cotangent]) if name in cotangents else cotangent


def sum_type(info: TensorInfo) -> TensorInfo:
    """What the gradient of a value is summed in over many iterations: half precision would stall."""
    if info.dtype is None or info.structure.is_optional:
        return info.plain
    return TensorInfo(working_type(info.dtype), info.shape, structure=info.structure)


def zero_sum(op: RuleContext, k: int) -> Value:
    """What the sum of the gradients of input ``k`` starts with."""
    zeros = zeros_like(op.builder, op.required(k))
    dtype = sum_type(zeros.info).dtype
    assert dtype is not None, "what has a gradient is of known type"
    return cast(op.builder, zeros, dtype)


def index_type() -> TensorInfo:
    """A 0-d int64."""
    return TensorInfo(ir.DataType.INT64, ())
