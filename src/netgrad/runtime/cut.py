"""Opening a model at inner values: to feed them, or to look at them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import onnx_ir
from onnx_ir.passes import common

from netgrad.core.errors import InvalidArgumentError, nearest
from netgrad.onnx.fold import discard
from netgrad.onnx.read import ModelSource, load
from netgrad.onnx.shapes import infer_shapes
from netgrad.onnx.view import values_of
from netgrad.runtime.session import Session


def cut(model: ModelSource, sources: Collection[str] = (), targets: Iterable[str] = ()) -> onnx_ir.Model:
    """A copy of ``model`` in which some values are inputs and exactly some are outputs.

    Args:
        model: The model; it is not changed.
        sources: Values that become inputs without a default: initializers, or outputs of operators, whose
            readers then read the input. Inputs of the model stay what they are, if still anybody needs them.
        targets: Values that are the outputs of the copy.

    Raises:
        InvalidArgumentError: The outer graph has no value of such a name.
    """
    opened = load(model)
    infer_shapes(opened)
    graph = opened.graph
    values = {value.name: value for value in values_of(graph) if value.name}
    targets = list(targets)
    for name in (*sources, *targets):
        if name not in values:
            raise InvalidArgumentError(f"the model has no value '{name}'{nearest(name, values)}")
    graph.outputs[:] = [values[name] for name in targets]
    for name in dict.fromkeys(sources):
        value = values[name]
        if value.is_graph_input() and name not in graph.initializers:
            continue
        if value.producer() is None:
            graph.initializers.pop(name)
            tensor = value.const_value
            assert tensor is not None, "an initializer has a value"
            value.dtype, value.shape = tensor.dtype, onnx_ir.Shape(tensor.shape.numpy())
            value.const_value = None
            if not value.is_graph_input():
                graph.inputs.append(value)
            continue
        fed = onnx_ir.Value(name=name, type=value.type, shape=value.shape)
        value.name = f"{name}_before_cut"
        onnx_ir.convenience.replace_all_uses_with(value, fed, replace_graph_outputs=True)
        graph.inputs.append(fed)
    for node in reversed(list(graph)):  # the pass would leave what a removed If or Loop reads inside
        if not any(value.uses() or value.is_graph_output() for value in node.outputs):
            discard(node)
    common.RemoveUnusedNodesPass()(opened)
    graph.inputs[:] = [v for v in graph.inputs if v.uses() or v.is_graph_output() or v.name in sources]
    return opened


def values_at(
    model: ModelSource, inputs: Mapping[str, Any], names: Iterable[str]
) -> dict[str, np.ndarray[Any, Any]]:
    """The values called ``names`` when ``model`` runs on ``inputs``; initializers among them as they are.

    Raises:
        InvalidArgumentError: A name is unknown, or an input does not fit.
        RuntimeFailureError: ONNX Runtime failed.
    """
    loaded = load(model)
    initializers = loaded.graph.initializers
    wanted = list(dict.fromkeys(names))
    found = {name: _as_given(inputs[name]) for name in wanted if name in inputs}
    for name in wanted:
        if name not in found and name in initializers:
            tensor = initializers[name].const_value
            assert tensor is not None, "an initializer has a value"
            found[name] = np.asarray(tensor.numpy())
    inner = [name for name in wanted if name not in found]
    if inner:
        opened = cut(loaded, (), inner)
        taken = {value.name for value in opened.graph.inputs}
        needed = {name: array for name, array in inputs.items() if name in taken}
        found |= Session(opened, memory_pattern=False).run(needed)
    return {name: found[name] for name in wanted}


def _as_given(value: Any) -> Any:
    """An array of it, unless it is a sequence of arrays."""
    sequence = isinstance(value, list) and any(isinstance(item, np.ndarray) for item in value)
    return value if sequence else np.asarray(value)
