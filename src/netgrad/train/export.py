"""The trained model as a model for inference: the given graph with new weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy.typing as npt
import onnx_ir as ir

from netgrad.core.errors import InvalidModelError
from netgrad.train.modes import inference_form
from netgrad.transforms.select import listed

Array: TypeAlias = npt.NDArray[Any]


def with_weights(original: ir.Model, prepared: ir.Model | None, values: Mapping[str, Array]) -> ir.Model:
    """A copy of a model with other values for some of its weights, in inference form.

    Args:
        original: The model as it was given. A weight may be an initializer, a Constant or a ConstantOfShape
            node of its main graph.
        prepared: The same with all weights as initializers: taken if the original has one elsewhere, such as
            inside a function.
        values: New values by name.

    Raises:
        InvalidModelError: A weight is in neither model, or has another shape there.
    """
    problems: list[str] = []
    for source in (original, prepared):
        if source is None:
            continue
        model = source.clone()
        problems = [problem for name, array in values.items() if (problem := _replace(model, name, array))]
        if not problems:
            inference_form(model)
            return model
    raise InvalidModelError(
        f"the model does not have the weights that were trained: {'; '.join(problems[:4])}",
        hint=f"give the model that the training step was made from; the weights are {listed(values)}",
    )


def _replace(model: ir.Model, name: str, array: Array) -> str:
    """Give the weight called ``name`` a new value; returns what is wrong, or an empty string."""
    graph = model.graph
    tensor = ir.Tensor(array, name=name)
    if name in graph.initializers:
        value = graph.initializers[name]
        old = value.const_value
        if old is not None and (old.dtype != tensor.dtype or old.shape.numpy() != tensor.shape.numpy()):
            return (
                f"'{name}' is {old.dtype.name} {list(old.shape)} there, "
                f"not {tensor.dtype.name} {list(array.shape)}"
            )
        value.const_value = tensor
        return ""
    for node in graph:
        if node.op_type not in ("Constant", "ConstantOfShape") or node.outputs[0].name != name:
            continue
        if node.op_type == "ConstantOfShape":
            constant = ir.Node(
                "", "Constant", [], [ir.AttrTensor("value", tensor)], num_outputs=1, name=node.name
            )
            old_output, output = node.outputs[0], constant.outputs[0]
            graph.insert_before(node, constant)
            output.type, output.shape = old_output.type, old_output.shape
            old_output.replace_all_uses_with(output, replace_graph_outputs=True)
            old_output.name = None
            output.name = name
            graph.remove(node, safe=True)
        else:
            node.attributes.clear()
            node.attributes["value"] = ir.AttrTensor("value", tensor)
        return ""
    return f"there is no '{name}'"
