"""An interpreter of ONNX graphs on PyTorch, so that autograd differentiates what netgrad does.

It shares no code with netgrad: functions are inlined by the onnx package, every operator is a function of its
own at the model's own opset, and branches and bodies are run as Python would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, inliner, numpy_helper

from tests.parity.torch_operators import elementwise, indexing, products, reductions, shapes
from tests.parity.torch_operators.table import OPERATORS

FAMILIES = (elementwise, indexing, products, reductions, shapes)
CONTROL = {"If", "Loop", "Scan"}
OLDEST = 13
"""Before this opset softmax and squeeze have other forms."""

Arrays = dict[str, np.ndarray]
Tensors = dict[str, torch.Tensor]


class UnknownOperatorError(Exception):
    """A graph has an operator that the interpreter doesn't know."""


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without functions of its own."""
    return inliner.inline_local_functions(model) if model.functions else model


def unknown_operators(model: onnx.ModelProto) -> list[str]:
    """Types of the operators of an inlined model that the interpreter doesn't know, with their domains."""
    return sorted(
        {
            f"{node.domain}::{node.op_type}"
            for node in _nodes(model.graph)
            if node.domain not in ("", "ai.onnx") or node.op_type not in OPERATORS.keys() | CONTROL
        }
    )


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _nodes(attribute.g)


def gradients(
    model: onnx.ModelProto, point: Arrays, draw: Callable[[tuple[int, ...]], np.ndarray]
) -> tuple[Arrays, Arrays, Arrays]:
    """Outputs of a model, and by autograd the gradient by every floating-point input and initializer.

    Args:
        model: The model.
        point: An array for each input, and for each initializer whose gradient is asked for.
        draw: Gives what an output of a shape is weighted with in the sum that is differentiated.

    Returns:
        The outputs, their cotangents, and the gradients, by name.

    Raises:
        UnknownOperatorError: If there is an operator without an entry in the table.
    """
    model = inlined(model)
    unknown = unknown_operators(model)
    if unknown:
        raise UnknownOperatorError(", ".join(unknown))
    opset = next(each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))
    assert opset >= OLDEST, f"opset {opset} is older than {OLDEST}"
    values = {name: torch.tensor(array) for name, array in point.items()}
    leaves = {name: each.requires_grad_() for name, each in values.items() if each.is_floating_point()}
    run_graph(model.graph, values)
    outputs = {output.name: values[output.name] for output in model.graph.output}
    cotangents = {name: draw(tuple(output.shape)) for name, output in outputs.items()}
    # the zero makes the total depend on something if no output does
    total = torch.zeros((), dtype=torch.float64, requires_grad=True)
    for name, output in outputs.items():
        total = total + (output * torch.tensor(cotangents[name])).sum()
    found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True, materialize_grads=True)
    return (
        {name: output.detach().numpy() for name, output in outputs.items()},
        cotangents,
        {name: each.numpy() for name, each in zip(leaves, found, strict=True)},
    )


def run_graph(graph: onnx.GraphProto, values: Tensors) -> None:
    """Run the nodes of a graph, and add what they make to ``values``; initializers do not replace a value."""
    for initializer in graph.initializer:
        if initializer.name not in values:
            values[initializer.name] = tensor_of(initializer)
    for node in graph.node:
        for name, value in zip(node.output, _run_node(node, values), strict=False):
            values[name] = value


def tensor_of(proto: onnx.TensorProto) -> torch.Tensor:
    return torch.tensor(numpy_helper.to_array(proto))


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    found = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            value = value.decode()
        elif isinstance(value, onnx.TensorProto):
            value = tensor_of(value)
        found[attribute.name] = value
    return found


def _run_node(node: onnx.NodeProto, values: Tensors) -> tuple[Any, ...]:
    inputs = [values[name] if name else None for name in node.input]
    attributes = _attributes(node)
    if node.op_type == "If":
        taken = attributes["then_branch" if bool(inputs[0]) else "else_branch"]
        return tuple(_call(taken, values, ()))
    if node.op_type == "Loop":
        return _loop(attributes["body"], values, *inputs)
    if node.op_type == "Scan":
        return _scan(values, inputs, **attributes)
    result = OPERATORS[node.op_type](*inputs, **attributes)
    result = result if isinstance(result, tuple) else (result,)
    assert len(result) >= sum(bool(name) for name in node.output), f"{node.op_type} has another output"
    return result


# ---- branches and bodies -----------------------------------------------------------------------------------


def _call(graph: onnx.GraphProto, outer: Mapping[str, torch.Tensor], given: Any) -> list[torch.Tensor]:
    """The outputs of a graph that sees the values around it."""
    own = {name.name for name in graph.initializer}
    values = {name: value for name, value in outer.items() if name not in own}
    values.update({each.name: value for each, value in zip(graph.input, given, strict=True)})
    run_graph(graph, values)
    return [values[output.name] for output in graph.output]


def _loop(body: onnx.GraphProto, values: Tensors, most: Any, condition: Any, *states: Any) -> tuple[Any, ...]:
    carried, scanned = list(states), [[] for _ in range(len(body.output) - 1 - len(states))]
    going = torch.tensor(True) if condition is None else condition
    trip = 0
    while bool(going) and (most is None or trip < int(most)):
        going, *results = _call(body, values, [torch.tensor(trip), going, *carried])
        carried = results[: len(states)]
        for part, result in zip(scanned, results[len(states) :], strict=True):
            part.append(result)
        trip += 1
    assert trip or not scanned, "the shape of a scanned output of no trips is not known"
    return (*carried, *(torch.stack(parts) for parts in scanned))


def _scan(
    outer: Tensors,
    inputs: list[Any],
    *,
    body: onnx.GraphProto,
    num_scan_inputs: int,
    scan_input_axes: list[int] | None = None,
    scan_input_directions: list[int] | None = None,
    scan_output_axes: list[int] | None = None,
    scan_output_directions: list[int] | None = None,
) -> tuple[Any, ...]:
    count = len(inputs) - num_scan_inputs
    carried, sequences = inputs[:count], inputs[count:]
    outputs = len(body.output) - count
    axes = scan_input_axes or [0] * num_scan_inputs
    directions = scan_input_directions or [0] * num_scan_inputs
    slices = [
        list(reversed(x.unbind(axis))) if backwards else list(x.unbind(axis))
        for x, axis, backwards in zip(sequences, axes, directions, strict=True)
    ]
    made: list[list[Any]] = [[] for _ in range(outputs)]
    for given in zip(*slices, strict=True):
        results = _call(body, outer, [*carried, *given])
        carried = results[:count]
        for part, result in zip(made, results[count:], strict=True):
            part.append(result)
    stacked = [
        torch.stack(parts[::-1] if backwards else parts, axis)
        for parts, axis, backwards in zip(
            made, scan_output_axes or [0] * outputs, scan_output_directions or [0] * outputs, strict=True
        )
    ]
    return (*carried, *stacked)
