"""The gradient of an ONNX model as an ONNX model."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import onnx_ir as ir

from netgrad.core.backward import backward_pass
from netgrad.core.errors import InvalidArgumentError, NetgradWarning
from netgrad.core.operator import Operator
from netgrad.core.result import BackwardPass
from netgrad.onnx.inline import drop_uncalled
from netgrad.onnx.names import NameAuthority
from netgrad.onnx.prepare import prepare
from netgrad.onnx.read import ModelSource
from netgrad.onnx.rules.choices import NONE_CHOSEN, Choices, GradientChoices, choices_of
from netgrad.onnx.rules.results import infer_results
from netgrad.onnx.rules.source import OnnxRules
from netgrad.onnx.rules.vocabulary import OnnxVocabulary
from netgrad.onnx.shapes import infer_shapes
from netgrad.onnx.view import all_names, operators_of, value_types, values_of
from netgrad.onnx.weights import weight_names
from netgrad.transforms.composites import between, expand_composites
from netgrad.transforms.drawn import drop_unread_draws, save_draws
from netgrad.transforms.emit import Emitter, emit_all, provenance_of_backward
from netgrad.transforms.gradient_nodes import lower_gradients
from netgrad.transforms.outputs import add_needed_outputs, drop_unread
from netgrad.transforms.saved import drop_unread_states, save_states
from netgrad.transforms.select import as_names, check_float_values, targets_of

Cotangent = Literal["ones", "input"]
Accumulation = Literal["auto", "sum", "running", "fused"]


@dataclass(frozen=True)
class Gradient:
    """A gradient model and how it came about.

    Attributes:
        model: The model with its backward pass.
        outputs: Gradient output of each name in ``wrt``, in order.
        seeds: Cotangent input of each name in ``of``; empty with ``cotangent="ones"``.
        forward: The prepared forward operators.
        backward: The backward pass over them.
        actions: What was done to the model before, a line each.
        rules: The registry that was asked, with what it knows of every value.
        unreached: Names in ``wrt`` that do not influence ``of``.
    """

    model: ir.Model
    outputs: dict[str, str]
    seeds: dict[str, str]
    forward: tuple[Operator, ...]
    backward: BackwardPass
    actions: tuple[str, ...]
    rules: OnnxRules
    unreached: tuple[str, ...]


def grad(
    model: ModelSource,
    *,
    wrt: str | Iterable[str] | None = None,
    of: str | Sequence[str] | None = None,
    cotangent: Cotangent = "ones",
    accumulation: Accumulation = "auto",
    gradients: GradientChoices | None = None,
    straight_through: bool = False,
) -> ir.Model:
    """Add the gradient of ``of`` with respect to ``wrt`` to a model.

    The new model keeps the outputs of the given one and adds, for each name in ``wrt``, an output
    ``<name>_grad`` of the same shape and element type; a taken name gets a numbered suffix. It consists of
    standard operators, so it can be saved, run, and differentiated again.

    Args:
        model: A path, bytes, an `onnx.ModelProto` or an `onnx_ir.Model`; it is not changed.
        wrt: Graph inputs, initializers or other floating-point values; by default every weight.
        of: The output to differentiate, or several, whose gradients add up; by default the only one.
        cotangent: ``"ones"``: the objective is the sum of all elements of ``of``. ``"input"``: it is
            ``sum(of * <of>_grad)``, where ``<of>_grad`` is a new model input of the shape of ``of``.
        accumulation: How gradients of a value with several uses are added (see `backward_pass`).
        gradients: What a gradient does at single nodes or at all operators of a type, by node name or
            operator type (``"domain::type"`` outside the standard): ``"stop"``: it ends there.
            ``"straight-through"``: the cotangent of the first output goes on unchanged to the first
            floating-point input. A function: it is the gradient rule (see `netgrad.rule`); where it returns
            None for an input, the gradient ends. A node goes before its type.
        straight_through: Whether cotangents pass straight through rounding: Ceil, Floor, Round, Sign,
            Hardmax, and QuantizeLinear and DynamicQuantizeLinear with the DequantizeLinear behind them, and
            products of quantised numbers between these. Where QuantizeLinear saturates nothing passes; its
            scale gets the gradient of a learned step size.
            Without it, they are constant almost everywhere and give no gradient.

    Returns:
        The model with its backward pass.

    Raises:
        InvalidModelError: The model cannot be read.
        InvalidArgumentError: A name is unknown or has no gradient.
        UnsupportedOperatorError: Operators between ``wrt`` and ``of`` have no rule; all are named.

    Warns:
        NetgradWarning: A name in ``wrt`` does not influence ``of``; its gradient is zeros.
    """
    result = differentiate(
        model,
        wrt=wrt,
        of=of,
        cotangent=cotangent,
        accumulation=accumulation,
        choices=choices_of(gradients, straight_through),
    )
    for name in result.unreached:
        warnings.warn(
            f"'{name}' does not influence what is differentiated: its gradient is zeros",
            NetgradWarning,
            stacklevel=2,
        )
    return result.model


def differentiate(
    model: ModelSource,
    *,
    wrt: str | Iterable[str] | None = None,
    of: str | Sequence[str] | None = None,
    cotangent: Cotangent = "ones",
    accumulation: Accumulation = "auto",
    choices: Choices = NONE_CHOSEN,
) -> Gradient:
    """`grad` with an account of what was done; the arguments and errors are those of `grad`.

    Args:
        model: See `grad`.
        wrt: See `grad`.
        of: See `grad`.
        cotangent: See `grad`.
        accumulation: See `grad`.
        choices: ``gradients`` and ``straight_through`` of `grad` (see `choices_of`).
    """
    if cotangent not in ("ones", "input"):
        raise InvalidArgumentError(f"`cotangent` is {cotangent!r}; it can be 'ones' or 'input'")
    named = [] if wrt is None else as_names(wrt, "wrt")
    keep = [*named, *([] if of is None else as_names(of, "of"))]
    prepared = prepare(model, keep=keep, opaque=choices.opaque())
    graph = prepared.model.graph
    actions = [*prepared.actions, *lower_gradients(prepared.model)]
    targets = targets_of(graph, of)
    names = named or weight_names(prepared.model)
    if not names:
        raise InvalidArgumentError(
            "the model has no weights to differentiate by default",
            hint="name inputs or initializers in `wrt`",
        )
    check_float_values(graph, names, "wrt")

    imports = prepared.model.opset_imports
    opset = imports[""]
    rules = OnnxRules(value_types(graph, names), opset, choices, imports=imports)
    infer_results(prepared.model, rules.declaration)
    expanded = expand_composites(prepared.model, names, targets, rules)
    if expanded:
        infer_shapes(prepared.model)
        actions += expanded

    if choices:
        choices.verify(operators_of(graph))
    rules = OnnxRules(value_types(graph, names), opset, choices, imports=imports)
    active = between(graph, names, targets)
    added = add_needed_outputs(graph, rules, active)
    saved, drawn = save_states(graph, active), save_draws(graph, active)
    types = value_types(graph, names)
    operators = operators_of(graph)
    rules = rules.over(operators, types)
    free = NameAuthority(all_names(graph))
    seeds = {name: free.unique(f"{name}_grad") for name in targets} if cotangent == "input" else {}
    backward = backward_pass(
        operators,
        {name: seeds.get(name) for name in targets},
        rules,
        wrt=names,
        accumulation=accumulation,
        vocabulary=OnnxVocabulary(rules.cotangent_types, opset),
        single_assignment=True,
        reserved=free.taken,
    )
    outputs, unreached = _write(prepared.model, names, seeds, operators, backward, rules)
    drop_unread(added)
    drop_unread_states(saved)
    drop_unread_draws(drawn)
    drop_uncalled(prepared.model)
    for node in graph:
        imports.setdefault("" if node.domain == "ai.onnx" else node.domain, 1)  # of another set, by a rule
    return Gradient(
        prepared.model,
        outputs,
        seeds,
        tuple(operators),
        backward,
        tuple(actions),
        rules,
        tuple(unreached),
    )


def _write(
    model: ir.Model,
    names: Sequence[str],
    seeds: Mapping[str, str],
    operators: Sequence[Operator],
    backward: BackwardPass,
    rules: OnnxRules,
) -> tuple[dict[str, str], list[str]]:
    """Append the backward pass to the model's graph; returns the output of each name, and those unreached."""
    graph = model.graph
    values = {value.name: value for value in values_of(graph) if value.name}
    for target, seed in seeds.items():
        primal = values[target]
        values[seed] = ir.Value(name=seed, type=primal.type, shape=_copied(primal.shape))
        graph.inputs.append(values[seed])
    emitter = Emitter(graph, values)
    wanted = [str(backward.gradients[name]) for name in names if name in backward.gradients]

    emit_all(emitter, backward.operators, wanted, provenance_of_backward(operators, backward, rules))
    vocabulary = OnnxVocabulary(rules.types, rules.opset)
    outputs: dict[str, str] = {}
    unreached: list[str] = []
    standing = set(graph.outputs)
    free = NameAuthority(all_names(graph))
    for name in names:
        gradient = backward.gradients.get(name)
        if gradient is None:
            unreached.append(name)
            blob = free.unique(f"{name}_grad/zeros")
            for op in vocabulary.zeros(name, blob):
                emitter.emit(op, None)
        else:
            blob = str(gradient)
        value = _as_output(emitter, emitter.values[blob], f"{name}_grad", free, standing)
        value.type, value.shape = values[name].type, _copied(values[name].shape)
        standing.add(value)
        graph.outputs.append(value)
        assert value.name is not None, "an output has a name"
        outputs[name] = value.name
    return outputs, unreached


def _copied(shape: ir.Shape | None) -> ir.Shape | None:
    return None if shape is None else ir.Shape(list(shape))


def _as_output(
    emitter: Emitter, value: ir.Value, wish: str, free: NameAuthority, standing: set[ir.Value]
) -> ir.Value:
    """``value`` under the name ``wish``: renamed if it is free to be, else copied."""
    graph = emitter.graph
    free_to_rename = value.producer() in emitter.generated and value not in standing
    if free_to_rename and re.fullmatch(rf"{re.escape(wish)}(_\d+)?", value.name or ""):
        return value
    name = free.unique(wish)
    if free_to_rename:
        value.name = name
        return value
    node = ir.Node("", "Identity", [value], outputs=[ir.Value(name=name)], name=f"grad/{name}")
    graph.append(node)
    return node.outputs[0]
