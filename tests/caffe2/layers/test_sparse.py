"""Layers of lists of ids, against formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import brew, layer_model_instantiator, schema, workspace
from netgrad.caffe2.python.layers.sparse_lookup import get_sparse_lookup_predictor_version
from netgrad.caffe2.python.optimizer import AdagradOptimizer, SgdOptimizer
from tests.caffe2.layers.models import fed, lists, model, normal, train, types, value

IDS, LENGTHS, SCORES = [3, 1, 4, 1, 5], [2, 3], [0.5, -1.0, 2.0, 0.25, 3.0]
PLAIN = {
    "Sum": lambda rows: rows.sum(0),
    "Mean": lambda rows: rows.mean(0),
    "Sqrt": lambda rows: rows.sum(0) / np.sqrt(len(rows)),
    "Max": lambda rows: rows.max(0),
    "LogSumExp": lambda rows: np.log(np.exp(rows).sum(0)),
    "LogMeanExp": lambda rows: np.log(np.exp(rows).mean(0)),
    "WeightedSum": lambda rows: rows.sum(0),
    "WeightedMean": lambda rows: rows.mean(0),
}


@pytest.mark.parametrize("reducer", PLAIN)
def test_pooled_rows(reducer: str) -> None:
    made = model()
    pooled = made.SparseLookup(lists(made, IDS, LENGTHS), 4, reducer)
    train(made)
    table = workspace.FetchBlob("sparse_lookup/w")
    assert table.shape == (10, 4)
    expected = [PLAIN[reducer](table[ids]) for ids in ([3, 1], [4, 1, 5])]
    np.testing.assert_allclose(value(pooled), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("scored", [False, True])
def test_rows_as_they_are(scored: bool) -> None:
    made = model()
    rows = made.SparseLookup(lists(made, IDS, LENGTHS, SCORES if scored else None), [4], "None")
    train(made)
    np.testing.assert_array_equal(value(rows), workspace.FetchBlob("sparse_lookup/w")[IDS])


@pytest.mark.parametrize("reducer", ["Sum", "Mean", "WeightedSum", "PositionWeighted", "RecencyWeighted"])
def test_pooled_rows_with_scores(reducer: str) -> None:
    made = model()
    pooled = made.SparseLookup(lists(made, IDS, LENGTHS, SCORES), 4, reducer)
    train(made)
    table = workspace.FetchBlob("sparse_lookup/w")
    factors = np.array(SCORES if "Weighted" in reducer else np.ones(5))[:, None]
    expected = np.add.reduceat(table[IDS] * factors, [0, 2])
    if reducer == "Mean":
        expected /= np.array(LENGTHS)[:, None]
    np.testing.assert_allclose(value(pooled), expected, rtol=1e-4, atol=1e-6)


def test_tables_are_trained() -> None:
    made = model()
    made.default_optimizer = SgdOptimizer(0.5)
    record = lists(made, IDS, LENGTHS)
    positions = made.PositionWeighted(record)
    scored = schema.Map(record.items, positions.position_weights, lengths_blob=record.lengths)
    pooled = made.SparseLookup(scored, 4, "PositionWeighted")
    made.add_loss(made.SumElements(pooled, 1))
    made.output_schema = schema.Struct()
    init_net, net = layer_model_instantiator.generate_training_nets(made)
    workspace.RunNetOnce(init_net)
    before = workspace.FetchBlob("sparse_lookup/w")
    workspace.RunNetOnce(net)
    counts = np.bincount(IDS, minlength=10)[:, None]
    np.testing.assert_allclose(
        workspace.FetchBlob("sparse_lookup/w"), before - 0.5 * counts, rtol=1e-4, atol=1e-6
    )
    # positions 0, 1 of both lists, and 2 of the second one
    sums = before[IDS].sum(1)
    slopes = np.array([sums[0] + sums[2], sums[1] + sums[3], sums[4], *np.zeros(7)])
    np.testing.assert_allclose(
        workspace.FetchBlob("position_weights/pos_w"), 1 - 0.5 * slopes, rtol=1e-4, atol=1e-6
    )


def test_evicted_rows_start_anew() -> None:
    made = model()
    keys = schema.Scalar(np.int64, metadata=schema.Metadata(categorical_limit=4))
    record = schema.NewRecord(made.net, schema.ListWithEvicted(keys))
    schema.FeedRecord(record, [np.array([1], np.int32), np.array([2], np.int64), np.array([2, 0], np.int64)])
    made.SparseLookup(record, 3, "Sum", weight_init=("ConstantFill", {"value": 1.5}))
    made.output_schema = schema.Struct()
    init_net, net = layer_model_instantiator.generate_training_nets(made)
    workspace.RunNetOnce(init_net)
    workspace.FeedBlob("sparse_lookup/w", np.full((4, 3), 9.0, np.float32))
    workspace.RunNetOnce(net)
    np.testing.assert_array_equal(workspace.FetchBlob("sparse_lookup/w")[:, 0], [1.5, 9, 1.5, 9])
    assert "CopyRowsToTensor" not in types(layer_model_instantiator.generate_predict_net(made))


def test_what_does_not_go_together_is_refused() -> None:
    made = model()
    with pytest.raises(AssertionError, match="ids with scores"):
        made.SparseLookup(lists(made, IDS, LENGTHS), 4, "PositionWeighted")
    with pytest.raises(AssertionError, match="not pooled by"):
        made.SparseLookup(lists(made, IDS, LENGTHS, SCORES), 4, "LogSumExp")
    half = AdagradOptimizer(engine="SIMD_Q_FP16")
    with pytest.raises(AssertionError, match="half precision"):
        made.SparseLookup(lists(made, IDS, LENGTHS), 4, "Max", weight_optim=half)


def test_tables_of_half_precision() -> None:
    made = model()
    half = AdagradOptimizer(engine="SIMD_Q_FP16")
    made.SparseLookup(lists(made, IDS, LENGTHS), 4, "Sum", weight_optim=half)
    workspace.RunNetOnce(made.param_init_net)
    table = workspace.FetchBlob("sparse_lookup/w")
    assert table.dtype == np.float16
    assert (np.abs(table) <= np.sqrt(1 / 10) + 1e-3).all()


def test_the_precision_of_predictions_is_asked_for_by_a_scope() -> None:
    def operators(**arguments: Any) -> list[str]:
        with brew.arg_scope(get_sparse_lookup_predictor_version, **arguments):
            return types(layer_model_instantiator.generate_predict_net(made))

    made = model()
    made.SparseLookup(lists(made, IDS, LENGTHS), 8, "Sum")
    made.output_schema = schema.Struct()
    assert operators(version="fused_uint8rowwise") == ["SparseLengthsSumFused8BitRowwise"]
    assert operators(version="uint8rowwise") == ["SparseLengthsSum8BitsRowwise"]
    # small tables are not of four bits
    assert operators(version="fused_uint4rowwise", min_blob_size_4bits=81) == [
        "SparseLengthsSumFused8BitRowwise"
    ]
    with pytest.raises(ValueError, match="min_blob_size_4bits"):
        operators(version="fused_uint4rowwise")


def test_hashed_ids() -> None:
    made = model()
    record = lists(made, [13, -7, 25], [1, 2], [0.5, 1.0, 2.0], limit=100)
    rest = made.SparseFeatureHash(record, modulo=10, use_hashing=False)
    quotient = made.SparseFeatureHash(record, modulo=3, use_hashing=False, use_divide_mod=True, divisor=4)
    hashed = made.SparseFeatureHash(record, modulo=10)
    limited = made.SparseFeatureHash(record)
    train(made)
    np.testing.assert_array_equal(value(rest.keys), [3, 3, 5])
    np.testing.assert_array_equal(value(rest.values), [0.5, 1.0, 2.0])
    np.testing.assert_array_equal(value(rest.lengths), [1, 2])
    np.testing.assert_array_equal(value(quotient.keys)[[0, 2]], [13 // 4 % 3, 25 // 4 % 3])
    assert ((value(hashed.keys) >= 0) & (value(hashed.keys) < 10)).all()
    assert rest.keys.metadata.categorical_limit == 10
    assert limited.keys.metadata.categorical_limit == 100


@pytest.mark.parametrize("kind", ["SparseDropoutWithReplacement", "SparseItemwiseDropoutWithReplacement"])
def test_dropped_ids(kind: str) -> None:
    made = model()
    output = getattr(made, kind)(lists(made, IDS, LENGTHS), 0.0, 0.5, 1.0, -1)
    made.output_schema = schema.Struct(("output", output))
    train(made)
    np.testing.assert_array_equal(value(output.items), IDS)
    np.testing.assert_array_equal(value(output.lengths), LENGTHS)
    workspace.RunNetOnce(layer_model_instantiator.generate_predict_net(made))
    lengths = [1, 1] if kind == "SparseDropoutWithReplacement" else LENGTHS
    np.testing.assert_array_equal(value(output.lengths), lengths)
    np.testing.assert_array_equal(value(output.items), [-1] * sum(lengths))
    with pytest.raises(AssertionError, match="dropout_prob_eval"):
        getattr(made, kind)(lists(made, IDS, LENGTHS), 0.0, 1.5, 1.0, -1)


def test_merged_lists() -> None:
    made = model()
    first, second = lists(made, [1, 2, 7], [2, 1]), lists(made, [2, 3, 8], [2, 1], limit=20)
    merged = made.MergeIdLists(schema.Tuple(first, second))
    train(made)
    np.testing.assert_array_equal(value(merged.lengths), [3, 2])
    np.testing.assert_array_equal(value(merged.items), [1, 2, 3, 7, 8])
    assert merged.items.metadata.categorical_limit == 20


def test_weights_by_buckets() -> None:
    made = model()
    record = lists(made, IDS, LENGTHS, SCORES)
    weights = made.BucketWeighted(
        record,
        bucket_boundaries=[0.0, 1.0],
        hash_buckets=False,
    )
    made.output_schema = schema.Struct()
    init_net, net = layer_model_instantiator.generate_training_nets(made)
    workspace.RunNetOnce(init_net)
    workspace.FeedBlob("bucket_weighted/bucket_w", np.array([10, 20, 30], np.float32))
    workspace.RunNetOnce(net)
    np.testing.assert_array_equal(value(weights.bucket_weights), [20, 10, 30, 20, 30])


def test_numbered_keys() -> None:
    made = model()
    record = fed(made, key=np.array([7, 9, 7], np.int32))
    numbers = made.MapToRange(record.key, max_index=10).indices
    net = train(made)
    np.testing.assert_array_equal(value(numbers), [1, 2, 1])
    schema.FeedRecord(record, [np.array([9, 4], np.int32)])
    workspace.RunNet(net)
    np.testing.assert_array_equal(value(numbers), [2, 3])
    schema.FeedRecord(record, [np.array([4, 5], np.int32)])
    workspace.RunNetOnce(layer_model_instantiator.generate_eval_net(made))
    np.testing.assert_array_equal(value(numbers), [3, 0])


def test_chosen_examples() -> None:
    made = model()
    inner = schema.List(schema.List(np.int64))
    record = schema.NewRecord(made.net, schema.Struct(("x", schema.Scalar(np.float32)), ("l", inner)))
    schema.FeedRecord(
        record,
        [
            np.arange(3, dtype=np.float32),
            np.array([1, 0, 2], np.int32),
            np.array([2, 1, 3], np.int32),
            np.arange(6, dtype=np.int64),
        ],
    )
    indices = fed(made, indices=np.array([2, 0], np.int32)).indices
    chosen = made.GatherRecord(schema.Struct(("indices", indices), ("record", record)))
    train(made)
    np.testing.assert_array_equal(value(chosen.x), [2, 0])
    np.testing.assert_array_equal(value(chosen.l.lengths), [2, 1])
    np.testing.assert_array_equal(value(chosen.l.items.lengths), [1, 3, 2])
    np.testing.assert_array_equal(value(chosen.l.items.items), [2, 3, 4, 5, 0, 1])


def test_features_by_their_ids() -> None:
    made = model()
    record = schema.NewRecord(
        made.net,
        schema.Struct(
            ("floats", schema.Map(np.int32, np.float32)),
            ("ids", schema.Map(np.int32, schema.List(np.int64))),
        ),
    )
    floats = [np.array([2, 1], np.int32), np.array([5, 6, 5], np.int32), normal(3)]
    ids = [
        np.array([1, 1], np.int32),
        np.array([8, 7], np.int32),
        np.array([2, 3], np.int32),
        np.arange(5, dtype=np.int64),
    ]
    schema.FeedRecord(record, [*floats, *ids])

    def spec(kind: str, *numbers: int) -> Any:
        return schema.FeatureSpec(
            feature_type=kind, feature_ids=list(numbers), feature_names=[str(one) for one in numbers]
        )

    dense = made.FeatureSparseToDense(
        record, [("floats", spec("FLOAT", 6, 5)), ("ids", spec("ID_LIST", 7, 8))], default_dense_value=np.nan
    )
    train(made)
    found = floats[2]
    np.testing.assert_array_equal(value(dense.floats), [[found[1], found[0]], [np.nan, found[2]]])
    np.testing.assert_array_equal(value(dense.ids.ranges), [[[0, 0], [0, 2]], [[2, 3], [0, 0]]])
    np.testing.assert_array_equal(value(dense.ids["values"]), np.arange(5))
    layer = made.layers[0]
    assert layer.get_accessed_features()["ids"] == [("ID_LIST", {7, 8})]
    assert layer.get_metadata()[0][0] == {
        "type": "FLOAT",
        "names": ["6", "5"],
        "ids": [6, 5],
        "cardinality": 1,
    }
    with pytest.raises(TypeError, match="GENERIC_FEATURE"):
        made.FeatureSparseToDense(record, [("floats", spec("GENERIC_FEATURE", 6))])


def test_random_classes() -> None:
    made = model()
    given = np.array([3, 10, 11], np.int32)
    sampled = made.UniformSampling(fed(made, x=given).x, 8, 20)
    train(made)
    samples = value(sampled.samples)
    np.testing.assert_array_equal(samples[:3], given)
    assert len(set(samples.tolist())) == 8
    assert ((samples >= 0) & (samples < 20)).all()
    np.testing.assert_allclose(value(sampled.sampling_prob), [8 / 20] * 8)


def test_training_with_a_sample_of_the_outputs() -> None:
    made, x = model(), normal(3, 4)
    record = fed(made, x=x, rows=np.array([4, 1], np.int32), chance=np.array([0.5, 0.25], np.float32))
    output = made.SamplingTrain(
        schema.Struct(("input", record.x), ("indices", record.rows), ("sampling_prob", record.chance)),
        "FC",
        6,
    )
    made.output_schema = schema.Struct(("output", output))
    train(made)
    w, b = (workspace.FetchBlob(param.parameter) for param in made.layers[0].params)
    expected = x @ w[[4, 1]].T + b[[4, 1]] - np.log([0.5, 0.25])
    np.testing.assert_allclose(value(output), expected, rtol=1e-4, atol=1e-6)
    workspace.RunNetOnce(layer_model_instantiator.generate_predict_net(made))
    np.testing.assert_allclose(value(output), x @ w.T + b, rtol=1e-4, atol=1e-6)
    with pytest.raises(AssertionError, match="can't be trained"):
        made.SamplingTrain(schema.Struct(("input", record.x), ("indices", record.rows)), "Dropout", 6, False)


def test_the_last_examples() -> None:
    made, x = model(), normal(5, 2)
    record = fed(made, x=x)
    window = made.LastNWindowCollector(record.x, 3)
    net = train(made)
    np.testing.assert_array_equal(value(window.last_n), x[2:])
    schema.FeedRecord(record, [x[:1]])
    workspace.RunNet(net)
    np.testing.assert_array_equal(np.sort(value(window.last_n), 0), np.sort(x[[3, 4, 0]], 0))
    np.testing.assert_array_equal(value(window.num_visited), [6])


def test_a_sample_of_objects() -> None:
    made = model()
    record = schema.NewRecord(
        made.net, schema.Struct(("x", schema.Struct(("a", schema.Scalar()))), ("id", schema.Scalar(np.int64)))
    )
    schema.FeedRecord(record, [normal(4, 2), np.array([1, 2, 1, 3], np.int64)])
    packed = made.PackRecords(record.x, 1, fields=record.x.field_names())
    sample = made.ReservoirSampling(schema.Struct(("data", packed), ("object_id", record.id)), 3)
    net = train(made)
    workspace.RunNet(net)
    assert value(sample.num_visited) == [3]
    # a sample of packed records is saved without them, and starts anew
    for param in made.params:
        workspace.DeserializeBlob(param, workspace.SerializeBlob(param))
    schema.FeedRecord(record.id, [np.array([3, 5, 3, 5], np.int64)])
    workspace.RunNet(net)
    assert value(sample.num_visited) == [2]


def test_rows_that_start_anew_are_trained_like_others() -> None:
    made = model()
    made.default_optimizer = SgdOptimizer(0.5)
    keys = schema.Scalar(np.int64, metadata=schema.Metadata(categorical_limit=4))
    record = schema.NewRecord(made.net, schema.ListWithEvicted(keys))
    schema.FeedRecord(record, [np.array([2], np.int32), np.array([2, 1]), np.array([2, 0])])
    pooled = made.SparseLookup(record, 3, "Sum", weight_init=("ConstantFill", {"value": 1.5}))
    made.add_loss(made.SumElements(pooled, 1))
    train(made)
    np.testing.assert_array_equal(workspace.FetchBlob("sparse_lookup/w")[:, 0], [1.5, 1.0, 1.0, 1.5])
