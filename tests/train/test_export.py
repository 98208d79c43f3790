"""Export: the given graph with the trained weights, wherever they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from netgrad.core.errors import InvalidArgumentError, InvalidModelError
from netgrad.train import losses
from netgrad.train.loop import Trainer
from netgrad.train.optimizers import sgd
from netgrad.train.step import TrainingStep, training_step
from tests.train.models import build, perceptron, rng

MSE = losses.mean_squared_error("y")
DOUBLE = TensorProto.DOUBLE


def run(model: ir.Model | str, x: np.ndarray, output: str = "y") -> np.ndarray:
    content = model if isinstance(model, str) else ir.to_proto(model).SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run([output], {"x": x})[0]


def one_step(model: onnx.ModelProto, classes: int = 4, **more: object) -> Trainer:
    trainer = Trainer(training_step(model, loss=MSE, optimizer=sgd(0.1), **more), threads=1)  # type: ignore[arg-type]
    r = rng(50)
    trainer.step({"x": r.normal(size=(5, 3)), "targets": r.normal(size=(5, classes))})
    return trainer


def test_the_graph_is_the_given_one_with_new_weights(tmp_path: Path) -> None:
    model = perceptron()
    trainer = Trainer(training_step(model, loss=losses.cross_entropy(), optimizer=sgd(0.1)), threads=1)
    trainer.step({"x": rng(1).normal(size=(5, 3)), "labels": np.array([0, 1, 2, 3, 0])})
    trainer.export(tmp_path / "trained.onnx")
    exported = onnx.load(tmp_path / "trained.onnx")
    p = trainer.parameters()
    for tensor in exported.graph.initializer:
        np.testing.assert_array_equal(numpy_helper.to_array(tensor), p[tensor.name])
        assert not np.array_equal(p[tensor.name], trainer.training_step.initial[tensor.name])
    for field in ("node", "input", "output"):
        assert list(getattr(exported.graph, field)) == list(getattr(model.graph, field)), field
    x = rng(2).normal(size=(3, 3))
    want = np.tanh(x @ p["W1"] + p["b1"]) @ p["W2"] + p["b2"]
    np.testing.assert_allclose(run(str(tmp_path / "trained.onnx"), x, "logits"), want, rtol=1e-12)


def test_weights_in_constant_nodes(tmp_path: Path) -> None:
    value = rng(3).normal(size=(3, 4))
    nodes = [
        helper.make_node("Constant", [], ["W"], value=numpy_helper.from_array(value)),
        helper.make_node("Constant", [], ["shape"], value_ints=[4]),
        helper.make_node("ConstantOfShape", ["shape"], ["b"], value=numpy_helper.from_array(np.array([0.5]))),
        helper.make_node("MatMul", ["x", "W"], ["xw"]),
        helper.make_node("Add", ["xw", "b"], ["y"]),
    ]
    model = build(nodes, {"x": (DOUBLE, ["N", 3])}, {"y": (DOUBLE, ["N", 4])}, {})
    trainer = one_step(model, trainable=["W", "b"])
    exported = trainer.export()
    p = trainer.parameters()
    assert np.ptp(p["b"]) > 0  # the filled tensor has become one with different elements
    assert [node.op_type for node in exported.graph] == ["Constant", "Constant", "Constant", "MatMul", "Add"]
    x = rng(4).normal(size=(6, 3))
    np.testing.assert_allclose(run(exported, x), x @ p["W"] + p["b"], rtol=1e-12)


def test_weights_inside_of_a_function() -> None:
    value = rng(5).normal(size=(3, 4))
    body = [
        helper.make_node("Constant", [], ["K"], value=numpy_helper.from_array(value)),
        helper.make_node("MatMul", ["a", "K"], ["r"]),
    ]
    opsets = [helper.make_opsetid("", 18)]
    layer = helper.make_function("own", "Layer", ["a"], ["r"], body, opsets)
    nodes = [helper.make_node("Layer", ["x"], ["y"], domain="own")]
    model = build(nodes, {"x": (DOUBLE, ["N", 3])}, {"y": (DOUBLE, ["N", 4])}, {}, functions=[layer])
    trainer = one_step(model)
    (weight,) = trainer.parameters().values()
    assert not np.array_equal(weight, value)
    x = rng(6).normal(size=(2, 3))
    np.testing.assert_allclose(run(trainer.export(), x), x @ weight, rtol=1e-12)


def test_a_model_of_an_old_opset_stays_at_it() -> None:
    kind = TensorProto.FLOAT
    weights = {"W": rng(7).normal(size=(3, 4)).astype(np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["xw"]),
        helper.make_node("Dropout", ["xw"], ["y"], ratio=0.5),
    ]
    model = build(nodes, {"x": (kind, ["N", 3])}, {"y": (kind, ["N", 4])}, weights, opset=8)
    trainer = Trainer(training_step(model, loss=MSE, optimizer=sgd(0.1), mode="train"), threads=1)
    x = rng(8).normal(size=(5, 3)).astype(np.float32)
    trainer.step({"x": x, "targets": np.zeros((5, 4), np.float32)})
    exported = trainer.export()
    assert exported.opset_imports[""] == 8
    np.testing.assert_allclose(run(exported, x), x @ trainer.parameters()["W"], rtol=1e-5)


def test_a_loaded_step_needs_the_model_for_its_export(tmp_path: Path) -> None:
    model = perceptron()
    training_step(model, loss=losses.cross_entropy(), optimizer=sgd(0.1)).save(tmp_path / "s.onnx")
    trainer = Trainer(TrainingStep.load(tmp_path / "s.onnx"), threads=1)
    with pytest.raises(InvalidArgumentError, match="does not hold the model"):
        trainer.export()
    x = rng(9).normal(size=(2, 3))
    np.testing.assert_array_equal(
        run(trainer.export(model=model), x, "logits"), run(ir.from_proto(model), x, "logits")
    )
    with pytest.raises(InvalidModelError, match=r"'W1' is DOUBLE \[3, 6\] there, not DOUBLE \[3, 5\]"):
        trainer.export(model=perceptron(hidden=6))
