"""What a gradient of a model would be: which operators have one, where it accumulates, what it costs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import onnx_ir

from netgrad.core.errors import NetgradError
from netgrad.core.operator import Operator
from netgrad.onnx.expand import has_definition
from netgrad.onnx.lowering.lower import refusal_of
from netgrad.onnx.prepare import prepare
from netgrad.onnx.read import ModelSource, load
from netgrad.onnx.rules.choices import GradientChoices, choices_of
from netgrad.onnx.rules.declaration import Kind, Origin
from netgrad.onnx.rules.results import infer_results
from netgrad.onnx.rules.source import OnnxRules
from netgrad.onnx.shapes import infer_shapes
from netgrad.onnx.view import FLOATING, name_of, operators_of, subgraphs, value_types
from netgrad.onnx.weights import initializer_roles
from netgrad.runtime.tensors import dtype_name
from netgrad.transforms.cost import Cost, cost_of, total
from netgrad.transforms.grad import Gradient, differentiate
from netgrad.transforms.gradient_nodes import lower_gradients
from netgrad.transforms.inspection import AccumulationInfo, Differentiability, OperatorInfo, ParameterInfo
from netgrad.transforms.inspection import Inspection as Inspection
from netgrad.transforms.select import as_names, check_float_values

_KINDS = {
    Kind.RULE: Differentiability.RULE,
    Kind.PIECEWISE_CONSTANT: Differentiability.PIECEWISE_CONSTANT,
    Kind.NOT_DIFFERENTIABLE: Differentiability.NOT_DIFFERENTIABLE,
    Kind.NOT_IMPLEMENTED: Differentiability.NOT_IMPLEMENTED,
}

_ORIGINS = {
    Origin.USER: Differentiability.USER,
    Origin.STOPPED: Differentiability.STOPPED,
    Origin.STRAIGHT_THROUGH: Differentiability.STRAIGHT_THROUGH,
}


def inspect(
    model: ModelSource,
    *,
    wrt: str | Iterable[str] | None = None,
    of: str | Sequence[str] | None = None,
    gradients: GradientChoices | None = None,
    straight_through: bool = False,
) -> Inspection:
    """Say what the gradient of ``of`` with respect to ``wrt`` meets in a model, and what it costs.

    Works for models whose gradient cannot be built, too, and says why it cannot.

    Args:
        model: A path, bytes, an `onnx.ModelProto` or an `onnx_ir.Model`; it is not changed.
        wrt: Inputs, initializers or inner values; by default every weight, or every floating-point input of a
            model without weights.
        of: One or several outputs; by default every floating-point output.
        gradients: See `netgrad.grad`.
        straight_through: See `netgrad.grad`.

    Raises:
        InvalidModelError: The model cannot be read.
        InvalidArgumentError: A name is unknown, or is no floating-point tensor.
    """
    named = [] if wrt is None else as_names(wrt, "wrt")
    goals = [] if of is None else as_names(of, "of")
    choices = choices_of(gradients, straight_through)
    loaded = load(model)
    prepared = prepare(loaded, keep=[*named, *goals], opaque=choices.opaque())
    lower_gradients(prepared.model)
    graph = prepared.model.graph
    check_float_values(graph, named, "wrt")
    check_float_values(graph, goals, "of")
    roles = {entry.name: entry for entry in initializer_roles(prepared.model)}
    sources = named or [name for name, entry in roles.items() if entry.is_weight] or _floats(graph.inputs)
    targets = goals or _floats(graph.outputs)

    imports = prepared.model.opset_imports
    rules = OnnxRules({}, imports[""], choices, imports=imports)
    infer_results(prepared.model, rules.declaration)
    rules = rules.over(operators_of(graph), value_types(graph, sources))
    operators = _operators(graph, rules, sources, targets)
    forward_cost, uncounted = total([info.cost for info in operators])
    gradient: Gradient | None = None
    gradient_cost: Cost | None = None
    problem = "the model has no floating-point output" if not targets else ""
    if not sources:
        problem = "the model has no weight and no floating-point input"
    if not problem:
        try:
            gradient = differentiate(loaded, wrt=sources, of=targets, choices=choices)
        except NetgradError as error:
            problem = str(error)
    if gradient is not None:
        infer_shapes(gradient.model)
        gradient_cost, uncounted = total([cost_of(node) for node in gradient.model.graph.all_nodes()])
    return Inspection(
        wrt=tuple(sources),
        of=tuple(targets),
        operators=tuple(operators),
        accumulations=() if gradient is None else tuple(_accumulations(gradient)),
        parameters=tuple(
            ParameterInfo(
                name,
                _shape(graph.initializers[name]),
                dtype_name(graph.initializers[name].dtype),
                entry.role,
                entry.is_weight,
                entry.reason,
            )
            for name, entry in roles.items()
        ),
        given_nodes=_count(loaded),
        prepared_nodes=_count(prepared.model),
        gradient_nodes=None if gradient is None else _count(gradient.model),
        forward_cost=forward_cost,
        gradient_cost=gradient_cost,
        uncounted=uncounted,
        actions=prepared.actions if gradient is None else gradient.actions,
        problem=problem,
    )


def _shape(initializer: onnx_ir.Value) -> tuple[int, ...]:
    tensor = initializer.const_value
    assert tensor is not None, "an initializer has content"
    return tuple(int(dim) for dim in tensor.shape.numpy())


def _count(model: onnx_ir.Model) -> int:
    return sum(1 for _ in model.graph.all_nodes())


def _node(op: Operator) -> str:
    return f"{op.type} '{op.name}'"


def _floats(values: Iterable[onnx_ir.Value]) -> list[str]:
    return [value.name for value in values if value.name and value.dtype in FLOATING]


def _operators(
    graph: onnx_ir.Graph,
    rules: OnnxRules,
    sources: Collection[str],
    targets: Collection[str],
    inside: str = "",
) -> list[OperatorInfo]:
    """The operators of a graph, each followed by those of the graphs inside it."""
    operators = operators_of(graph)
    reached, active = _active(operators, rules, sources, targets)
    found: list[OperatorInfo] = []
    for node, op in zip(graph, operators, strict=True):
        declared = rules.declaration(op)
        kind = f"{op.domain}::{op.type}" if op.domain else op.type
        on_path = any(name in active for name in op.outputs if name)
        found.append(
            OperatorInfo(
                kind,
                op.name,
                _differentiability(node, op, rules),
                on_path,
                refusal_of(node) if declared is None else declared.reason,
                "" if declared is None else declared.source,
                cost_of(node),
                inside,
            )
        )
        for inner in subgraphs(node):
            known = rules.over(operators_of(inner), {**rules.types, **value_types(inner)})
            # What a body is given may depend on anything that its operator depends on.
            given = {*reached, *(name_of(value) for value in inner.inputs)} if on_path else set()
            ends = [
                name_of(value)
                for k, value in enumerate(inner.outputs)
                if node.op_type != "If" or node.outputs[k].name in active
            ]
            found += _operators(inner, known, given, ends, node.name or "")
    return found


def _differentiability(node: onnx_ir.Node, op: Operator, rules: OnnxRules) -> Differentiability:
    declared = rules.declaration(op)
    if declared is not None:
        return _ORIGINS.get(declared.origin) or _KINDS[declared.kind]
    if op.inputs and len(set(rules.blocked_inputs(op))) == len(op.inputs):
        return Differentiability.NOT_DIFFERENTIABLE  # it has to do with integers only
    if has_definition(node, rules.opset):
        return Differentiability.EXPANDED
    return Differentiability.MISSING


def _active(
    operators: Sequence[Operator], rules: OnnxRules, sources: Collection[str], targets: Collection[str]
) -> tuple[set[str], set[str]]:
    """Values on a differentiable path from ``sources``, and those of them on one to ``targets``: names."""
    open_inputs = []
    for op in operators:
        blocked = set(rules.blocked_inputs(op))
        open_inputs.append([name for k, name in enumerate(op.inputs) if name and k not in blocked])
    reached = set(sources)
    for op, inputs in zip(operators, open_inputs, strict=True):
        if any(name in reached for name in inputs):
            reached.update(name for name in op.outputs if name)
    needed = set(targets)
    for op, inputs in zip(reversed(operators), reversed(open_inputs), strict=True):
        if any(name in needed for name in op.outputs):
            needed.update(inputs)
    return reached, reached & needed


def _accumulations(gradient: Gradient) -> list[AccumulationInfo]:
    found = []
    for accumulation in gradient.backward.accumulations:
        contributors = tuple(
            "start" if part.operator is None else _node(gradient.forward[part.operator])
            for part in accumulation.contributions
        )
        found.append(
            AccumulationInfo(
                accumulation.blob, len(accumulation.contributions), contributors, accumulation.strategy
            )
        )
    return found
