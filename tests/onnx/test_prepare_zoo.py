"""The nine zoo models after preparation: the same numbers, and every shape known."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import onnx_ir
import pytest

from netgrad.onnx.edit import all_values
from netgrad.onnx.prepare import prepare
from netgrad.onnx.read import load
from netgrad.onnx.weights import initializer_roles
from tests.onnx.zoo import ZOO, run, zoo_input, zoo_model, zoo_path


@lru_cache
def _prepared(name: str) -> onnx_ir.Model:
    return prepare(zoo_path(name)).model


def _original_with_weights(name: str) -> onnx_ir.Model:
    """The model as shipped, opset 9, but with the weights of `zoo_model` for ConstantOfShape nodes."""
    model = load(zoo_path(name))
    weights = zoo_model(name).graph.initializers
    for node in list(model.graph):
        if node.op_type == "ConstantOfShape":
            tensor = weights[node.outputs[0].name or ""].const_value
            assert tensor is not None
            weight = onnx_ir.Value(
                name=tensor.name,
                type=onnx_ir.TensorType(tensor.dtype),
                shape=onnx_ir.Shape(tensor.shape.numpy()),
                const_value=tensor,
            )
            node.outputs[0].replace_all_uses_with(weight)
            model.graph.remove(node, safe=True)
            model.graph.register_initializer(weight)
            model.graph.inputs.append(weight)  # IR version 3 wants initializers among the inputs
    for name_, value in model.graph.initializers.items():
        if name_ in weights:
            value.const_value = weights[name_].const_value
    return model


@pytest.mark.parametrize("name", ZOO)
def test_prepared_model_computes_the_same(name: str) -> None:
    feeds = zoo_input(name)
    original = _original_with_weights(name)
    assert original.opset_imports[""] == 9
    (expected,) = run(original, feeds)
    (actual,) = run(zoo_model(name), feeds)
    np.testing.assert_array_equal(actual, expected)
    # Probabilities that are all equal, or one of which is all, would agree whatever was computed.
    assert actual.max() > 1.5 * np.median(actual)
    assert abs(actual).max() < 0.5 if actual.min() >= 0 else actual.std() < 10


@pytest.mark.parametrize("name", ZOO)
def test_prepared_model_is_valid_and_its_shapes_are_known(name: str) -> None:
    model = _prepared(name)
    assert model.opset_imports[""] == 18
    for value in all_values(model):
        assert value.dtype is not None, value
        assert value.shape is not None, value
        assert value.shape.is_static(), value
    assert {node.op_type for node in model.graph}.isdisjoint({"Constant", "ConstantOfShape"})
    names = [node.name for node in model.graph]
    assert all(names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ZOO)
def test_weights_are_all_but_statistics_and_settings(name: str) -> None:
    model = _prepared(name)
    statistics: set[str | None] = set()
    settings: set[str | None] = set()
    for node in model.graph:
        if node.op_type == "BatchNormalization":
            statistics |= {value.name for value in node.inputs[3:5] if value is not None}
        if node.op_type == "Dropout":
            settings |= {value.name for value in node.inputs[1:] if value is not None}
    for entry in initializer_roles(model):
        used = bool(model.graph.initializers[entry.name].uses())
        expected = used and entry.name not in statistics and entry.name not in settings
        assert entry.is_weight == expected, entry
