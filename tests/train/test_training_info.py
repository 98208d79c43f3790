"""A training step as the standard's training_info, and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper, parser

import netgrad
from netgrad.core.errors import InvalidArgumentError, InvalidModelError
from tests.train.models import normalised, perceptron, rng

Array = np.ndarray[Any, np.dtype[Any]]


def _batch(seed: int, dtype: type = np.float32) -> dict[str, Array]:
    r = rng(seed)
    return {"x": r.normal(size=(6, 3)).astype(dtype), "labels": r.integers(0, 4, size=6)}


def _classifier_step(**more: Any) -> netgrad.TrainingStep:
    return netgrad.training_step(
        perceptron(np.float32),
        loss=netgrad.losses.cross_entropy(scores="logits", labels="labels"),
        optimizer=netgrad.optimizers.adam(0.05),
        metrics=["accuracy"],
        **more,
    )


def joined(model: onnx.ModelProto) -> onnx.ModelProto:
    """What runs in a training step by the standard: the graph, and behind it the algorithm."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    del whole.training_info[:]
    algorithm = model.training_info[0].algorithm
    for field in ("input", "initializer", "node", "output"):
        getattr(whole.graph, field).extend(getattr(algorithm, field))
    return whole


def run_by_the_standard(model: onnx.ModelProto, feeds: list[dict[str, Array]]) -> list[dict[str, Array]]:
    """Run steps as training_info describes them, with an ordinary session and nothing of netgrad."""
    info = model.training_info[0]
    bindings = {entry.key: entry.value for entry in info.update_binding}
    imports = list(model.opset_import)
    initialization = helper.make_model(
        info.initialization, opset_imports=imports, ir_version=model.ir_version
    )
    onnx.checker.check_model(initialization, full_check=True)
    first = onnxruntime.InferenceSession(
        initialization.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in first.get_outputs()]
    values = dict(zip(names, first.run(None, {}), strict=True))
    variables = {entry.key: values[entry.value] for entry in info.initialization_binding}
    whole = joined(model)
    steps = []
    for batch in feeds:
        for tensor in whole.graph.initializer:
            if tensor.name in variables:
                tensor.CopyFrom(numpy_helper.from_array(np.asarray(variables[tensor.name]), tensor.name))
        onnx.checker.check_model(whole, full_check=True)
        session = onnxruntime.InferenceSession(whole.SerializeToString(), providers=["CPUExecutionProvider"])
        outputs = [value.name for value in session.get_outputs()]
        results = dict(zip(outputs, session.run(None, batch), strict=True))
        variables = {key: results[value] for key, value in bindings.items()}
        steps.append(results)
    return steps


def trained(
    step: netgrad.TrainingStep, feeds: list[dict[str, Array]]
) -> tuple[list[Any], Mapping[str, Array]]:
    trainer = netgrad.Trainer(step, seed=3)
    return [trainer.step(batch) for batch in feeds], trainer.parameters()


FEEDS = [_batch(seed) for seed in range(4)]


def test_the_model_passes_the_checker_and_keeps_its_graph() -> None:
    step = _classifier_step()
    model = step.to_training_info()
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["MatMul", "Add", "Tanh", "Gemm"]
    (info,) = model.training_info
    tensors = {tensor.name for tensor in (*model.graph.initializer, *info.algorithm.initializer)}
    outputs = {value.name for value in info.algorithm.output}
    keys = [entry.key for entry in info.update_binding]
    assert len(set(keys)) == len(keys)
    assert set(keys) <= tensors
    assert {entry.value for entry in info.update_binding} <= outputs
    assert {"W1", "b1", "W2", "b2", "W1/first_moment", "step"} <= set(keys)
    # the forward pass is not written a second time: its values are read
    forward = {name for node in model.graph.node for name in node.output}
    assert not forward & {name for node in info.algorithm.node for name in node.output}
    assert forward & {name for node in info.algorithm.node for name in node.input}
    assert [value.name for value in info.algorithm.input] == ["labels", "learning_rate"]


def test_a_session_that_follows_the_standard_trains_as_the_step() -> None:
    step = _classifier_step()
    want, weights = trained(step, FEEDS)
    results = run_by_the_standard(step.to_training_info(), FEEDS)
    for got, values in zip(results, want, strict=True):
        assert float(got["loss"]) == pytest.approx(values["loss"], rel=1e-6)
        assert float(got["accuracy"]) == values["accuracy"]
    for name, value in weights.items():
        np.testing.assert_allclose(results[-1][f"{name}_next"], value, rtol=1e-5, atol=1e-7)


def test_reading_it_back_gives_the_same_numbers(tmp_path: Path) -> None:
    step = _classifier_step()
    want, weights = trained(step, FEEDS)
    netgrad.save(step.to_training_info(), tmp_path / "model.onnx")
    back = netgrad.TrainingStep.from_training_info(tmp_path / "model.onnx")
    got, again = trained(back, FEEDS)
    assert got == want
    for name, value in weights.items():
        np.testing.assert_array_equal(again[name], value)
    for what in ("batch_inputs", "loss", "metrics", "parameters", "optimizer_state", "step", "optimizer"):
        assert getattr(back, what) == getattr(step, what)
    trainer = netgrad.Trainer(back)
    trainer.step(FEEDS[0])
    trainer.export(tmp_path / "trained.onnx")
    kept = onnx.load(tmp_path / "trained.onnx")
    assert [node.op_type for node in kept.graph.node] == ["MatMul", "Add", "Tanh", "Gemm"]
    assert not kept.training_info


@pytest.mark.parametrize("mode", ["as-is", "train"])
def test_batch_normalization_and_carried_statistics(mode: Any) -> None:
    step = netgrad.training_step(
        normalised(),
        loss=netgrad.losses.mean_squared_error("y", "wanted"),
        optimizer=netgrad.optimizers.sgd(0.1, momentum=0.9),
        mode=mode,
    )
    r = rng(8)
    feeds = [{"x": r.normal(size=(5, 3)), "wanted": r.normal(size=(5, 3))} for _ in range(3)]
    model = step.to_training_info()
    onnx.checker.check_model(model, full_check=True)
    want, weights = trained(step, feeds)
    back = netgrad.TrainingStep.from_training_info(model)
    got, again = trained(back, feeds)
    assert got == want
    assert bool(back.carried) == (mode == "train")
    for name, value in weights.items():
        np.testing.assert_array_equal(again[name], value)
    results = run_by_the_standard(model, feeds)
    written = {name for node in model.graph.node for name in node.output}
    again_written = {name for node in model.training_info[0].algorithm.node for name in node.output}
    assert not written & again_written
    assert float(results[-1][back.loss]) == pytest.approx(want[-1]["loss"], rel=1e-9)


def test_a_loss_that_is_an_output_and_one_that_is_not() -> None:
    model = perceptron(np.float32)
    model.graph.node.append(helper.make_node("ReduceSumSquare", ["logits"], ["energy"], keepdims=0))
    for exposed in (False, True):
        if exposed:
            model.graph.output.append(helper.make_tensor_value_info("energy", onnx.TensorProto.FLOAT, []))
        step = netgrad.training_step(model, loss="energy", optimizer=netgrad.optimizers.sgd(0.01))
        feeds = [{"x": batch["x"]} for batch in FEEDS]
        written = step.to_training_info()
        onnx.checker.check_model(joined(written), full_check=True)
        back = netgrad.TrainingStep.from_training_info(written)
        assert [one["loss"] for one in trained(back, feeds)[0]] == [
            one["loss"] for one in trained(step, feeds)[0]
        ]


def test_dropout_in_training_mode() -> None:
    nodes = parser.parse_model("""
        <ir_version: 10, opset_import: ["": 18]>
        g (float[n, 8] x) => (float[n, 8] y) {
            hidden = Mul(x, weight)
            y, mask = Dropout(hidden)
        }
    """)
    nodes.graph.initializer.append(numpy_helper.from_array(np.ones(8, np.float32), "weight"))
    step = netgrad.training_step(
        nodes,
        loss=netgrad.losses.mean_squared_error("y", "t"),
        optimizer=netgrad.optimizers.sgd(0.1),
        mode="train",
    )
    back = netgrad.TrainingStep.from_training_info(step.to_training_info())
    r = rng(4)
    feeds = [{name: r.normal(size=(4, 8)).astype(np.float32) for name in ("x", "t")} for _ in range(3)]
    assert back.seed is not None
    assert trained(back, feeds)[0] == trained(step, feeds)[0]


# ---- what others write -----------------------------------------------------------------------------------


def _standard_model() -> onnx.ModelProto:
    """A linear model with Gradient and Adam in its algorithm, and an initialization that draws the state."""
    model = parser.parse_model("""
        <ir_version: 10, opset_import: ["": 18, "ai.onnx.preview.training": 1]>
        linear (float[n, 3] x) => (float[n, 2] y) { y = MatMul(x, w) }
    """)
    w = np.array([[0.5, -1.0], [0.25, 0.75], [-0.5, 1.0]], np.float32)
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    algorithm = parser.parse_graph("""
        algorithm (float[n, 2] t) =>
            (float loss, float[3, 2] w_new, float[3, 2] v_new, float[3, 2] h_new, int64 c_new)
        {
            difference = Sub(y, t)
            loss = ReduceSumSquare <keepdims = 0> (difference)
            g = ai.onnx.preview.training.Gradient <xs = ["w"], zs = ["x", "t"], y = "loss"> (w, x, t)
            w_new, v_new, h_new = ai.onnx.preview.training.Adam <alpha = 0.9, beta = 0.99> (r, c, w, g, v, h)
            one = Constant <value = int64 {1}> ()
            c_new = Add(c, one)
        }
    """)
    zeros = np.zeros((3, 2), np.float32)
    for name, array in {"r": np.float32(0.05), "c": np.int64(7), "v": zeros, "h": zeros}.items():
        algorithm.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    info = model.training_info.add()
    info.algorithm.CopyFrom(algorithm)
    for key in ("w", "v", "h", "c"):
        info.update_binding.add(key=key, value=f"{key}_new")
    info.initialization.CopyFrom(
        parser.parse_graph("start () => (int64 zero) { zero = Constant <value = int64 {0}> () }")
    )
    info.initialization_binding.add(key="c", value="zero")
    return model


def test_an_algorithm_of_the_standards_operators_trains() -> None:
    step = netgrad.TrainingStep.from_training_info(_standard_model())
    assert step.batch_inputs == ("x", "t")
    assert step.parameters == {"w": "w_new"}
    assert step.optimizer_state == {"v": "v_new", "h": "h_new"}
    assert (step.step, step.learning_rate, step.loss) == ("c", "r", "loss")
    assert step.initial["c"] == 0
    r = rng(11)
    feeds = [
        {"x": r.normal(size=(4, 3)).astype("f"), "t": r.normal(size=(4, 2)).astype("f")} for _ in range(5)
    ]
    _, weights = trained(step, feeds)
    (tensor,) = _standard_model().graph.initializer
    w = numpy_helper.to_array(tensor).astype(np.float64)
    v, h = np.zeros_like(w), np.zeros_like(w)
    for count, batch in enumerate(feeds):  # the formulas of the standard
        x, t = batch["x"].astype(np.float64), batch["t"].astype(np.float64)
        g = 2 * x.T @ (x @ w - t)
        v, h = 0.9 * v + 0.1 * g, 0.99 * h + 0.01 * g * g
        rate = 0.05 * np.sqrt(1 - 0.99**count) / (1 - 0.9**count) if count else 0.05
        w = w - rate * v / (np.sqrt(h) + 1e-6)
    np.testing.assert_allclose(weights["w"], w, rtol=1e-4)


def test_without_a_count_the_steps_are_counted_all_the_same() -> None:
    model = _standard_model()
    info = model.training_info[0]
    del info.update_binding[-1]
    del info.initialization_binding[:]
    del info.algorithm.output[-1]
    step = netgrad.TrainingStep.from_training_info(model)
    trainer = netgrad.Trainer(step)
    batch = {"x": np.ones((4, 3), np.float32), "t": np.ones((4, 2), np.float32)}
    for _ in range(3):
        trainer.step(batch)
    assert trainer.steps == 3
    assert step.step == "step"


def test_load_and_save_keep_training_info(tmp_path: Path) -> None:
    model = _standard_model()
    for index, external in enumerate((None, 0)):
        path = tmp_path / f"{index}.onnx"
        big = onnx.ModelProto()
        big.CopyFrom(model)
        big.graph.initializer.append(numpy_helper.from_array(np.ones(1000, np.float32), "big"))
        netgrad.save(netgrad.load(netgrad.load(big)), path, external_above=external)
        assert onnx.load(path, load_external_data=False).training_info == model.training_info
    given = onnx.ModelProto()
    given.CopyFrom(model)  # the function changes what it is given
    onnx.save(given, tmp_path / "given.onnx", save_as_external_data=True, size_threshold=0)
    (tmp_path / "elsewhere").mkdir()
    netgrad.save(tmp_path / "given.onnx", tmp_path / "elsewhere" / "copy.onnx")
    assert onnx.load(tmp_path / "elsewhere" / "copy.onnx").training_info == model.training_info
    gradient = netgrad.grad(model, wrt="w")
    netgrad.save(gradient, tmp_path / "gradient.onnx")
    assert not onnx.load(tmp_path / "gradient.onnx").training_info


def _broken(how: str) -> tuple[onnx.ModelProto, dict[str, Any]]:
    model = _standard_model()
    info = model.training_info[0]
    if how == "no initializer":
        info.update_binding[0].key = "x"
    elif how == "no output":
        info.update_binding[0].value = "g"
    elif how == "initialization":
        info.initialization_binding[0].key = "x"
    elif how == "rate":
        return model, {"learning_rate": "t"}
    elif how == "loss":
        return model, {"loss": "lost"}
    elif how == "index":
        return model, {"index": 1}
    else:
        del model.training_info[:]
    return model, {}


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("none", InvalidModelError, "has no training_info"),
        ("no initializer", InvalidModelError, "updates 'x', which is no initializer"),
        ("no output", InvalidModelError, "'g', which is no output"),
        ("initialization", InvalidModelError, "initializes 'x', which is no initializer"),
        ("rate", InvalidArgumentError, "which tensor of the training_info is the learning rate"),
        ("loss", InvalidArgumentError, "there is no output 'lost'; did you mean 'loss'"),
        ("index", InvalidArgumentError, "`index` is 1; the model has 1 entries"),
    ],
)
def test_what_does_not_fit_is_said(how: str, error: type[Exception], message: str) -> None:
    model, options = _broken(how)
    with pytest.raises(error, match=message):
        netgrad.TrainingStep.from_training_info(model, **options)


def test_a_step_from_a_file_has_no_model_to_write(tmp_path: Path) -> None:
    step = _classifier_step()
    step.save(tmp_path / "step.onnx")
    with pytest.raises(InvalidArgumentError, match="does not have the model that it trains"):
        netgrad.TrainingStep.load(tmp_path / "step.onnx").to_training_info()
