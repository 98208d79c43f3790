"""What a gradient of a Caffe2 model would be: makers, lowerings, where gradients add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.definitions import to_operator
from netgrad.caffe2.gradient_net import GradientNet, gradient_net
from netgrad.caffe2.lowering.registry import LOWERINGS
from netgrad.caffe2.lowering.scopes import CONTROL
from netgrad.caffe2.makers.notation import Refusal
from netgrad.caffe2.makers.registry import Makers, ends_gradients
from netgrad.caffe2.running.compiled_control import compiles
from netgrad.caffe2.running.registry import runner_of
from netgrad.caffe2.saved_model import SavedModel
from netgrad.core import NetgradError, Operator
from netgrad.core.activity import influenced
from netgrad.core.versions import Versions
from netgrad.transforms.inspection import LISTED, AccumulationInfo, accumulation_lines, problem_lines
from netgrad.transforms.text import counted, indented, shortened, table


@dataclass(frozen=True)
class NetOperatorInfo:
    """One operator of a net.

    Attributes:
        type: Operator type.
        name: Its name; often empty.
        inputs: The blobs that it reads.
        outputs: The blobs that it writes.
        gradient: ``maker``, ``ends`` (gradients end here without a word) or ``none``.
        writes: The types of the gradient operators that the maker writes; none where it passes gradients on.
        reason: Why there is no gradient.
        runs: ``onnx``: by ONNX Runtime; ``python``: in Python, in workspaces only; ``not``.
        active: Whether it lies on a differentiable path from ``wrt`` to ``of``.
    """

    type: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    gradient: str
    writes: tuple[str, ...]
    reason: str
    runs: str
    active: bool


@dataclass(frozen=True)
class NetParameterInfo:
    """A parameter of a model: its name, shape and element type as NumPy calls it."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class NetInspection:
    """What `inspect_net` found.

    Attributes:
        wrt: The names to differentiate by.
        of: The names to differentiate.
        inputs: The blobs that the net reads and nobody initializes.
        operators: The operators of the net, in order.
        accumulations: Where gradients are added up.
        parameters: What the net reads and the model holds.
        gradient_operators: How many operators the backward pass has; None if it can't be built.
        problem: Why the gradient can't be built; empty if it can.
    """

    wrt: tuple[str, ...]
    of: tuple[str, ...]
    inputs: tuple[str, ...]
    operators: tuple[NetOperatorInfo, ...]
    accumulations: tuple[AccumulationInfo, ...]
    parameters: tuple[NetParameterInfo, ...]
    gradient_operators: int | None
    problem: str

    def __str__(self) -> str:
        """A page of plain text."""
        size = counted(len(self.operators), "operator")
        if self.gradient_operators is not None:
            size += f", {self.gradient_operators} more for the gradient"
        lines = [
            f"gradient of {', '.join(self.of) or 'nothing'} by {shortened(self.wrt) or 'nothing'}",
            f"size      {size}",
            f"inputs    {', '.join(self.inputs) or 'none'}",
            "",
            *table(self._rows()),
            *self._parameters(),
            *accumulation_lines(self.accumulations),
            *problem_lines(self.problem),
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The inspection as plain data for JSON."""
        return {**asdict(self), "differentiable": not self.problem}

    def _rows(self) -> Sequence[tuple[str, ...]]:
        keys = [(info.type, _gradient(info), info.runs) for info in self.operators]
        counts = Counter(keys)
        active = Counter(key for key, info in zip(keys, self.operators, strict=True) if info.active)
        rows = [("operator", "count", "on the path", "runs", "gradient")]
        rows += [
            (type_, str(count), str(active[type_, gradient, runs]), runs, gradient)
            for (type_, gradient, runs), count in sorted(counts.items())
        ]
        return rows

    def _parameters(self) -> list[str]:
        if not self.parameters:
            return []
        rows = [
            (one.name, f"{one.dtype}[{', '.join(map(str, one.shape))}]") for one in self.parameters[:LISTED]
        ]
        hidden = len(self.parameters) - LISTED
        more = [f"and {hidden} more"] if hidden > 0 else []
        return ["", counted(len(self.parameters), "parameter"), *indented([*table(rows), *more])]


def inspect_net(
    model: SavedModel, *, wrt: Sequence[str] | None = None, of: Sequence[str] | None = None
) -> NetInspection:
    """Say what the gradient of ``of`` by ``wrt`` meets in a Caffe2 model, in Caffe2's terms.

    Works for models whose gradient can't be built, too, and says why it can't.

    Args:
        model: The model.
        wrt: Inputs or parameters; by default the floating-point parameters, or the inputs of a model without.
        of: One or several blobs; by default the net's outputs.

    Raises:
        InvalidModelError: A parameter can't be read.
    """
    parameters = model.parameters
    sources = list(wrt or (name for name, array in parameters.items() if array.dtype.kind == "f"))
    sources = sources or model.inputs
    goals = list(of or model.outputs)
    found: GradientNet | None = None
    problem = ""
    try:
        found = gradient_net(model, wrt=sources, of=goals)
    except NetgradError as error:
        problem = str(error)
    operators = [to_operator(op) for op in model.predict_net.op]
    active = _active(operators, sources, goals)
    return NetInspection(
        wrt=tuple(sources),
        of=tuple(goals),
        inputs=tuple(model.inputs),
        operators=tuple(
            _info(definition, op, index in active)
            for index, (definition, op) in enumerate(zip(model.predict_net.op, operators, strict=True))
        ),
        accumulations=() if found is None else tuple(_accumulations(found)),
        parameters=tuple(
            NetParameterInfo(name, tuple(array.shape), str(array.dtype)) for name, array in parameters.items()
        ),
        gradient_operators=None if found is None else len(found.backward.operators),
        problem=problem,
    )


def _gradient(info: NetOperatorInfo) -> str:
    if info.gradient == "maker":
        return ", ".join(info.writes) or "passed on"
    return "ends here" if info.gradient == "ends" else f"none: {info.reason}"


def _info(definition: OperatorDef, op: Operator, active: bool) -> NetOperatorInfo:
    gradient, writes, reason = _maker(op)
    if compiles(definition) or runner_of(definition) is None:
        runs = "onnx" if op.type in LOWERINGS or op.type in CONTROL else "not"
    else:
        runs = "python"
    return NetOperatorInfo(
        op.type, op.name, tuple(op.inputs), tuple(op.outputs), gradient, writes, reason, runs, active
    )


def _maker(op: Operator) -> tuple[str, tuple[str, ...], str]:
    """What a gradient does at an operator, the operators that its maker writes, why there is no maker."""
    makers = Makers()
    missing = makers.missing(op)
    if missing is not None:
        return "none", (), missing
    if ends_gradients(op.type):
        return "ends", (), ""
    try:
        written, _ = makers.gradient(op, [f"{blob}_grad" for blob in op.outputs], [True] * len(op.inputs))
    except (Refusal, NetgradError) as error:
        return "none", (), str(error)
    return "maker", tuple(one.type for one in written), ""


def _active(operators: Sequence[Operator], sources: Sequence[str], goals: Sequence[str]) -> set[int]:
    """The numbers of the operators on a differentiable path from ``sources`` to ``goals``."""
    versions, makers = Versions(operators), Makers()
    reached = influenced(
        operators, versions, makers, [value for blob in sources for value in versions.values(blob)]
    )
    needed = {versions.last_value(blob) for blob in goals}
    found = set()
    for index in range(len(operators) - 1, -1, -1):
        if needed.isdisjoint(versions.writes[index]):
            continue
        blocked = makers.blocked_inputs(operators[index])
        flows = [
            value
            for at, value in enumerate(versions.reads[index])
            if at not in blocked and value >= 0 and value < len(reached) and reached[value]
        ]
        needed.update(flows)
        if flows:
            found.add(index)
    return found


def _accumulations(found: GradientNet) -> list[AccumulationInfo]:
    forward = found.backward.forward
    return [
        AccumulationInfo(
            one.blob,
            len(one.contributions),
            tuple(
                "start" if part.operator is None else f"{forward[part.operator]}"
                for part in one.contributions
            ),
            one.strategy,
        )
        for one in found.backward.accumulations
    ]
