"""Which initializers are trained, and which are carried from step to step."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from netgrad.core.errors import InvalidArgumentError, nearest
from netgrad.onnx.view import FLOATING
from netgrad.onnx.weights import weight_names
from netgrad.transforms.select import listed


def trainable_names(model: ir.Model, wanted: Sequence[str] | None, carried: Mapping[str, str]) -> list[str]:
    """The initializers to train.

    Args:
        model: A prepared model.
        wanted: Names, or patterns with ``*``, ``?`` and ``[...]``; None for all weights.
        carried: Tensors that are carried instead; no default includes them.

    Raises:
        InvalidArgumentError: A name or pattern fits nothing, or something that cannot be trained.
    """
    if wanted is None:
        return [name for name in weight_names(model) if name not in carried]
    floating = [
        name
        for name, value in model.graph.initializers.items()
        if value.const_value is not None and value.const_value.dtype in FLOATING
    ]
    names: dict[str, None] = {}
    for each in wanted:
        if each in model.graph.initializers:
            if each not in floating:
                raise InvalidArgumentError(f"`trainable` names '{each}', which is no floating-point tensor")
            names[each] = None
            continue
        found = fnmatch.filter(floating, each) if any(sign in each for sign in "*?[") else []
        if not found:
            raise InvalidArgumentError(_unknown(model, each, floating))
        names.update(dict.fromkeys(name for name in found if name not in carried))
    return list(names)


def _unknown(model: ir.Model, name: str, floating: Sequence[str]) -> str:
    if any(value.name == name for value in model.graph.inputs):
        return f"`trainable` names '{name}', which is an input of the model and has no value to start from"
    if any(value.name == name for node in model.graph for value in node.outputs):
        return f"`trainable` names '{name}', which the model computes; only initializers can be trained"
    return (
        f"`trainable` names '{name}', which fits no initializer of the model{nearest(name, floating)}"
        f"\n  hint: its floating-point initializers are {listed(floating)}"
    )


def carried_names(model: ir.Model, state: Mapping[str, str], parameters: Sequence[str]) -> None:
    """Check the tensors to carry: initializers of the model, each with a value of its type as the next one.

    Raises:
        InvalidArgumentError: A name is unknown, is trained, or has another type or shape than its next value.
    """
    values = {value.name or "": value for node in model.graph for value in node.outputs}
    problems = []
    for name, output in state.items():
        initializer = model.graph.initializers.get(name)
        if initializer is None or initializer.const_value is None:
            choices = list(model.graph.initializers)
            problems.append(f"`state` names '{name}', which is no initializer{nearest(name, choices)}")
            continue
        if name in parameters:
            problems.append(f"'{name}' is in `trainable` and in `state`; it can be in one of them")
        value = values.get(output)
        if value is None:
            problems.append(
                f"`state` says that output '{output}' is the next value of '{name}', but the model computes "
                f"no '{output}'{nearest(output, values)}"
            )
            continue
        tensor = initializer.const_value
        if value.dtype is not None and value.dtype != tensor.dtype:
            problems.append(f"'{output}' is {value.dtype.name}, but '{name}' is {tensor.dtype.name}")
        shape = tensor.shape.numpy()
        if value.shape is not None and not _fits(value.shape, shape):
            problems.append(f"'{output}' has shape {list(value.shape)}, but '{name}' has {list(shape)}")
    twice = [output for output in state.values() if list(state.values()).count(output) > 1]
    problems += [f"`state` names the output '{output}' more than once" for output in dict.fromkeys(twice)]
    if problems:
        raise InvalidArgumentError("\n  ".join(problems))


def _fits(shape: ir.Shape, wanted: Sequence[int]) -> bool:
    if len(shape) != len(wanted):
        return False
    return all(not isinstance(dim, int) or dim == n for dim, n in zip(shape, wanted, strict=True))
