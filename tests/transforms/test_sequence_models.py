"""Transformers in two forms and a GRU model: gradients by inputs and by all weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import numpy_helper

from netgrad.runtime.float64 import to_float64
from netgrad.transforms.grad import differentiate
from tests.onnx.encoder import encoder
from tests.onnx.gru_model import sequence_model
from tests.onnx.rules.table import runner
from tests.onnx.transformer import decoder, decoder_input, decoder_weights

LAYERS = 2
STEP, TOLERANCE = 1e-4, 1e-6

Arrays = Mapping[str, np.ndarray]


def _wide(arrays: Arrays) -> dict[str, np.ndarray]:
    return {k: v.astype(np.float64) if v.dtype.kind == "f" else v for k, v in arrays.items()}


def _real(arrays: Arrays) -> list[str]:
    return [k for k, v in arrays.items() if v.dtype.kind == "f" and k not in ("cos", "sin")]


def _cotangents(outputs: Arrays) -> Arrays:
    rng = np.random.default_rng(9)
    return {k: rng.normal(size=v.shape) for k, v in outputs.items()}


def _gradients(model: ir.Model, feeds: Arrays, weights: Arrays, cotangents: Arrays) -> Arrays:
    """The gradients by all real inputs and weights, of a model that passes the checker."""
    wrt = [*_real(feeds), *weights]
    gradient = differentiate(model, wrt=wrt, of=list(cotangents), cotangent="input")
    proto = ir.to_proto(gradient.model)
    onnx.checker.check_model(proto, full_check=True)
    dtype = next(v.dtype for v in feeds.values() if v.dtype.kind == "f")
    seeds = {gradient.seeds[k]: v.astype(dtype) for k, v in cotangents.items()}
    results = runner(proto)({**feeds, **seeds})
    return {k: results[gradient.outputs[k]] for k in wrt}


def _open(model: ir.Model, weights: Arrays) -> Callable[[Arrays], Arrays]:
    """The model as a function of its inputs and of its weights."""
    model = model.clone()
    for name in weights:
        model.graph.inputs.append(model.graph.initializers.pop(name))
    run = runner(ir.to_proto(model))
    return lambda at: run(dict(at))


def _check_directions(
    run: Callable[[Arrays], Arrays], point: Arrays, cotangents: Arrays, found: Arrays
) -> None:
    """Central differences along a random direction of each input and of each weight, in float64."""
    rng = np.random.default_rng(10)

    def objective(at: Arrays) -> float:
        results = run(at)
        return float(sum((results[k] * v).sum() for k, v in cotangents.items()))

    for k, gradient in found.items():
        direction = rng.normal(size=point[k].shape)
        high, low = ({**point, k: point[k] + sign * STEP * direction} for sign in (1, -1))
        want = (objective(high) - objective(low)) / (2 * STEP)
        assert np.linalg.norm(gradient) > 1e-3, f"by {k}: the derivative is zero, and the test could not fail"
        scale = max(abs(want), float(np.linalg.norm(gradient)))
        assert abs((gradient * direction).sum() - want) <= TOLERANCE * scale, f"by {k}"


@pytest.mark.parametrize("kind", ["causal", "masked", "cached"])
def test_both_forms_of_a_transformer(kind: str) -> None:
    feeds, weights = decoder_input(kind, LAYERS), decoder_weights(LAYERS)
    composed, fused = decoder("composed", kind, LAYERS), decoder("fused", kind, LAYERS)
    wide = to_float64(composed)
    outputs = runner(ir.to_proto(wide))(_wide(feeds))
    cotangents = _cotangents(outputs)
    exact = _gradients(wide, _wide(feeds), weights, cotangents)
    _check_directions(_open(wide, weights), _wide({**feeds, **weights}), cotangents, exact)
    for form in (composed, fused):
        results = runner(form)(dict(feeds))
        for name, array in outputs.items():
            np.testing.assert_allclose(results[name], array, rtol=1e-4, atol=1e-5)
        gradients = _gradients(ir.from_proto(form), feeds, weights, cotangents)
        for name, array in exact.items():
            scale = np.abs(array).max()
            np.testing.assert_allclose(gradients[name], array, rtol=1e-3, atol=1e-4 * scale, err_msg=name)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _gru(x: np.ndarray, h: np.ndarray, w: np.ndarray, r: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The last state of one sequence x[t, i], by the formulas of the standard with linear_before_reset."""
    size = len(h)
    for step in x:
        given, kept = w @ step + b[: 3 * size], r @ h + b[3 * size :]
        z, reset = (_sigmoid((given + kept)[k * size : (k + 1) * size]) for k in (0, 1))
        fresh = np.tanh(given[2 * size :] + reset * kept[2 * size :])
        h = (1 - z) * fresh + z * h
    return h


def _classified(at: Arrays) -> Arrays:
    """The sequence model in NumPy."""
    rows = []
    for k, length in enumerate(at["lengths"]):
        sequence = at["x"][:length, k]
        states = [
            _gru(part, at["start"][d, k], at["w"][d], at["r"][d], at["b"][d])
            for d, part in enumerate((sequence, sequence[::-1]))
        ]
        scores = np.tanh(np.concatenate(states)) @ at["w_out"] + at["b_out"]
        rows.append(scores - np.log(np.exp(scores).sum()))
    return {"return_val": np.stack(rows)}


def test_a_sequence_model_with_a_gru() -> None:
    proto, feeds = sequence_model()
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    point = _wide({**feeds, **weights})
    outputs = _classified(point)
    np.testing.assert_allclose(runner(proto)(dict(feeds))["return_val"], outputs["return_val"], atol=1e-5)
    cotangents = _cotangents(outputs)
    exact = _gradients(to_float64(proto), _wide(feeds), weights, cotangents)
    _check_directions(_classified, point, cotangents, exact)
    for name, gradient in _gradients(ir.from_proto(proto), feeds, weights, cotangents).items():
        np.testing.assert_allclose(gradient, exact[name], rtol=1e-3, atol=1e-5, err_msg=name)


def _optimized(proto: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """The model as ONNX Runtime's optimizer writes it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(path)


def _check_optimized(proto: onnx.ModelProto, feeds: Arrays, path: Path, expected: set[str]) -> None:
    """The optimizer's operators have the gradients of the operators that they were made of."""
    optimized = _optimized(proto, path)
    held = {node.op_type for node in optimized.graph.node}
    assert expected <= held, f"the optimizer wrote {sorted(held)}"
    before, after = ({tensor.name for tensor in model.graph.initializer} for model in (proto, optimized))
    weights = [tensor for tensor in proto.graph.initializer if tensor.name in before & after]
    kept = {tensor.name: numpy_helper.to_array(tensor) for tensor in weights}
    assert len(kept) >= 4, f"of the weights remain {sorted(kept)}"
    outputs = runner(proto)(dict(feeds))
    cotangents = _cotangents(outputs)
    want = _gradients(ir.from_proto(proto), feeds, kept, cotangents)
    found = _gradients(ir.from_proto(optimized), feeds, kept, cotangents)
    for name, array in want.items():
        assert np.linalg.norm(array) > 1e-3, name
        np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("kind", ["causal", "masked", "cached"])
def test_a_transformer_that_was_optimized(kind: str, tmp_path: Path) -> None:
    expected = {"SimplifiedLayerNormalization", "FusedMatMul", "QuickGelu"}
    proto = decoder("composed", kind, LAYERS)
    _check_optimized(proto, decoder_input(kind, LAYERS), tmp_path / "model.onnx", expected)


def test_an_encoder_that_was_optimized(tmp_path: Path) -> None:
    expected = {"Attention", "SkipLayerNormalization", "BiasGelu"}
    _check_optimized(*encoder(), tmp_path / "model.onnx", expected)
