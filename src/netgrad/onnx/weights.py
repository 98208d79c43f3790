"""Which initializers are weights: what is differentiated by, and trained, when nobody names anything."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir

from netgrad.onnx.constants import FLOATS
from netgrad.onnx.edit import CONSTANT_MARK, DERIVED, SETTING

_PARAMETERS: Mapping[str, Mapping[int, str]] = {
    "Attention": {0: "queries", 1: "keys", 2: "values"},
    "BatchNormalization": {1: "scale", 2: "bias"},
    "CausalConvWithState": {1: "kernel", 2: "bias"},
    "Conv": {1: "kernel", 2: "bias"},
    "ConvTranspose": {1: "kernel", 2: "bias"},
    "DeformConv": {1: "kernel", 3: "bias"},
    "GRU": {1: "weights", 2: "recurrent weights", 3: "bias"},
    "Gather": {0: "table"},
    "GatherElements": {0: "table"},
    "GatherND": {0: "table"},
    "Gemm": {0: "matrix", 1: "matrix", 2: "bias"},
    "GroupNormalization": {1: "scale", 2: "bias"},
    "InstanceNormalization": {1: "scale", 2: "bias"},
    "LSTM": {1: "weights", 2: "recurrent weights", 3: "bias", 7: "peephole weights"},
    "LayerNormalization": {1: "scale", 2: "bias"},
    "MatMul": {0: "matrix", 1: "matrix"},
    "PRelu": {1: "slope"},
    "RMSNormalization": {1: "scale"},
    "RNN": {1: "weights", 2: "recurrent weights", 3: "bias"},
}
"""Parameter positions: operator type -> input index -> what the input is. Every input of Einsum is one."""

_STATISTICS = {3: "running mean", 4: "running variance"}

_ELEMENTWISE = frozenset({"Add", "Div", "Max", "Mean", "Min", "Mul", "Pow", "Sub", "Sum", "Where"})

_CARRIERS = frozenset(
    {
        *("Cast", "CastLike", "Expand", "Flatten", "Identity", "Reshape", "Slice"),
        *("Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
    }
)
"""Operators whose output is their first input, moved or converted."""

_PARAMETER_WORDS = frozenset(
    {
        "alpha",
        "beta",
        "bias",
        "gain",
        "gamma",
        "param",
        "parameter",
        "scale",
        "slope",
        "temperature",
        "weight",
    }
)

_TINY = 1e-3  # a single added number up to this size guards a division or a root
_MASK = 1e4  # numbers from this size on, beside zeros only, hide positions


@dataclass(frozen=True, slots=True)
class InitializerRole:
    """What a floating-point initializer is in its model.

    Attributes:
        name: Its name.
        role: What it is for the operator that decides, such as ``"kernel"`` or ``"running mean"``.
        is_weight: Whether it is differentiated by, and trained, by default.
        reason: Why, in words.
    """

    name: str
    role: str
    is_weight: bool
    reason: str


def weight_names(model: onnx_ir.Model) -> list[str]:
    """The names of the initializers that are weights, in the model's order; see ``initializer_roles``."""
    return [entry.name for entry in initializer_roles(model) if entry.is_weight]


def initializer_roles(model: onnx_ir.Model) -> list[InitializerRole]:
    """Say of each floating-point initializer of the main graph whether it is a weight, and why.

    The rule, for a prepared model. An initializer is followed through every operator that only moves or
    converts it (Transpose, Reshape, Cast, Slice, ...) and every operator all of whose inputs come from
    initializers, to the operators where it meets what comes from the model's inputs. It is a weight if, at
    one of these,

    - it stands at a parameter position: kernel, matrix, bias, scale, slope, embedding table, recurrent
    weights, any
      input of Einsum; or
    - it is an operand of an elementwise operator (Add, Sub, Mul, Div, Pow, Min, Max, Sum, Mean, Where), or is
    joined to
      activations by Concat, and does not look like a constant. It looks like one if it has a single element
      and was a Constant node, or has rank 0 and a name that does not end in a word such as weight, bias,
      scale or alpha, or is a single number that is whole or a half (the 1 and 0.5 of a Gelu) without such a
      name, or of at most 0.001 (an epsilon); if it masks (it holds infinities,
      or zeros and numbers of 10,000 and more); or if it is joined by Concat and all its elements are equal
      (padding).

    It is never a weight if some operator reads it as running mean or variance, or if netgrad made it. All
    other positions (bounds of Clip, values of Pad, scales of Resize, initial states of recurrent operators,
    conditions, ...) are no parameters.

    Args:
        model: A prepared model; it is not changed.
    """
    dependent = _dependent_values(model)
    return [
        _judge(value, dependent)
        for value in model.graph.initializers.values()
        if value.const_value is not None and value.const_value.dtype in FLOATS
    ]


def _dependent_values(model: onnx_ir.Model) -> set[onnx_ir.Value]:
    """Values that depend on an input of the model, of a loop's body, or on chance."""
    dependent: set[onnx_ir.Value] = set()
    for node in onnx_ir.traversal.RecursiveGraphIterator(
        model.graph, enter_graph=lambda graph: dependent.update(graph.inputs)
    ):
        if (
            any(value in dependent for value in node.inputs)
            or any(
                attribute.type in (onnx_ir.AttributeType.GRAPH, onnx_ir.AttributeType.GRAPHS)
                for attribute in node.attributes.values()
            )
            or node.op_type.startswith("Random")
        ):
            dependent.update(node.outputs)
    return dependent


def _judge(value: onnx_ir.Value, dependent: set[onnx_ir.Value]) -> InitializerRole:
    name = value.name or ""
    mark = None if value.const_value is None else value.const_value.metadata_props.get(CONSTANT_MARK)
    if mark == DERIVED:
        return InitializerRole(name, "constant", False, "netgrad computed it from constants")
    if mark == SETTING:
        return InitializerRole(name, "setting", False, "it follows the data, or was chosen by hand")
    found: InitializerRole | None = None
    for node, index in _meetings(value, dependent):
        role, is_weight, reason = _at(node, index, value)
        if role in _STATISTICS.values():
            return InitializerRole(name, role, False, reason)
        if found is None or (is_weight and not found.is_weight):
            found = InitializerRole(name, role, is_weight, reason)
    return found or InitializerRole(name, "unused", False, "no operator reads it together with an activation")


def _meetings(value: onnx_ir.Value, dependent: set[onnx_ir.Value]) -> Iterator[tuple[onnx_ir.Node, int]]:
    """The operators, and input positions, where what comes from an initializer alone meets something else."""
    waiting, seen = [value], {value}
    while waiting:
        for node, index in waiting.pop().uses():
            alone = not any(other in dependent for other in node.inputs)
            carried = node.domain == "" and node.op_type in _CARRIERS and index == 0
            if carried or (alone and not _has_graphs(node)):
                following = [output for output in node.outputs if output not in seen]
                seen.update(following)
                waiting += following
            else:
                yield node, index


def _has_graphs(node: onnx_ir.Node) -> bool:
    kinds = (onnx_ir.AttributeType.GRAPH, onnx_ir.AttributeType.GRAPHS)
    return any(attribute.type in kinds for attribute in node.attributes.values())


def _at(node: onnx_ir.Node, index: int, value: onnx_ir.Value) -> tuple[str, bool, str]:
    """Role, verdict and reason of an initializer at one input of an operator."""
    operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    where = f"{operator} node '{node.name}'"
    if operator == "BatchNormalization" and index in _STATISTICS:
        role = _STATISTICS[index]
        return role, False, f"{role} of {where}: it follows the data, not the gradient"
    role = "operand" if operator == "Einsum" else _PARAMETERS.get(operator, {}).get(index, "")
    if role:
        return role, True, f"{role} of {where}"
    if (operator in _ELEMENTWISE and not (operator == "Where" and index == 0)) or operator == "Concat":
        constant = _looks_constant(value, joined=operator == "Concat")
        if constant:
            return "constant", False, f"operand of {where}, but {constant}"
        return "operand", True, f"operand of {where}, together with activations"
    return "setting", False, f"input {index} of {where} is no parameter"


def _looks_constant(value: onnx_ir.Value, *, joined: bool) -> str:
    """Why an operand looks like a constant that no one trains; empty if it does not."""
    tensor = value.const_value
    assert tensor is not None, "an initializer has content"
    if CONSTANT_MARK in tensor.metadata_props:
        return "it is a constant of one element"
    words = re.findall(r"[a-z]+", (value.name or "").lower())
    if len(tensor.shape) == 0 and not _PARAMETER_WORDS.intersection(words[-1:]):
        return "it is a single number whose name is no parameter's"
    if tensor.size == 0:
        return "it is empty"
    with np.errstate(invalid="ignore"):  # a tensor may hold NaN
        array = np.abs(tensor.numpy().astype(np.float64)).reshape(-1)
    if array.size == 1 and (2 * array[0]).is_integer() and not _PARAMETER_WORDS.intersection(words[-1:]):
        return "it is a single round number whose name is no parameter's"
    if array.size == 1 and array[0] <= _TINY:
        return "it is a single tiny number, an epsilon"
    if not np.isfinite(array).all() or (array.max() >= _MASK and ((array == 0) | (array >= _MASK)).all()):
        return "it masks: it holds zeros and very large numbers"
    if joined and (array == array[0]).all():
        return "it is padding: all its elements are equal"
    return ""
