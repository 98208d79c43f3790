"""Writing the optimizer behind the gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from netgrad.onnx.builder import Value
from netgrad.train.graph import GraphWriter
from netgrad.train.optimizers import Array, Context, Direction, Optimizer


@dataclass(frozen=True)
class Update:
    """Names that the update got.

    Attributes:
        parameters: For each parameter the output with its next value.
        state: For each input of optimizer state the output with its next value.
        step_next: The output with the next number of steps.
        learning_rate: The input for the learning rate.
        initial: First values of the state and the learning rate.
    """

    parameters: dict[str, str]
    state: dict[str, str]
    step_next: str
    learning_rate: str
    initial: dict[str, Array]


def write_update(
    model: ir.Model,
    gradients: Mapping[str, str],
    values: Mapping[str, Array],
    optimizer: Optimizer,
    step: str,
) -> Update:
    """Append the optimizer: ``p - learning_rate * direction`` for every parameter.

    Parameters of 16 bits are updated in float32, and their state is float32. Each tensor is updated by
    operators of its own. One update of all tensors joined into one has a quarter of the operators, but took
    as long (fastest runs: 3.5 against 3.2 ms, Adam on 36 tensors with 534,026 elements, 2 cores), and its
    state could not be told apart by name.

    Args:
        model: Receives the operators.
        gradients: Value with the gradient of each parameter.
        values: First value of each parameter.
        optimizer: An optimizer with a learning rate.
        step: Input that counts the steps done.
    """
    writer = GraphWriter(model, "optimizer")
    op = writer.op
    parameters = {name: writer.read(name) for name in gradients}
    wide = {name: _compute_type(value.dtype) for name, value in parameters.items()}
    widest = max(wide.values(), key=lambda dtype: dtype.itemsize)
    wide_parameters = {name: op.cast(value, wide[name]) for name, value in parameters.items()}
    directions = {
        name: Direction(op.cast(writer.read(gradient), wide[name])) for name, gradient in gradients.items()
    }
    initial: dict[str, Array] = {}
    state: dict[str, dict[str, Value]] = {}
    for name in parameters:
        state[name] = {}
        for slot, first in optimizer.init(values[name].astype(wide[name].numpy())).items():
            entry = writer.new_input(f"{name}/{slot}", ir.DataType.from_numpy(first.dtype), first.shape)
            state[name][slot] = entry
            initial[entry.name] = first
    rate = writer.new_input("learning_rate", widest, [])
    initial[rate.name] = np.asarray(optimizer.learning_rate).astype(widest.numpy())
    count = writer.read(step) + op.constant(np.asarray(1, np.int64))
    directions, changed = optimizer.update(Context(op, count), directions, state, wide_parameters)

    outputs: dict[str, Value] = {}
    for name, parameter in wide_parameters.items():
        direction = directions[name]
        factor = op.cast(rate, wide[name])
        if direction.scale is not None:
            factor = factor * direction.scale
        new = parameter - direction.value * factor
        dtype = parameters[name].dtype
        assert dtype is not None, "a parameter is floating-point"
        outputs[f"{name}_next"] = op.assume_shape(op.cast(new, dtype), parameters[name].shape)
    state_outputs: dict[str, str] = {}
    for name, slots in state.items():
        for slot, entry in slots.items():
            value = changed.get(name, {}).get(slot, entry)
            state_outputs[entry.name] = f"{entry.name}_next"
            outputs[f"{entry.name}_next"] = op.assume_shape(value, entry.shape)
    outputs[f"{step}_next"] = count
    final = writer.finish(outputs)
    return Update(
        {name: final[f"{name}_next"] for name in parameters},
        {entry: final[wish] for entry, wish in state_outputs.items()},
        final[f"{step}_next"],
        rate.name,
        initial,
    )


def _compute_type(dtype: ir.DataType | None) -> ir.DataType:
    """The type in which a parameter of type ``dtype`` is updated."""
    assert dtype is not None, "a parameter is floating-point"
    return dtype if dtype.itemsize >= 4 else ir.DataType.FLOAT
