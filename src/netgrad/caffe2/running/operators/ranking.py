"""Measures of ranked lists, samples by weight, and encodings."""

from __future__ import annotations

import math

import numpy as np

from netgrad.caffe2.running.blob import Array
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs

# ---- LambdaRank ------------------------------------------------------------------------------------------


def _discounts(order: Array) -> Array:
    """1 / log2 of the place and one, for what is at each place of an order."""
    found = np.zeros(order.size)
    found[order] = 1 / np.log2(np.arange(2, order.size + 2))
    return found


def _session(call: Call, y: Array, r: Array) -> tuple[float, Array]:
    """The loss of one list, and its slopes as LambdaRank defines them.

    A pair weighs |difference of gains times difference of discounts|. Its slope is that of the logistic loss
    of the pair's order (Wu et al., Adapting boosting for information retrieval measures, 2010).
    """
    if np.abs(r).sum() < 1e-6:
        return 0.0, np.zeros(y.size)
    ndcg = call.argument("use_ndcg_as_loss", 0)
    gain = r if ndcg and not call.argument("use_exp_gain", 1) else np.exp2(r)
    ideal = float((gain * _discounts(np.argsort(-r, kind="stable"))).sum())
    discount = _discounts(np.argsort(-y, kind="stable"))
    weight = np.abs((discount[:, None] - discount) * (gain[:, None] - gain))
    sign = np.where(r[:, None] - r > 0, 1.0, -1.0)
    margin = sign * (y[:, None] - y)
    slopes = -(weight * sign / (1 + np.exp(np.clip(margin, -500, 500)))).sum(1)
    lost = ideal - (gain * discount).sum() if ndcg else (weight * np.logaddexp(0, -margin)).sum()
    scale = max(ideal, 1e-5) if call.argument("use_idcg_normalization", 1) else 1.0
    return float(lost) / scale, slopes / scale


@runs("LambdaRankNdcg")
def _lambda_rank(call: Call) -> None:
    """The loss of each list, and the slopes of the scores. Without lengths all is one list."""
    y, r = call.array(0).astype(np.float64), call.array(1).astype(np.float64)
    sizes = call.array(2) if len(call.definition.input) > 2 else np.array([y.size])
    ends = np.cumsum(sizes)[:-1]
    lists = zip(np.split(y, ends), np.split(r, ends), strict=True)
    found = [_session(call, scores, labels) for scores, labels in lists]
    call.write(0, np.array([loss for loss, _ in found], np.float32))
    call.write(1, np.concatenate([slopes for _, slopes in found]).astype(np.float32))


@runs("LambdaRankNdcgGradient")
def _lambda_rank_gradient(call: Call) -> None:
    slopes, d_loss = (call.array(len(call.definition.input) + at) for at in (-2, -1))
    sizes = call.array(1) if len(call.definition.input) > 3 else np.array([slopes.size])
    call.write(0, slopes * np.repeat(d_loss.reshape(-1), sizes).astype(slopes.dtype))


# ---- measures --------------------------------------------------------------------------------------------


@runs("APMeter")
def _average_precision(call: Call) -> None:
    """For each class the mean precision at its hits, over the last ``buffer_size`` examples."""
    scores, labels = call.array(0), call.array(1)
    size = call.argument("buffer_size", 1000)
    before = call.memory.get("examples", (scores[:0], labels[:0]))
    kept = [np.concatenate([old, new])[-size:] for old, new in zip(before, (scores, labels), strict=True)]
    call.memory["examples"] = tuple(kept)
    precisions = []
    for column, hits in zip(kept[0].T, kept[1].T, strict=True):
        ranked = hits[np.argsort(-column, kind="stable")] != 0
        at_hits = np.cumsum(ranked) / np.arange(1, ranked.size + 1)
        precisions.append((at_hits * ranked).sum() / max(ranked.sum(), 1))
    call.write(0, np.array(precisions, np.float32))


@runs("Accumulate")
def _accumulate(call: Call) -> None:
    """The input plus ``gamma`` times what the output has been."""
    x = call.array(0)
    before = call.memory.get("sum", np.zeros((), x.dtype))
    gamma = x.dtype.type(call.argument("gamma", 1.0))
    total = x + gamma * before if before.shape == x.shape else x
    call.memory["sum"] = total
    call.write(0, total)


# ---- samples ---------------------------------------------------------------------------------------------


@runs("WeightedSample")
def _weighted_sample(call: Call) -> None:
    """A column for each row, drawn by its weights; with values, those that are drawn as well."""
    weights = call.array(0).astype(np.float64)
    if weights.ndim != 2:
        raise call.error("a row of weights for each sample is needed")
    if not weights.size:  # nothing can be drawn: as in the original, no column
        for at, dtype in enumerate((np.int32, np.float32)[: len(call.definition.output)]):
            call.write(at, np.zeros(0, dtype))
        return
    sums = np.cumsum(weights, 1)
    drawn = call.random().uniform(size=(len(weights), 1)) * sums[:, -1:]
    places = np.minimum((sums <= drawn).sum(1), weights.shape[1] - 1)[:, None]
    call.write(0, places.astype(np.int32))
    if len(call.definition.output) > 1:
        call.write(1, np.take_along_axis(call.array(1), places, 1))


@runs("WeightedMultiSampling")
def _weighted_multi_sampling(call: Call) -> None:
    """Numbers drawn by weights that are summed up; as many as asked, or in the shape of the second input."""
    sums = call.array(0).astype(np.float64).reshape(-1)
    shape = call.array(1).shape if len(call.definition.input) > 1 else (int(call.argument("num_samples", 0)),)
    if not sums.size:
        call.write(0, np.zeros(0, np.int32))
        return
    drawn = call.random().uniform(size=shape) * sums[-1]
    call.write(0, np.minimum(np.searchsorted(sums, drawn, "right"), sums.size - 1).astype(np.int32))


@runs("UniqueUniformFill")
def _unique_uniform_fill(call: Call) -> None:
    """Different whole numbers from ``min`` to ``max``, none of those that the second input has."""
    inputs = len(call.definition.input)
    if inputs:
        given = call.array(0)
        shape = tuple(given.tolist()) if call.argument("input_as_shape", 0) else given.shape
        shape += tuple(call.argument("extra_shape", ()))
    else:
        shape = tuple(call.argument("shape", ()))
    low, high = int(call.argument("min", 0)), int(call.argument("max", 0))
    avoided = call.array(1) if inputs > 1 else np.zeros(0, np.int64)
    free = np.setdiff1d(np.arange(low, high + 1), avoided)
    count = math.prod(shape)
    if count > free.size:
        raise call.error(f"{count} different numbers are wanted, and {free.size} are there")
    wide = call.argument("dtype", 2) == 10
    drawn = call.random().choice(free, count, replace=False)
    call.write(0, drawn.astype(np.int64 if wide else np.int32).reshape(shape))
