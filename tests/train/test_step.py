"""The training step: its graph, the meaning of its inputs and outputs, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper

from netgrad.core.errors import InvalidArgumentError, InvalidModelError, NetgradWarning
from netgrad.train import losses
from netgrad.train.loop import Trainer
from netgrad.train.metrics import accuracy, mean_absolute_error
from netgrad.train.optimizers import adam, sgd
from netgrad.train.step import METADATA_KEY, TrainingStep, training_step
from tests.train.models import build, given_gradients, perceptron, rng, scores_model

CROSS = losses.cross_entropy()


def batches(count: int, dtype: type = np.float64) -> list[dict[str, np.ndarray]]:
    r = rng(20)
    return [
        {"x": r.normal(size=(n, 3)).astype(dtype), "labels": r.integers(0, 4, size=n)}
        for n in (7, 7, 5, 7, 2)[:count]
    ]


def trained(step: TrainingStep, count: int = 4, dtype: type = np.float64) -> dict[str, np.ndarray]:
    trainer = Trainer(step, threads=1)
    for batch in batches(count, dtype):
        trainer.step(batch)
    return trainer.parameters()


def in_plain_runtime(path: Path, count: int = 4) -> dict[str, np.ndarray]:
    """Train as a program would that knows ONNX Runtime and the JSON in the file, but not netgrad."""
    meaning = json.loads({p.key: p.value for p in onnx.load(path).metadata_props}["netgrad.training_step"])
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    following = {
        **meaning["parameters"],
        **meaning["optimizer_state"],
        **meaning["carried"],
        meaning["step"]: meaning["step_next"],
    }
    kept: dict[str, np.ndarray] = {}
    for batch in batches(count):
        assert set(batch) == set(meaning["batch_inputs"])
        names = [meaning["loss"], *following.values()]
        results = dict(zip(names, session.run(names, {**batch, **kept}), strict=True))
        kept = {given: results[output] for given, output in following.items()}
    return {name: kept[name] for name in meaning["parameters"]}


@pytest.mark.parametrize("optimizer", [sgd(0.2, momentum=0.9), adam(0.05)])
def test_an_ordinary_session_trains_with_the_file(optimizer: Any, tmp_path: Path) -> None:
    step = training_step(perceptron(), loss=CROSS, optimizer=optimizer)
    step.save(tmp_path / "step.onnx")
    onnx.checker.check_model(str(tmp_path / "step.onnx"), full_check=True)
    for name, array in in_plain_runtime(tmp_path / "step.onnx").items():
        np.testing.assert_array_equal(array, trained(step)[name], err_msg=name)


def test_only_standard_operators() -> None:
    step = training_step(perceptron(), loss=CROSS, optimizer=adam(), metrics=["accuracy"])
    assert {node.domain for node in step.model.graph.all_nodes()} == {""}
    assert not step.model.functions


def test_inputs_and_outputs_come_in_the_documented_order() -> None:
    step = training_step(perceptron(), loss=CROSS, optimizer=sgd(0.1, momentum=0.5), metrics=["accuracy"])
    weights = ["W1", "b1", "W2", "b2"]
    momenta = [f"{name}/momentum" for name in weights]
    assert [value.name for value in step.model.graph.inputs] == [
        *("x", "labels"),
        *weights,
        *momenta,
        *("step", "learning_rate"),
    ]
    assert [value.name for value in step.model.graph.outputs] == [
        *("loss", "accuracy"),
        *(f"{name}_next" for name in weights),
        *(f"{name}_next" for name in momenta),
        "step_next",
    ]
    for value in (*step.model.graph.inputs, *step.model.graph.outputs):
        assert value.dtype is not None, value.name
        assert value.shape is not None, value.name


def test_a_loaded_step_trains_the_same(tmp_path: Path) -> None:
    step = training_step(perceptron(), loss=CROSS, optimizer=adam(0.05), metrics=["accuracy"])
    step.save(tmp_path / "step.onnx")
    loaded = TrainingStep.load(tmp_path / "step.onnx")
    for field in ("batch_inputs", "loss", "metrics", "parameters", "optimizer_state", "carried", "optimizer"):
        assert getattr(loaded, field) == getattr(step, field), field
    for name, array in trained(step).items():
        np.testing.assert_array_equal(array, trained(loaded)[name])
    data = batches(1)[0]
    assert Trainer(loaded, threads=1).evaluate(data) == Trainer(step, threads=1).evaluate(data)


def test_what_is_no_training_step_is_not_loaded(tmp_path: Path) -> None:
    with pytest.raises(InvalidModelError, match="not a training step"):
        TrainingStep.load(perceptron())
    step = training_step(perceptron(), loss=CROSS, optimizer=adam(0.05))
    for damage in ('{"layout": 1}', "{", '{"layout": 99}'):
        model = step.model.clone()
        model.metadata_props[METADATA_KEY] = damage
        with pytest.raises(InvalidModelError):
            TrainingStep.load(model)


def test_the_given_model_is_not_changed() -> None:
    model = perceptron()
    before = model.SerializeToString(deterministic=True)
    training_step(model, loss=CROSS, optimizer=adam(), mode="train")
    assert model.SerializeToString(deterministic=True) == before
    given = ir.from_proto(model)
    training_step(given, loss=CROSS, optimizer=adam(), mode="train")
    assert ir.to_proto(given).SerializeToString(deterministic=True) == ir.to_proto(
        ir.from_proto(model)
    ).SerializeToString(deterministic=True)


def test_what_is_not_trained_stays_in_the_model() -> None:
    step = training_step(perceptron(), loss=CROSS, optimizer=sgd(0.1), trainable=["W2", "b2"])
    assert set(step.parameters) == {"W2", "b2"}
    assert {"W1", "b1"} <= set(step.model.graph.initializers)
    assert "W1" not in {value.name for value in step.model.graph.inputs}
    # by a trained parameter's share of the gradient: frozen or not, the others get the same first update
    everything = trained(training_step(perceptron(), loss=CROSS, optimizer=sgd(0.1)), 1)
    for name, array in trained(step, 1).items():
        np.testing.assert_allclose(array, everything[name], rtol=1e-13)


def test_trainable_takes_patterns() -> None:
    step = training_step(perceptron(), loss=CROSS, optimizer=sgd(0.1), trainable=["b*", "W1"])
    assert list(step.parameters) == ["b1", "b2", "W1"]


@pytest.mark.parametrize(
    ("trainable", "message"),
    [
        (["w1"], r"'w1', which fits no initializer.*did you mean 'W1'"),
        (["x"], r"'x', which is an input"),
        (["logits"], r"'logits', which the model computes"),
        (["q*"], r"'q\*', which fits no initializer"),
        ([], r"`trainable` names nothing"),
    ],
)
def test_a_wrong_trainable_name_is_named(trainable: list[str], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        training_step(perceptron(), loss=CROSS, optimizer=sgd(0.1), trainable=trainable)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"b9": "h"}, r"'b9', which is no initializer"),
        ({"b1": "hh"}, r"computes no 'hh'; did you mean 'h'"),
        ({"b1": "logits"}, r"'logits' has shape .*, but 'b1' has \[5\]"),
    ],
)
def test_a_wrong_state_is_named(state: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        training_step(perceptron(), loss=CROSS, optimizer=sgd(0.1), state=state)


def test_a_tensor_is_trained_or_carried_but_not_both() -> None:
    with pytest.raises(InvalidArgumentError, match=r"'b1' is in `trainable` and in `state`"):
        training_step(perceptron(), loss=CROSS, optimizer=sgd(0.1), trainable=["b1"], state={"b1": "a"})


def test_a_carried_tensor_takes_the_outputs_value() -> None:
    kind = TensorProto.DOUBLE
    nodes = [
        helper.make_node("Mul", ["W", "x"], ["p"]),
        helper.make_node("ReduceSum", ["p"], ["loss"], keepdims=0),
        helper.make_node("Add", ["memory", "x"], ["remembered"]),
    ]
    weights = {"W": np.ones((2, 3)), "memory": np.zeros((2, 3))}
    model = build(nodes, {"x": (kind, [2, 3])}, {"loss": (kind, [])}, weights)
    step = training_step(
        model, loss="loss", optimizer=sgd(0.1), state={"memory": "remembered"}, trainable=["W"]
    )
    trainer = Trainer(step, threads=1)
    seen = [rng(k).normal(size=(2, 3)) for k in range(3)]
    for x in seen:
        trainer.step({"x": x})
    np.testing.assert_allclose(trainer.parameters()["memory"], seen[0] + seen[1] + seen[2], rtol=1e-14)
    np.testing.assert_allclose(trainer.parameters()["W"], 1 - 0.1 * sum(seen), rtol=1e-13)


def test_of_a_loss_with_several_elements_the_sum_is_trained() -> None:
    scores = rng(21).normal(size=(3, 2))
    step = training_step(scores_model(scores), loss="scores", optimizer=sgd(0.5))
    trainer = Trainer(step, threads=1)
    assert trainer.step({"zero": np.zeros(())})["loss"] == pytest.approx(scores.sum())
    np.testing.assert_allclose(trainer.parameters()["W"], scores - 0.5, rtol=1e-14)


def test_names_that_are_taken_get_a_suffix() -> None:
    kind = TensorProto.DOUBLE
    nodes = [
        helper.make_node("Mul", ["W", "step"], ["W_next"]),
        helper.make_node("Mul", ["W_next", "learning_rate"], ["W/momentum"]),
        helper.make_node("ReduceSum", ["W/momentum"], ["loss"], keepdims=0),
        helper.make_node("Add", ["loss", "loss"], ["y"]),
    ]
    model = build(
        nodes,
        {"step": (kind, [2]), "learning_rate": (kind, [2])},
        {"y": (kind, [])},
        {"W": np.array([1.0, 2.0])},
    )
    step = training_step(model, loss=losses.mean_squared_error("y", "goal"), optimizer=sgd(0.1, momentum=0.9))
    assert step.step == "step_1"
    assert step.parameters == {"W": "W_next_1"}
    assert step.optimizer_state == {"W/momentum_1": "W/momentum_1_next"}
    trainer = Trainer(step, threads=1)
    first = {"step": np.array([1.0, 2.0]), "learning_rate": np.array([3.0, 1.0]), "goal": np.asarray(1.0)}
    error = 2 * (1 * 3 + 2 * 2 * 1) - 1.0
    assert trainer.step(first)["loss"] == pytest.approx(error**2)
    np.testing.assert_allclose(trainer.parameters()["W"], [1 - 0.1 * 4 * error * 3, 2 - 0.1 * 4 * error * 2])


def test_a_weight_without_influence_is_left_out_unless_it_is_named() -> None:
    kind = TensorProto.DOUBLE
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["y"]),
        helper.make_node("MatMul", ["x", "V"], ["z"]),
    ]
    weights = {"W": np.ones((2, 3)), "V": np.ones((2, 4))}
    outputs = {"y": (kind, [5, 3]), "z": (kind, [5, 4])}
    model = build(nodes, {"x": (kind, [5, 2])}, outputs, weights)
    loss = losses.mean_squared_error("y")
    assert list(training_step(model, loss=loss, optimizer=sgd(0.1)).parameters) == ["W"]
    with pytest.warns(NetgradWarning, match="'V' does not influence 'loss'"):
        step = training_step(model, loss=loss, optimizer=sgd(0.1), trainable=["W", "V"])
    trainer = Trainer(step, threads=1)
    trainer.step({"x": np.ones((5, 2)), "targets": np.zeros((5, 3))})
    np.testing.assert_array_equal(trainer.parameters()["V"], weights["V"])
    only = build(nodes[:1], {"x": (kind, [5, 2]), "W": (kind, [2, 3])}, {"y": (kind, [5, 3])}, {})
    with pytest.raises(InvalidArgumentError, match="nothing to train"):
        training_step(only, loss=loss, optimizer=sgd(0.1))


def test_metrics_are_those_of_the_batch_before_the_update() -> None:
    step = training_step(perceptron(), loss=CROSS, optimizer=sgd(0.1), metrics=["accuracy", accuracy(2)])
    batch = batches(1)[0]
    values = Trainer(step, threads=1).step(batch)
    w = step.initial
    scores = np.tanh(batch["x"] @ w["W1"] + w["b1"]) @ w["W2"] + w["b2"]
    order = np.argsort(-scores, axis=1)
    assert values["accuracy"] == pytest.approx((order[:, 0] == batch["labels"]).mean())
    assert values["accuracy_top_2"] == pytest.approx(
        (order[:, :2] == batch["labels"][:, None]).any(axis=1).mean()
    )


def test_accuracy_leaves_ignored_labels_out() -> None:
    scores = np.eye(4)[[0, 1, 2, 3, 0]] @ np.eye(4, 3)
    labels = np.array([0, 1, 1, -1, -1])
    step = training_step(
        scores_model(scores),
        loss=losses.cross_entropy(ignore_index=-1),
        optimizer=sgd(0.1),
        metrics=["accuracy", accuracy(2)],
    )
    values = Trainer(step, threads=1).step({"zero": np.zeros(()), "labels": labels})
    assert values["accuracy"] == pytest.approx(2 / 3)


def test_accuracy_of_soft_and_binary_labels() -> None:
    scores = rng(22).normal(size=(6, 3))
    soft = rng(23).dirichlet(np.ones(3), size=6)
    step = training_step(
        scores_model(scores), loss=losses.cross_entropy(soft=True), optimizer=sgd(0.1), metrics=["accuracy"]
    )
    values = Trainer(step, threads=1).step({"zero": np.zeros(()), "labels": soft})
    assert values["accuracy"] == pytest.approx((scores.argmax(1) == soft.argmax(1)).mean())
    labels = (soft > 0.4).astype(np.float64)
    step = training_step(
        scores_model(scores),
        loss=losses.binary_cross_entropy_on_scores(),
        optimizer=sgd(0.1),
        metrics=["accuracy"],
    )
    values = Trainer(step, threads=1).step({"zero": np.zeros(()), "labels": labels})
    assert values["accuracy"] == pytest.approx(((scores > 0) == (labels > 0.5)).mean())


def test_mean_absolute_error_and_a_named_output() -> None:
    scores = rng(24).normal(size=(4, 2))
    step = training_step(
        scores_model(scores),
        loss=losses.mean_squared_error(),
        optimizer=sgd(0.1),
        metrics=[mean_absolute_error()],
    )
    values = Trainer(step, threads=1).step({"zero": np.zeros(()), "targets": np.ones((4, 2))})
    assert values["mean_absolute_error"] == pytest.approx(np.abs(scores - 1).mean())
    model = given_gradients(W=np.ones((2, 3)))
    model.graph.output.append(helper.make_tensor_value_info("W_sum", TensorProto.DOUBLE, []))
    step = training_step(model, loss="loss", optimizer=sgd(0.1), metrics=["W_sum"])
    assert step.metrics == {"W_sum": "W_sum"}
    assert Trainer(step, threads=1).step({"W_slope": np.ones((2, 3))})["W_sum"] == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (["acuracy"], r"no metric 'acuracy'; did you mean 'accuracy'"),
        ([7], r"`metrics` holds 7"),
        (["mean_absolute_error"], r"compares numbers"),
    ],
)
def test_a_wrong_metric_is_named(metrics: list[Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        training_step(perceptron(), loss=CROSS, optimizer=sgd(0.1), metrics=metrics)
    with pytest.raises(InvalidArgumentError, match="the loss is an output"):
        training_step(perceptron(), loss="logits", optimizer=sgd(0.1), metrics=["accuracy"])


def test_momentum_is_folded_into_the_products_of_a_float32_model() -> None:
    step = training_step(perceptron(np.float32), loss=CROSS, optimizer=sgd(0.1, momentum=0.9))
    products = [node for node in step.model.graph if node.op_type == "Gemm"]
    folded = [node for node in products if node.attributes.get_float("beta", 1.0) == pytest.approx(0.9)]
    assert {node.inputs[2].name for node in folded if node.inputs[2]} == {"W1/momentum", "W2/momentum"}
    onnx.checker.check_model(ir.to_proto(step.model), full_check=True)
    exact = trained(training_step(perceptron(), loss=CROSS, optimizer=sgd(0.1, momentum=0.9)))
    # the float64 weights of the two models are equal only after rounding
    single = trained(step, dtype=np.float32)
    for name, array in exact.items():
        np.testing.assert_allclose(single[name], array, rtol=2e-5, atol=2e-6, err_msg=name)


def test_a_wrong_mode_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="'as-is' or 'train'"):
        training_step(perceptron(), loss=CROSS, optimizer=sgd(0.1), mode="eval")  # type: ignore[arg-type]
