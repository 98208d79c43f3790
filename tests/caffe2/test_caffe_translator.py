"""Models of Caffe as nets, against what their layers compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

from netgrad import caffe2
from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.python import utils, workspace
from netgrad.caffe2.python.caffe_translator import (
    ConvertTensorProtosToInitNet,
    TranslateModel,
    TranslatorRegistry,
    caffe_pb2,
)
from netgrad.caffe2.python.caffe_translator.__main__ import main

LENET = """
name: "small"
input: "data"
input_dim: 1 input_dim: 2 input_dim: 7 input_dim: 7
layer { name: "train_only" type: "Unknown" include { phase: TRAIN } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
        convolution_param { num_output: 3 kernel_size: 2 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" relu_param { negative_slope: 0.5 } }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool"
        pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
layer { name: "bn" type: "BatchNorm" bottom: "pool" top: "bn" batch_norm_param { eps: 0.1 } }
layer { name: "scale" type: "Scale" bottom: "bn" top: "scaled" scale_param { bias_term: true } }
layer { name: "fc" type: "InnerProduct" bottom: "scaled" top: "fc" inner_product_param { num_output: 4 } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }
"""


def _trained(random: np.random.Generator) -> dict[str, list[Any]]:
    return {
        "conv": [random.normal(size=(3, 2, 2, 2)), random.normal(size=3)],
        "bn": [random.normal(size=3), random.uniform(1, 2, 3), np.array([2.0])],
        "scale": [random.normal(size=3), random.normal(size=3)],
        "fc": [random.normal(size=(4, 27)), random.normal(size=4)],
    }


def _model(layers: dict[str, list[Any]]) -> Any:
    model = caffe_pb2.NetParameter()
    for name, arrays in layers.items():
        layer = model.layer.add(name=name)
        for array in arrays:
            layer.blobs.add(data=array.reshape(-1), shape=caffe_pb2.BlobShape(dim=array.shape))
    return model


def _computed(layers: dict[str, list[Any]], x: Any) -> Any:
    """Layer by layer: a pool of 6 x 6 by 3 with stride 2 has 3 x 3 outputs, the last of which are cut."""
    w, b = layers["conv"]
    conv = np.zeros((3, 6, 6))
    for row, column in np.ndindex(6, 6):
        conv[:, row, column] = (w * x[0, :, row : row + 2, column : column + 2]).sum((1, 2, 3)) + b
    conv = np.where(conv > 0, conv, 0.5 * conv)
    pool = np.zeros((3, 3, 3))
    for row, column in np.ndindex(3, 3):
        pool[:, row, column] = conv[:, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3].max((1, 2))
    mean, variance, divisor = layers["bn"]
    normal = (pool - (mean / divisor)[:, None, None]) / np.sqrt((variance / divisor)[:, None, None] + 0.1)
    scale, bias = layers["scale"]
    scores = (
        layers["fc"][0] @ (normal * scale[:, None, None] + bias[:, None, None]).reshape(-1) + layers["fc"][1]
    )
    return np.exp(scores) / np.exp(scores).sum()


def _caffe_net(text: str) -> Any:
    return text_format.Parse(text, caffe_pb2.NetParameter())


@pytest.mark.parametrize("plain", [False, True])
def test_a_model_computes_what_its_layers_do(plain: bool) -> None:
    random = np.random.default_rng(6)
    layers, x = _trained(random), random.normal(size=(1, 2, 7, 7)).astype(np.float32)
    net, parameters = TranslateModel(_caffe_net(LENET), _model(layers), is_test=True, remove_legacy_pad=plain)
    arguments = {argument.name for op in net.op for argument in op.arg}
    assert ("legacy_pad" in arguments) != plain
    workspace.RunNetOnce(ConvertTensorProtosToInitNet(parameters, "data"))
    workspace.FeedBlob("data", x)
    workspace.RunNetOnce(net)
    np.testing.assert_allclose(workspace.FetchBlob("prob")[0], _computed(layers, x), rtol=1e-4)


def test_pads_that_make_up_for_the_rounding() -> None:
    pool = _caffe_net(LENET)
    net, _ = TranslateModel(
        pool, _model(_trained(np.random.default_rng(6))), is_test=True, remove_legacy_pad=True
    )
    (op,) = (op for op in net.op if op.type == "MaxPool")
    pads = {argument.name: argument.i for argument in op.arg if argument.name.startswith("pad")}
    assert pads == {"pad_l": 0, "pad_t": 0, "pad_r": 1, "pad_b": 1}


def test_the_command_writes_both_nets(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    layers, x = _trained(random), random.normal(size=(1, 2, 7, 7)).astype(np.float32)
    (tmp_path / "net.prototxt").write_text(LENET + 'layer_of_another_fork { name: "x" }')
    (tmp_path / "net.caffemodel").write_bytes(_model(layers).SerializeToString())
    names = [f"--{name}={tmp_path / name}.pb" for name in ("init_net", "predict_net")]
    main([str(tmp_path / "net.prototxt"), str(tmp_path / "net.caffemodel"), *names])
    net = NetDef.FromString((tmp_path / "predict_net.pb").read_bytes())
    init = NetDef.FromString((tmp_path / "init_net.pb").read_bytes())
    assert list(net.external_output) == ["prob"]
    filled = {name: value for name, value in caffe2.run(init, {}).items() if name != "data"}
    found = caffe2.run(net, {**filled, "data": x}, ["prob"])
    np.testing.assert_allclose(found["prob"][0], _computed(layers, x), rtol=1e-4)


def _single(text: str, *arrays: Any, state: Any = None, dims: Any = (2, 3, 5, 5)) -> Any:
    net, parameters = TranslateModel(
        _caffe_net(text), _model({"it": list(arrays)}), is_test=True, input_dims=dims, net_state=state
    )
    values = {tensor.name: utils.Caffe2TensorToNumpyArray(tensor) for tensor in parameters.protos}
    return net, values


X = np.random.default_rng(9).normal(size=(2, 3, 5, 5)).astype(np.float32)


@pytest.mark.parametrize(
    ("layer", "arrays", "formula"),
    [
        ('type: "TanH"', [], np.tanh),
        ('type: "PReLU"', [np.array([0.5])], lambda x: np.where(x > 0, x, 0.5 * x)),
        ('type: "Dropout"', [], lambda x: x),
        ('type: "Flatten"', [], lambda x: x.reshape(2, 75)),
        ('type: "Reshape" reshape_param { shape { dim: 0 dim: -1 } }', [], lambda x: x.reshape(2, 75)),
        ('type: "Reduction" reduction_param { axis: -2 operation: MEAN }', [], lambda x: x.mean((2, 3))),
        ('type: "Eltwise" bottom: "x"', [], lambda x: 2 * x),
        ('type: "Concat" bottom: "x" concat_param { axis: 2 }', [], lambda x: np.concatenate([x, x], 2)),
        (
            'type: "Pooling" pooling_param { pool: AVE global_pooling: true }',
            [],
            lambda x: x.mean((2, 3), keepdims=True),
        ),
        (
            'type: "InnerProduct" inner_product_param { bias_term: false }',
            [np.eye(75)[None, None, :2]],
            lambda x: x.reshape(2, 75)[:, :2],
        ),
    ],
)
def test_single_layers(layer: str, arrays: list[Any], formula: Any) -> None:
    net, values = _single(f'layer {{ name: "it" bottom: "x" top: "y" {layer} }}', *arrays)
    found = caffe2.run(net, {**values, "x": X}, ["y"])["y"]
    np.testing.assert_allclose(found, formula(X), rtol=1e-5, atol=1e-6)


def test_a_crop_is_as_large_as_another_blob() -> None:
    text = """
    layer { name: "pool" type: "Pooling" bottom: "x" top: "p" pooling_param { kernel_size: 3 stride: 1 } }
    layer { name: "it" type: "Crop" bottom: "x" bottom: "p" top: "y" crop_param { axis: 2 offset: 1 } }
    """
    net, _ = _single(text)
    np.testing.assert_array_equal(caffe2.run(net, {"x": X}, ["y"])["y"], X[:, :, 1:4, 1:4])


def test_layers_are_there_by_their_rules() -> None:
    text = """
    layer { name: "a" type: "TanH" bottom: "x" top: "a" include { stage: "deploy" min_level: 1 } }
    layer { name: "b" type: "TanH" bottom: "x" top: "b" exclude { stage: "deploy" } }
    layer { name: "c" type: "TanH" bottom: "x" top: "c" include { not_stage: "deploy" }
            include { max_level: 3 } }
    """
    state = caffe_pb2.NetState(level=2, stage=["deploy"])
    assert [op.output[0] for op in _single(text, state=state)[0].op] == ["a", "c"]
    assert [op.output[0] for op in _single(text)[0].op] == ["b", "c"]


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ('type: "Deconvolution" convolution_param { group: 2 }', "it has groups"),
        ('type: "LRN" lrn_param { norm_region: WITHIN_CHANNEL }', "normalizes within channels"),
        ('type: "Eltwise" eltwise_param { operation: MAX }', "no sum without coefficients"),
        ('type: "Pooling" pooling_param { pool: STOCHASTIC }', "neither takes maxima nor means"),
        ('type: "Softmax" softmax_param { axis: 2 }', "its axis is 2"),
        ('type: "Flatten" flatten_param { axis: 2 }', "flattens the axes from 2"),
    ],
)
def test_layers_in_forms_that_are_not_translated(layer: str, message: str) -> None:
    with pytest.raises(NotImplementedError, match=f"layer 'it'.*{message}"):
        _single(f'layer {{ name: "it" bottom: "x" top: "y" {layer} }}')


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(KeyError, match="layer 'it' has the type 'Odd', which is not translated"):
        _single('layer { name: "it" type: "Odd" }')
    with pytest.raises(ValueError, match="has 2 trained arrays or more, and there are 0"):
        _single('layer { name: "it" type: "InnerProduct" bottom: "x" top: "y" }')
    with pytest.raises(ValueError, match="layers in the old style"):
        _single('layers { name: "it" }')
    zeros = [np.zeros(3), np.ones(3), np.zeros(1)]
    with pytest.raises(ValueError, match="never trained"):
        _single('layer { name: "it" type: "BatchNorm" bottom: "x" top: "y" }', *zeros)


def test_layers_of_ones_own() -> None:
    @TranslatorRegistry.Register("Twice")
    def translate(layer: Any, arrays: Any, is_test: bool, **_: Any) -> Any:
        return caffe2.caffe2_pb2.OperatorDef(type="Sum", input=[layer.bottom[0]] * 2, output=layer.top), []

    try:
        net, _ = _single('layer { name: "it" type: "Twice" bottom: "x" top: "y" }')
    finally:
        del TranslatorRegistry.registry_["Twice"]
    np.testing.assert_allclose(caffe2.run(net, {"x": X}, ["y"])["y"], 2 * X)
