"""Quantisation-aware training: a network as ONNX Runtime's own quantiser writes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import netgrad

WEIGHTS = {"cw": (4, 1, 3, 3), "cb": (4,), "dw": (6, 4, 3, 3), "db": (6,), "gw": (24, 3), "gb": (3,)}
X = np.random.default_rng(1).normal(size=(64, 1, 8, 8)).astype(np.float32)


class Batches(CalibrationDataReader):
    def __init__(self) -> None:
        self._rest: Iterator[np.ndarray] = iter(np.split(X, 8))

    def get_next(self) -> dict[str, np.ndarray] | None:
        batch = next(self._rest, None)
        return None if batch is None else {"x": batch}


@pytest.fixture
def network() -> onnx.ModelProto:
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18]> net (float[n, 1, 8, 8] x) => (float[n, 3] y) '
        "{ c = Conv <pads = [1, 1, 1, 1]> (x, cw, cb) r = Relu (c) "
        "p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r) d = Conv (p, dw, db) s = Relu (d) "
        "f = Flatten (s) y = Gemm (f, gw, gb) }"
    )
    rng = np.random.default_rng(0)
    for name, shape in WEIGHTS.items():
        values = (0.3 * rng.normal(size=shape)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    return model


@pytest.mark.parametrize("per_channel", [False, True])
def test_a_network_of_the_runtimes_quantiser_trains(
    network: onnx.ModelProto, per_channel: bool, tmp_path: Path
) -> None:
    onnx.save(network, tmp_path / "float.onnx")
    quantize_static(
        tmp_path / "float.onnx",
        tmp_path / "quantised.onnx",
        Batches(),
        quant_format=QuantFormat.QDQ,
        per_channel=per_channel,
        reduce_range=True,  # products of 8 bits saturate in the runtime on processors without VNNI
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        extra_options={"AddQDQPairToWeight": True, "QuantizeBias": False},
    )
    quantised = onnx.load(tmp_path / "quantised.onnx")
    assert Counter(node.op_type for node in quantised.graph.node)["QuantizeLinear"] >= 8
    labels = np.argmax(X.reshape(64, -1) @ np.random.default_rng(2).normal(size=(64, 3)), axis=1)
    step = netgrad.training_step(
        quantised,
        loss=netgrad.losses.cross_entropy("y", "labels"),
        optimizer=netgrad.optimizers.adam(0.01),
        trainable=WEIGHTS,
        straight_through=True,
    )
    trainer = netgrad.Trainer(step)
    losses = [float(trainer.step({"x": X, "labels": labels})["loss"]) for _ in range(60)]
    assert losses[-1] < 0.5 * losses[0]

    # As far as the model is that of real numbers, so is its gradient: the two differ by rounding to 8 bits.
    dy = np.random.default_rng(3).normal(size=(64, 3)).astype(np.float32)
    found = {}
    for name, model in (("float", network), ("quantised", quantised)):
        gradient = netgrad.grad(model, wrt=["dw", "gw"], cotangent="input", straight_through=True)
        found[name] = netgrad.run(gradient, {"x": X, "y_grad": dy})
    for name in ("y", "dw_grad", "gw_grad"):
        real, rounded = found["float"][name], found["quantised"][name]
        assert np.linalg.norm(rounded - real) < 0.2 * np.linalg.norm(real), name
