"""Layers of dense columns, against formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import brew, layer_model_instantiator, schema, workspace
from netgrad.caffe2.python.layers.fc import FC, get_fc_predictor_version
from netgrad.caffe2.python.normalizer import BatchNormalizer, LayerNormalizer
from tests.caffe2.layers.models import fed, model, normal, train, types, value


def _fetched(*blobs: Any) -> list[Any]:
    return [workspace.FetchBlob(blob) for blob in blobs]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("max_fc_size", [None, 8])
@pytest.mark.parametrize("axis", [1, 2])
def test_fully_connected(transposed: bool, max_fc_size: int | None, axis: int) -> None:
    made, x = model(), normal(2, 3, 4) if axis == 2 else normal(5, 4)
    output = made.FC(fed(made, x=x).x, 5, axis=axis, transposed=transposed, max_fc_size=max_fc_size)
    assert output.field_type() == np.dtype((np.float32, (3, 5) if axis == 2 else (5,)))
    train(made)
    count = 1 if max_fc_size is None else 3  # of 2, 2 and 1 outputs
    blobs = _fetched(*made.layers[0].param_blobs)
    assert len(blobs) == 2 * count
    weight = np.concatenate([w if transposed else w.T for w in blobs[:count]], 1)
    expected = x @ weight + np.concatenate(blobs[count:])
    np.testing.assert_allclose(value(output), expected, rtol=1e-4, atol=1e-6)


def test_parts_of_a_fully_connected_layer() -> None:
    assert FC.calculate_fc_output_dims(None, 4, 5) is None
    assert FC.calculate_fc_output_dims(8, 4, 5) == [2, 2, 1]
    assert FC.calculate_fc_output_dims(100, 4, 5) == [5]
    with pytest.raises(AssertionError, match="max_fc_size 3"):
        FC.calculate_fc_output_dims(3, 4, 5)


def test_clipped_parameters() -> None:
    made, x = model(), normal(3, 4)
    output = made.FC(
        fed(made, x=x).x, 2, clip_param=(-0.1, 0.2), weight_init=("ConstantFill", {"value": 1.0})
    )
    train(made)
    bias = workspace.FetchBlob(made.layers[0].b)
    np.testing.assert_allclose(
        value(output), x @ np.full((4, 2), 0.2) + np.clip(bias, -0.1, 0.2), rtol=1e-4, atol=1e-6
    )
    for wrong in ((None, None), (0.2, 0.1), (1.0,)):
        with pytest.raises(AssertionError, match="clip"):
            made.FC(fed(made, x=x).x, 2, clip_param=wrong)


def test_the_precision_of_predictions_is_asked_for_by_a_scope() -> None:
    made = model()
    made.output_schema = made.FC(fed(made, x=normal(3, 4)).x, 2)
    assert types(layer_model_instantiator.generate_predict_net(made)) == ["FC"]
    with (
        brew.arg_scope([get_fc_predictor_version], fc_version="fp32"),
    ):
        assert types(layer_model_instantiator.generate_predict_net(made)) == ["FC"]
    with (
        brew.arg_scope(get_fc_predictor_version, fc_version="other"),
        pytest.raises(ValueError, match="other"),
    ):
        layer_model_instantiator.generate_predict_net(made)


def test_without_bias_and_with_it_alone() -> None:
    made, x = model(), normal(3, 4)
    record = fed(made, x=x)
    product, shifted = made.FCWithoutBias(record.x, 2), made.AddBias(record.x)
    train(made)
    w, b = _fetched(made.layers[0].w, made.layers[1].b)
    np.testing.assert_allclose(value(product), x @ w.T, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(value(shifted), x + b, rtol=1e-6)


def test_bootstrapped() -> None:
    made, x = model(), normal(6, 4)
    output = made.FCWithBootstrap(fed(made, x=x).x, output_dims=1, num_bootstrap=2)
    made.output_schema = output
    train(made)
    params = _fetched(*made.layers[0].param_blobs)
    for at in range(2):
        rows, found = value(output[2 * at]), value(output[2 * at + 1])
        assert rows.shape == (6,)
        assert ((rows >= 0) & (rows < 6)).all()
        expected = x[rows] @ params[2 * at].T + params[2 * at + 1]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    workspace.RunNetOnce(layer_model_instantiator.generate_predict_net(made))
    np.testing.assert_allclose(value(output[1]), x @ params[0].T + params[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("s", [0, 1, 2, 3])
@pytest.mark.parametrize("constant", [False, True])
def test_random_features(s: int, constant: bool) -> None:
    made, x = model(), normal(3, 4)
    record = fed(made, x=x)
    arc = made.ArcCosineFeatureMap(record.x, 5, s=s, set_weight_as_global_constant=constant)
    semi = made.SemiRandomFeatures(record.x, 5, s=s, set_weight_as_global_constant=constant)
    train(made)

    def features(layer: Any) -> Any:
        w, b = _fetched(layer.random_w, layer.random_b)
        z = x @ w.T + b
        powers = z**s if s else z / (1 + np.abs(z))
        return np.where(z > 0, powers, 0)

    np.testing.assert_allclose(value(arc), features(made.layers[0]), rtol=1e-4, atol=1e-5)
    w, b = _fetched(made.layers[1].learned_w, made.layers[1].learned_b)
    np.testing.assert_allclose(value(semi.random), features(made.layers[1]), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        value(semi.full), features(made.layers[1]) * (x @ w.T + b), rtol=1e-4, atol=1e-5
    )


def test_fourier_features() -> None:
    made, x = model(), normal(3, 4)
    output = made.RandomFourierFeatures(fed(made, x=x).x, 6, 0.5)
    train(made)
    w, b = _fetched(made.layers[0].w, made.layers[0].b)
    np.testing.assert_allclose(value(output), np.sqrt(2 / 6) * np.cos(x @ w.T + b), rtol=1e-4, atol=1e-5)


def test_normalization_by_the_batch() -> None:
    made, x = model(), normal(8, 3)
    output = made.BatchNormalization(fed(made, x=x).x, momentum=0.75, scale_init_value=2.0)
    made.output_schema = schema.Struct(("output", output))
    train(made)
    mean, variance = x.mean(0), x.var(0)
    np.testing.assert_allclose(value(output), 2 * (x - mean) / np.sqrt(variance + 1e-5), rtol=1e-3, atol=1e-5)
    rm, riv = _fetched(made.layers[0].rm, made.layers[0].riv)
    np.testing.assert_allclose(rm, 0.25 * mean, rtol=1e-4, atol=1e-6)
    workspace.RunNetOnce(layer_model_instantiator.generate_eval_net(made))
    np.testing.assert_allclose(value(output), 2 * (x - rm) / np.sqrt(riv + 1e-5), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 2, 5)])
def test_normalization_of_channels(order: str, shape: tuple[int, ...]) -> None:
    made, x = model(), normal(*shape)
    output = made.BatchNormalization(fed(made, x=x).x, order=order)
    train(made)
    axes = (0,) if x.ndim == 2 else ((0, 2, 3) if order == "NCHW" else (0, 1, 2))
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    np.testing.assert_allclose(value(output), (x - mean) / np.sqrt(variance + 1e-5), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("one_operator", [False, True])
def test_normalization_by_the_example(one_operator: bool) -> None:
    made, x = model(), normal(4, 6)
    output = made.LayerNormalization(
        fed(made, x=x).x, epsilon=0.01, use_layer_norm_op=one_operator, scale_init_value=3.0
    )
    train(made)
    centered = x - x.mean(1, keepdims=True)
    expected = 3 * centered / np.sqrt(x.var(1, keepdims=True) + 0.01)
    np.testing.assert_allclose(value(output), expected, rtol=1e-4, atol=1e-5)


def test_normalizers_of_a_model() -> None:
    made, x = model(), normal(8, 3)
    record = fed(made, x=x)
    by_batch = BatchNormalizer(momentum=0.5, scale_init_value=2.0)(made, record.x)
    by_example = LayerNormalizer(epsilon=0.01, use_layer_norm_op=False, scale_init_value=3.0)(made, record.x)
    train(made)
    for found, axis, factor, epsilon in ((by_batch, 0, 2, 1e-5), (by_example, 1, 3, 0.01)):
        centered = x - x.mean(axis, keepdims=True)
        expected = factor * centered / np.sqrt(x.var(axis, keepdims=True) + epsilon)
        np.testing.assert_allclose(value(found), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_convolution_keeps_the_size(order: str) -> None:
    made = model()
    shape = (2, 5, 6, 3) if order == "NHWC" else (2, 3, 5, 6)
    x = normal(*shape)
    output = made.Conv(
        fed(made, x=x).x, 4, 3, 1, 1, 1, order=order, kernel_init=("ConstantFill", {"value": 1.0})
    )
    train(made)
    channel, height = (3, 1) if order == "NHWC" else (1, 2)
    sums = x.sum(channel, keepdims=True)
    pads = [(1, 1) if axis == height else (0, 0) for axis in range(4)]
    padded = np.pad(sums, pads)
    windows = sum(np.take(padded, range(at, at + 5), height) for at in range(3))
    expected = np.repeat(windows, 4, channel)
    np.testing.assert_allclose(value(output), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(AssertionError, match="kernel_h"):
        made.Conv(fed(made, x=x).x, 4, 0, 1, 1, 1)


def test_columns_joined_and_cut() -> None:
    made, a, b = model(), normal(2, 3), normal(2, 3)
    record = fed(made, a=a, b=b)
    flat, stacked = made.Concat(record), made.Concat(record, axis=1, add_axis=1)
    first, second = made.Split(flat, num_splits=2)
    left, right = made.Split(flat, split=[1, 5])
    train(made)
    np.testing.assert_array_equal(value(flat), np.concatenate([a, b], 1))
    np.testing.assert_array_equal(value(stacked), np.stack([a, b], 1))
    np.testing.assert_array_equal(value(first), a)
    np.testing.assert_array_equal(value(second), b)
    np.testing.assert_array_equal(value(left), a[:, :1])
    np.testing.assert_array_equal(value(right), np.concatenate([a[:, 1:], b], 1))
    assert [column.field_type().shape for column in (flat, stacked, first, right)] == [
        (6,),
        (2, 3),
        (3,),
        (5,),
    ]
    with pytest.raises(AssertionError, match="differ in other axes"):
        made.Concat(fed(made, a=normal(2, 3, 2), b=normal(2, 3, 4)))
    with pytest.raises(AssertionError, match="don't make"):
        made.Split(flat, split=[1, 2])


def test_features_keep_their_places_when_columns_are_joined() -> None:
    made = model()
    record = fed(made, a=normal(2, 3), b=normal(2, 2))
    record.b.set_metadata(schema.Metadata(feature_specs=schema.FeatureSpec(feature_to_index={"f": [1]})))
    joined = made.Concat(record)
    assert joined.metadata.feature_specs.feature_to_index == {"f": [4]}


@pytest.mark.parametrize("everywhere", [False, True])
def test_dropout(everywhere: bool) -> None:
    made, x = model(), np.ones((40, 50), np.float32)
    output = made.Dropout(fed(made, x=x).x, ratio=0.25, dropout_for_eval=everywhere)
    made.output_schema = schema.Struct(("output", output))
    train(made)
    kept = value(output) != 0
    np.testing.assert_allclose(value(output)[kept], 1 / 0.75, rtol=1e-6)
    assert 0.65 < kept.mean() < 0.85
    workspace.RunNetOnce(layer_model_instantiator.generate_predict_net(made))
    assert (value(output) == 1).all() != everywhere


@pytest.mark.parametrize("kind", ["dot", "cosine_similarity"])
@pytest.mark.parametrize("indices", [None, [1, 3]])
def test_similarities(kind: str, indices: list[int] | None) -> None:
    made, x, y = model(), normal(2, 3, 4), normal(2, 2, 4)
    record = fed(made, x_embeddings=x, y_embeddings=y)
    if indices is not None:
        blob = made.add_global_constant("indices", indices, dtype=np.int32)
        record += schema.Struct(("indices_to_gather", schema.Scalar((np.int32, 2), blob)))
    output = made.PairwiseSimilarity(record, 6 if indices is None else 2, pairwise_similarity_func=kind)
    train(made)
    if kind != "dot":
        x, y = x / np.linalg.norm(x, axis=1, keepdims=True), y / np.linalg.norm(y, axis=1, keepdims=True)
    expected = np.einsum("nik,njk->nij", x, y).reshape(2, 6)
    if indices is not None:
        expected = expected[:, indices]
    np.testing.assert_allclose(value(output), expected, rtol=1e-4, atol=1e-5)


def test_weighted_sums() -> None:
    made, a, b = model(), normal(3, 2), normal(3, 2)
    record = fed(made, a=a, b=b)
    trained = made.BlobWeightedSum(record, init_weights=[0.5, 3.0])
    constant = made.ConstantWeight(record, weights=[2.0, -1.0])
    train(made)
    np.testing.assert_allclose(value(trained), 0.5 * a + 3 * b, rtol=1e-5)
    np.testing.assert_allclose(value(constant), 2 * a - b, rtol=1e-5)


def test_weights_that_change_with_the_iterations() -> None:
    made, a, b = model(), normal(2), normal(2)
    total = made.HomotopyWeight(
        fed(made, a=a, b=b), min_weight=0.2, max_weight=0.8, half_life=4, quad_life=10
    )
    net = train(made)
    workspace.RunNet(net, num_iter=3)
    np.testing.assert_allclose(value(total), 0.5 * a + 0.5 * b, rtol=1e-4)
    workspace.RunNet(net, num_iter=6)
    np.testing.assert_allclose(value(total), 0.35 * a + 0.65 * b, rtol=1e-4)
