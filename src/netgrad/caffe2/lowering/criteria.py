"""Losses over pixels, pairs and margins, norms; and their gradient operators."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.segments import segment_ids, summed
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.caffe2.lowering.windows import is_nhwc
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.placing import length

_LN_LEAST = -46.051701859880914  # ln 1e-20: probabilities below count as this much
_IGNORED = -1  # the label of a pixel that does not count


def _scalar(x: Value) -> ir.DataType:
    assert x.dtype is not None, "the element type of every blob is known"
    return x.dtype


# ---- pixels ------------------------------------------------------------------------------------------


def _pixel_loss(c: Context, b: Builder, given: list[Value]) -> Value:
    """The weighted mean of -ln p[label] over the pixels whose label is not -1."""
    scores, labels, *weights = given
    places = b.unsqueeze(b.cast(labels, ir.DataType.INT64), [1])
    counts = b.op("Not", places.equals(_IGNORED))
    log_probabilities = b.op("LogSoftmax", scores, axis=1)
    chosen = b.op("GatherElements", log_probabilities, b.where(counts, places, 0), axis=1)
    bounded = b.op("Max", chosen, b.scalar(_LN_LEAST, chosen))
    weight = b.cast(counts, _scalar(scores))
    if weights:
        weight = weight * b.unsqueeze(weights[0], [1])
    axes = range(c.rank(scores))
    total = b.reduce_sum(weight, axes)
    loss = b.reduce_sum(-(bounded * weight), axes) / b.where(total > 0.0, total, 1.0)
    return b.where(total > 0.0, loss * c.argument("scale", 1.0), 0.0)


@lowers("SpatialSoftmaxWithLoss")
def _spatial_softmax_with_loss(c: Context, *given: Value) -> Sequence[Value]:
    if is_nhwc(c):
        raise c.refused("its channels must be behind the batch (order NCHW)")
    loss = _pixel_loss(c, c.b, list(given))
    if c.outputs == 1 and c.argument("only_loss", False):
        return [loss]
    return [c.b.op("Softmax", given[0], axis=1), loss]


@lowers("SpatialSoftmaxWithLossGradient")
def _spatial_softmax_with_loss_gradient(
    c: Context, scores: Value, labels: Value, *rest: Value
) -> list[Value]:
    """Operands: those of the forward operator, the softmax, and the gradient of the loss."""
    dy = c.b.reshape(rest[-1], [])
    fixed = [labels, *rest[:-2]]
    return gradients(c.b, lambda b, given: [_pixel_loss(c, b, given)], [scores], [dy], fixed)


# ---- pairs -------------------------------------------------------------------------------------------


def _pair_loss(c: Context, b: Builder, given: list[Value]) -> Value:
    """The mean of ln(1 + exp(x_j - x_i)) over the pairs of a session with label_i > label_j; else 0."""
    scores, labels, *sizes = given
    column, label = b.reshape(scores, [-1, 1]), b.reshape(labels, [-1, 1])
    ordered = label > b.transpose(label, [1, 0])
    if sizes:
        ids = segment_ids(b, sizes[0], length(b, column, 0))
        ordered = b.op("And", ordered, b.unsqueeze(ids, [1]).equals(b.unsqueeze(ids, [0])))
    losses = b.op("Softplus", b.transpose(column, [1, 0]) - column)
    per_row = b.reduce_sum(b.where(ordered, losses, 0.0), [1])
    pairs = b.reduce_sum(b.cast(ordered, _scalar(scores)), [1])
    if sizes:
        sessions = length(b, sizes[0], 0)
        total, count = (summed(b, terms, ids, sessions) for terms in (per_row, pairs))
    else:
        total, count = (b.reduce_sum(terms, [0], keepdims=True) for terms in (per_row, pairs))
    return total / b.op("Max", count, b.scalar(1.0, count))


@lowers("PairWiseLoss")
def _pair_wise_loss(c: Context, *given: Value) -> Value:
    return _pair_loss(c, c.b, list(given))


@lowers("PairWiseLossGradient")
def _pair_wise_loss_gradient(
    c: Context, scores: Value, labels: Value, dy: Value, *sizes: Value
) -> list[Value]:
    return gradients(c.b, lambda b, given: [_pair_loss(c, b, given)], [scores], [dy], [labels, *sizes])


# ---- margins -----------------------------------------------------------------------------------------


def _cosine_embedding(c: Context, b: Builder, given: list[Value]) -> Value:
    similarity, target = given
    far = b.op("Relu", similarity - c.argument("margin", 0.0))
    return b.where(target.equals(1), 1.0 - similarity, far)


@lowers("CosineEmbeddingCriterion")
def _cosine_embedding_forward(c: Context, similarity: Value, target: Value) -> Value:
    """1 - S where the target is 1, else max(0, S - margin)."""
    return _cosine_embedding(c, c.b, [similarity, target])


@lowers("CosineEmbeddingCriterionGradient")
def _cosine_embedding_gradient(c: Context, similarity: Value, target: Value, dy: Value) -> list[Value]:
    return gradients(c.b, lambda b, given: [_cosine_embedding(c, b, given)], [similarity], [dy], [target])


def _margin_ranking(c: Context, b: Builder, given: list[Value]) -> Value:
    first, second, target = given
    sign = b.cast(target, _scalar(first))
    return b.op("Relu", (second - first) * sign + c.argument("margin", 1.0))


@lowers("MarginRankingCriterion")
def _margin_ranking_forward(c: Context, *given: Value) -> Value:
    """max(0, margin - t (X1 - X2)) with a target t of 1 or -1."""
    c.same_ranks(*given)
    return _margin_ranking(c, c.b, list(given))


@lowers("MarginRankingCriterionGradient")
def _margin_ranking_gradient(
    c: Context, first: Value, second: Value, target: Value, dy: Value
) -> list[Value]:
    return gradients(c.b, lambda b, given: [_margin_ranking(c, b, given)], [first, second], [dy], [target])


def _divergence(b: Builder, given: list[Value]) -> Value:
    def entropy(p: Value) -> Value:
        terms = [q * b.op("Log", b.op("Max", q, b.scalar(1e-20, q))) for q in (p, 1.0 - p)]
        return -(terms[0] + terms[1])

    first, second = given
    return entropy((first + second) * 0.5) - (entropy(first) + entropy(second)) * 0.5


@lowers("BernoulliJSD")
def _bernoulli(c: Context, x: Value, target: Value) -> Value:
    """The Jensen-Shannon divergence of two chances."""
    c.same_ranks(x, target)
    return _divergence(c.b, [x, target])


@lowers("BernoulliJSDGradient")
def _bernoulli_gradient(c: Context, dy: Value, x: Value, target: Value) -> list[Value]:
    return gradients(c.b, lambda b, given: [_divergence(b, given)], [x], [dy], [target])


# ---- norms -------------------------------------------------------------------------------------------


def _lp_norm(c: Context, b: Builder, x: Value) -> Value:
    power = c.argument("p", 2)
    if power not in (1, 2):
        raise c.refused(f"p is {power}, and 1 or 2 is needed")
    flat = b.reshape(x, [-1])
    terms = b.op("Abs", flat) if power == 1 else flat * flat
    type_ = "ReduceMean" if c.argument("average", False) else "ReduceSum"
    return b.reduce(type_, terms, [0], keepdims=True)


@lowers("LpNorm")
def _norm(c: Context, x: Value) -> Value:
    """The sum of absolute values or of squares, of shape (1,), or their mean."""
    return _lp_norm(c, c.b, x)


@lowers("LpNormGradient")
def _norm_gradient(c: Context, x: Value, dy: Value) -> list[Value]:
    return gradients(c.b, lambda b, given: [_lp_norm(c, b, given[0])], [x], [c.b.reshape(dy, [1])])
