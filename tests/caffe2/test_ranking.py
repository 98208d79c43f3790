"""LambdaRank against loops over pairs, measures of ranked lists, and samples by their frequencies."""

from __future__ import annotations

from math import exp, log, log2
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, workspace

Y = np.array([0.3, -0.2, 0.9, 0.1, 0.5], np.float32)
R = np.array([1.0, 0.0, 2.0, 3.0, 1.0], np.float32)


def _pairs(y: Any, r: Any, by_ndcg: bool, normalized: bool) -> tuple[float, list[float]]:
    """Of one list, pair by pair."""
    gain = [2 ** float(x) for x in r]

    def discounts(scores: Any) -> list[float]:
        return [1 / log2(2 + sum(float(other) > float(own) for other in scores)) for own in scores]

    place = discounts(y)
    ideal = sum(g / log2(2 + k) for k, g in enumerate(sorted(gain, reverse=True)))
    loss, slopes = 0.0, [0.0] * len(y)
    for i in range(len(y)):
        for j in range(len(y)):
            weight = abs((place[i] - place[j]) * (gain[i] - gain[j]))
            sign = 1 if r[i] > r[j] else -1
            margin = sign * float(y[i] - y[j])
            slopes[i] -= weight * sign / (1 + exp(margin))
            loss += weight * log(1 + exp(-margin))
    if by_ndcg:
        loss = ideal - sum(g * d for g, d in zip(gain, place, strict=True))
    scale = ideal if normalized else 1.0
    return loss / scale, [slope / scale for slope in slopes]


@pytest.mark.parametrize("by_ndcg", [0, 1])
@pytest.mark.parametrize("normalized", [0, 1])
def test_lambda_rank(by_ndcg: int, normalized: int) -> None:
    """Two lists, whose losses' gradients are 2 and -1; a third has no relevant entries."""
    sizes = np.array([3, 2, 1], np.int32)
    y, r = np.append(Y, np.float32(4)), np.append(R, np.float32(0))
    net = core.Net("ranked")
    net.AddExternalInput("d_loss")
    net.LambdaRankNdcg(
        ["y", "r", "l"], ["loss", "dy"], use_ndcg_as_loss=by_ndcg, use_idcg_normalization=normalized
    )
    gradients = net.AddGradientOperators({"loss": "d_loss"})
    for name, array in {"y": y, "r": r, "l": sizes, "d_loss": np.array([2, -1, 1], np.float32)}.items():
        workspace.FeedBlob(name, array)
    workspace.RunNetOnce(net)
    parts = [_pairs(y[:3], r[:3], bool(by_ndcg), bool(normalized))]
    parts.append(_pairs(y[3:5], r[3:5], bool(by_ndcg), bool(normalized)))
    losses = [*(loss for loss, _ in parts), 0]
    np.testing.assert_allclose(workspace.FetchBlob("loss"), losses, rtol=1e-5, atol=1e-6)
    slopes = np.concatenate([parts[0][1], parts[1][1], [0]])
    np.testing.assert_allclose(workspace.FetchBlob("dy"), slopes, rtol=1e-5, atol=1e-6)
    factors = np.repeat([2, -1, 1], sizes)
    np.testing.assert_allclose(workspace.FetchBlob(gradients["y"]), factors * slopes, rtol=1e-5, atol=1e-6)


def test_average_precision() -> None:
    """Hits of class 0 at places 1 and 3, of class 1 at places 2 and 4; then without the first row."""
    net = core.Net("precision")
    net.APMeter(["p", "l"], "ap", buffer_size=4)
    workspace.FeedBlob("p", np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.9], [0.1, 0.8]], np.float32))
    workspace.FeedBlob("l", np.array([[1, 1], [0, 0], [1, 0], [0, 1]], np.int32))
    workspace.CreateNet(net)
    workspace.RunNet(net)
    np.testing.assert_allclose(workspace.FetchBlob("ap"), [(1 + 2 / 3) / 2, (1 / 2 + 2 / 4) / 2], rtol=1e-6)
    workspace.FeedBlob("p", np.array([[0.5, 0.5]], np.float32))
    workspace.FeedBlob("l", np.array([[1, 1]], np.int32))
    workspace.RunNet(net)
    np.testing.assert_allclose(
        workspace.FetchBlob("ap"), [(1 / 2 + 2 / 3) / 2, (1 / 2 + 2 / 3) / 2], rtol=1e-6
    )


def test_sums_of_runs() -> None:
    net = core.Net("sums")
    net.Accumulate("x", "y", gamma=0.5)
    workspace.FeedBlob("x", np.array([4.0], np.float32))
    workspace.CreateNet(net)
    for expected in (4, 6, 7):
        workspace.RunNet(net)
        assert workspace.FetchBlob("y") == [expected]


def test_weighted_samples() -> None:
    """Frequencies to five standard errors; what has no weight isn't drawn."""
    weights = np.tile(np.array([1, 0, 3], np.float32), (4000, 1))
    workspace.FeedBlob("w", weights)
    workspace.FeedBlob("v", weights + 10)
    workspace.RunOperatorOnce(core.CreateOperator("WeightedSample", ["w", "v"], ["i", "drawn"]))
    places = workspace.FetchBlob("i")
    assert (places.shape, places.dtype) == ((4000, 1), np.int32)
    assert not (places == 1).any()
    assert abs((places == 2).mean() - 0.75) < 5 * (0.75 * 0.25 / 4000) ** 0.5
    np.testing.assert_array_equal(workspace.FetchBlob("drawn"), [[[11], [10], [13]][p[0]] for p in places])
    workspace.FeedBlob("cdf", np.array([0.25, 0.25, 1], np.float32))
    workspace.RunOperatorOnce(core.CreateOperator("WeightedMultiSampling", ["cdf"], ["j"], num_samples=4000))
    drawn = workspace.FetchBlob("j")
    assert not (drawn == 1).any()
    assert abs((drawn == 2).mean() - 0.75) < 5 * (0.75 * 0.25 / 4000) ** 0.5


def test_different_numbers() -> None:
    workspace.FeedBlob("x", np.zeros((2, 3), np.float32))
    workspace.FeedBlob("avoid", np.array([3, 5], np.int64))
    op = core.CreateOperator("UniqueUniformFill", ["x", "avoid"], ["y"], min=1, max=8, dtype=10)
    workspace.RunOperatorOnce(op)
    drawn = workspace.FetchBlob("y")
    assert (drawn.shape, drawn.dtype) == ((2, 3), np.int64)
    assert sorted(drawn.reshape(-1)) == [1, 2, 4, 6, 7, 8]
    op = core.CreateOperator("UniqueUniformFill", ["x", "avoid"], ["y"], min=1, max=7)
    with pytest.raises(RuntimeError, match="6 different numbers are wanted, and 5 are there"):
        workspace.RunOperatorOnce(op)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_nothing_is_drawn_from_no_weights(shape: tuple[int, int]) -> None:
    for name in ("w", "v"):
        workspace.FeedBlob(name, np.zeros(shape, np.float32))
    workspace.RunOperatorOnce(core.CreateOperator("WeightedSample", ["w", "v"], ["i", "drawn"]))
    workspace.FeedBlob("cdf", np.zeros(0, np.float32))
    workspace.RunOperatorOnce(core.CreateOperator("WeightedMultiSampling", ["cdf"], ["j"], num_samples=3))
    found = [workspace.FetchBlob(name) for name in ("i", "drawn", "j")]
    assert [one.shape for one in found] == [(0,)] * 3
    assert [one.dtype for one in found] == [np.int32, np.float32, np.int32]
