"""Merged features: small ones by hand, and their gradients as the slopes of sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, workspace

Arrays = dict[str, Any]


def _i32(*values: int) -> Any:
    return np.array(values, np.int32)


def _i64(*values: int) -> Any:
    return np.array(values, np.int64)


def _f32(*values: float) -> Any:
    return np.array(values, np.float32)


def _bool(*values: int) -> Any:
    return np.array(values, np.bool_)


# three examples; of the first feature they have 1, 1 and 0, of the second 1, 0 and 1
CASES: list[tuple[str, dict[str, Any], Arrays, list[Any]]] = [
    (
        "MergeSingleScalarFeatureTensors",
        {"feature_ids": [11, 22]},
        {"v": _f32(1, 2, 3), "p": _bool(1, 1, 0), "w": _f32(4, 5, 6), "q": _bool(1, 0, 1)},
        [_i32(2, 1, 1), _i64(11, 22, 11, 22), _f32(1, 4, 2, 6)],
    ),
    (
        "MergeSingleListFeatureTensors",
        {"feature_ids": [11, 22]},
        {
            "l": _i32(1, 2, 0),
            "v": _f32(1, 2, 3),
            "p": _bool(1, 1, 0),
            "m": _i32(2, 0, 1),
            "w": _f32(4, 5, 6),
            "q": _bool(1, 0, 1),
        },
        [_i32(2, 1, 1), _i64(11, 22, 11, 22), _i32(1, 2, 2, 1), _f32(1, 4, 5, 2, 3, 6)],
    ),
    (
        "MergeSingleMapFeatureTensors",
        {"feature_ids": [11, 22]},
        {
            "l": _i32(1, 2, 0),
            "k": _i64(7, 8, 9),
            "v": _f32(1, 2, 3),
            "p": _bool(1, 1, 0),
            "m": _i32(2, 0, 1),
            "n": _i64(1, 2, 3),
            "w": _f32(4, 5, 6),
            "q": _bool(1, 0, 1),
        },
        [
            _i32(2, 1, 1),
            _i64(11, 22, 11, 22),
            _i32(1, 2, 2, 1),
            _i64(7, 1, 2, 8, 9, 3),
            _f32(1, 4, 5, 2, 3, 6),
        ],
    ),
    (
        "MergeMultiScalarFeatureTensors",
        {},
        {
            "c": _i32(1, 2, 0),
            "k": _i64(1, 2, 3),
            "v": _f32(1, 2, 3),
            "d": _i32(1, 0, 1),
            "n": _i64(8, 9),
            "w": _f32(4, 5),
        },
        [_i32(2, 2, 1), _i64(1, 8, 2, 3, 9), _f32(1, 4, 2, 3, 5)],
    ),
    (
        "MergeMultiListFeatureTensors",
        {},
        {
            "c": _i32(1, 2, 0),
            "k": _i64(1, 2, 3),
            "l": _i32(2, 1, 0),
            "v": _f32(1, 2, 3),
            "d": _i32(1, 0, 1),
            "n": _i64(8, 9),
            "m": _i32(1, 2),
            "w": _f32(4, 5, 6),
        },
        [_i32(2, 2, 1), _i64(1, 8, 2, 3, 9), _i32(2, 1, 1, 0, 2), _f32(1, 2, 4, 3, 5, 6)],
    ),
    (
        "MergeMultiMapFeatureTensors",
        {},
        {
            "c": _i32(1, 2, 0),
            "k": _i64(1, 2, 3),
            "l": _i32(2, 1, 0),
            "a": _i64(70, 80, 90),
            "v": _f32(1, 2, 3),
            "d": _i32(1, 0, 1),
            "n": _i64(8, 9),
            "m": _i32(1, 2),
            "b": _i64(10, 20, 30),
            "w": _f32(4, 5, 6),
        },
        [
            _i32(2, 2, 1),
            _i64(1, 8, 2, 3, 9),
            _i32(2, 1, 1, 0, 2),
            _i64(70, 80, 10, 90, 20, 30),
            _f32(1, 2, 4, 3, 5, 6),
        ],
    ),
]


@pytest.mark.parametrize(("type_", "arguments", "blobs", "expected"), CASES)
def test_merged(type_: str, arguments: dict[str, Any], blobs: Arrays, expected: list[Any]) -> None:
    """The gradients are those of a weighted sum of the merged values: the weights, where each value went."""
    for name, array in blobs.items():
        workspace.FeedBlob(name, array)
    outputs = [f"y{at}" for at in range(len(expected))]
    net = core.Net("merge")
    getattr(net, type_)(list(blobs), outputs, **arguments)
    weights = _f32(*range(10, 10 + len(expected[-1])))
    workspace.FeedBlob("weights", weights)
    workspace.CreateBlob("weighted")
    net.Mul([outputs[-1], "weights"], "weighted")
    gradients = net.AddGradientOperators([net.SumElements("weighted", "loss")])
    workspace.RunNetOnce(net)
    for name, value in zip(outputs, expected, strict=True):
        found = workspace.FetchBlob(name)
        np.testing.assert_array_equal(found, value, err_msg=name)
        assert found.dtype == value.dtype
    for name in ("v", "w"):
        slopes = workspace.FetchBlob(gradients[name])
        wanted = [weights[list(expected[-1]).index(x)] if x in expected[-1] else 0 for x in blobs[name]]
        np.testing.assert_array_equal(slopes, wanted, err_msg=name)


def test_keys_are_needed() -> None:
    for name, array in CASES[0][2].items():
        workspace.FeedBlob(name, array)
    op = core.CreateOperator(CASES[0][0], list(CASES[0][2]), ["a", "b", "c"], feature_ids=[1])
    with pytest.raises(RuntimeError, match="there are 1 feature_ids for 2 features"):
        workspace.RunOperatorOnce(op)


def test_gradients_that_are_texts_are_empty_where_a_value_was_absent() -> None:
    workspace.FeedBlob("p", _bool(1, 0, 1))
    workspace.FeedBlob("q", _bool(0, 1, 1))
    workspace.FeedBlob("dy", np.array([b"a", b"b", b"c", b"d"], object))
    op = core.CreateOperator("MergeSingleScalarFeatureTensorsGradient", ["p", "q", "dy"], ["dv", "dw"])
    workspace.RunOperatorOnce(op)
    assert workspace.FetchBlob("dv").tolist() == [b"a", b"", b"c"]
    assert workspace.FetchBlob("dw").tolist() == [b"", b"b", b"d"]
