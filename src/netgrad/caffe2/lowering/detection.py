"""Operators of Detectron's library: losses of boxes and labels, and what fits feature maps to each other.

The focal losses are those of Lin et al., "Focal Loss for Dense Object Detection" (arXiv:1708.02002): labels
that are certain count less. Scores of several anchors lie behind each other in the channels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.placing import joined, length, lengths

_LEAST = 1.1754943508222875e-38  # the smallest normal float: probabilities below count as this much
_IGNORED = -1  # the label of what does not count


# ---- feature maps ------------------------------------------------------------------------------------


def _upsampled(c: Context, b: Builder, x: Value) -> Value:
    by = float(c.argument("scale", 2))
    scales = np.asarray([1.0] * (c.rank(x) - 2) + [by, by], np.float32)
    options = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return b.op("Resize", x, None, b.constant(scales), mode="nearest", **options)


@lowers("UpsampleNearest")
def _upsample(c: Context, x: Value) -> Value:
    """Each pixel ``scale`` times in each direction."""
    return _upsampled(c, c.b, x)


@lowers("UpsampleNearestGradient")
def _upsample_gradient(c: Context, x: Value, dy: Value) -> list[Value]:
    return gradients(c.b, lambda b, given: [_upsampled(c, b, given[0])], [x], [dy])


def _narrowed(b: Builder, x: Value, like: Value) -> Value:
    assert x.rank is not None and like.rank is not None, "the rank of every blob is known"  # noqa: PT018
    for back in (2, 1):
        x = b.slice(x, x.rank - back, 0, length(b, like, like.rank - back))
    return x


@lowers("SpatialNarrowAs")
def _narrow(c: Context, x: Value, like: Value) -> Value:
    """The first rows and columns, as many as another map has."""
    return _narrowed(c.b, x, like)


@lowers("SpatialNarrowAsGradient")
def _narrow_gradient(c: Context, x: Value, like: Value, dy: Value) -> list[Value]:
    return gradients(c.b, lambda b, given: [_narrowed(b, *given)], [x], [dy], [like])


def _sampled(b: Builder, x: Value, labels: Value) -> Value:
    return b.op("Compress", x, b.reshape(labels, [-1]) > 0, axis=0)


@lowers("SampleAs")
def _sample(c: Context, x: Value, labels: Value) -> Value:
    """The entries whose label is positive."""
    return _sampled(c.b, x, labels)


@lowers("SampleAsGradient")
def _sample_gradient(c: Context, x: Value, labels: Value, dy: Value) -> list[Value]:
    return gradients(c.b, lambda b, given: [_sampled(b, *given)], [x], [dy], [labels])


# ---- boxes -------------------------------------------------------------------------------------------


def _smooth(c: Context, b: Builder, x: Value) -> Value:
    """The absolute value less beta / 2, below beta the parabola that goes on from it."""
    beta = c.argument("beta", 1.0)
    size = b.op("Abs", x)
    return b.where(size < beta, x * x * (0.5 / beta if beta else 0.0), size - 0.5 * beta)


def _box_loss(c: Context, b: Builder, given: list[Value]) -> list[Value]:
    """The sum over all elements, by the number of entries."""
    found, wanted, inside, outside = given
    wanted, inside, outside = (b.reshape_like(value, found) for value in (wanted, inside, outside))
    losses = _smooth(c, b, (found - wanted) * inside) * outside
    count = b.cast(b.squeeze(length(b, found, 0), [0]), found.dtype or ir.DataType.FLOAT)
    return [b.reduce_sum(losses, range(c.rank(found))) * c.argument("scale", 1.0) / count]


@lowers("SmoothL1Loss")
def _smooth_l1_loss(c: Context, *given: Value) -> list[Value]:
    return _box_loss(c, c.b, list(given))


@lowers("SmoothL1LossGradient")
def _smooth_l1_loss_gradient(c: Context, found: Value, *rest: Value) -> list[Value]:
    dy = c.b.reshape(rest[-1], [])
    return gradients(c.b, lambda b, given: _box_loss(c, b, given), [found], [dy], rest[:-1])


def _chosen_box_loss(c: Context, b: Builder, given: list[Value]) -> list[Value]:
    """Of the boxes whose image, first channel, row and column are listed; their sum by a count."""
    found, wanted, places, count = given
    at = b.unsqueeze(b.cast(places, ir.DataType.INT64), [1])
    steps = np.zeros((1, 4, 4), np.int64)
    steps[0, :, 1] = range(4)
    boxes = b.op("GatherND", found, at + b.constant(steps))
    losses = _smooth(c, b, boxes - wanted)
    divisor = b.op("Max", b.reshape(count, []), b.scalar(1.0, count))
    return [b.reduce_sum(losses, [0, 1]) * c.argument("scale", 1.0) / divisor]


@lowers("SelectSmoothL1Loss")
def _select_smooth_l1_loss(c: Context, *given: Value) -> list[Value]:
    return _chosen_box_loss(c, c.b, list(given))


@lowers("SelectSmoothL1LossGradient")
def _select_smooth_l1_loss_gradient(c: Context, found: Value, *rest: Value) -> list[Value]:
    dy = c.b.reshape(rest[-1], [])
    return gradients(c.b, lambda b, given: _chosen_box_loss(c, b, given), [found], [dy], rest[:-1])


# ---- labels ------------------------------------------------------------------------------------------


def _counted(c: Context, scores: Value, labels: Value) -> tuple[Value, Value]:
    """Which labels count, as 0 and 1, and what the sum over them is multiplied by."""
    b = c.b
    kind = scores.dtype or ir.DataType.FLOAT
    counts = b.cast(b.op("Not", b.reshape_like(labels, scores).equals(_IGNORED)), kind)
    scale = c.argument("scale", 1.0)
    if not c.argument("normalize", 1):
        return counts, b.scalar(scale, counts)
    total = b.reduce_sum(counts, range(c.rank(scores)))
    return counts, b.scalar(scale, counts) / b.op("Max", total, b.scalar(1e-5, counts))


def _log_rest(b: Builder, x: Value) -> Value:
    """ln(1 - p) for p = 1 / (1 + e^-x), of large scores too."""
    return -(b.op("Relu", x) + b.op("Softplus", -b.op("Abs", x)))


@lowers("SigmoidCrossEntropyLoss")
def _sigmoid_loss(c: Context, scores: Value, labels: Value) -> Value:
    """The sum of ln(1 + e^x) - x t over the labels t that are not -1, or by default their mean."""
    b = c.b
    counts, scale = _counted(c, scores, labels)
    wanted = b.reshape_like(b.cast(labels, scores.dtype or ir.DataType.FLOAT), scores)
    return b.reduce_sum((-_log_rest(b, scores) - scores * wanted) * counts, range(c.rank(scores))) * scale


@lowers("SigmoidCrossEntropyLossGradient")
def _sigmoid_loss_gradient(c: Context, scores: Value, labels: Value, dy: Value) -> Value:
    b = c.b
    counts, scale = _counted(c, scores, labels)
    wanted = b.reshape_like(b.cast(labels, scores.dtype or ir.DataType.FLOAT), scores)
    return (b.op("Sigmoid", scores) - wanted) * counts * (scale * b.reshape(dy, []))


def _by_anchors(c: Context, b: Builder, x: Value, classes: int) -> Value:
    """Scores (N, A classes, H, W) as (N, A, classes, H, W)."""
    count = c.argument("num_classes", classes)
    shape = joined(b, [lengths(b, x, 0, 1), b.ints([-1, count]), lengths(b, x, 2, 4)])
    return b.op("Reshape", x, shape)


def _log(b: Builder, p: Value) -> Value:
    return b.op("Log", b.op("Max", p, b.scalar(_LEAST, p)))


def _weights(c: Context, b: Builder, count: Value) -> tuple[Value, Value]:
    """What a positive and a negative example weigh, by how many positive ones there are."""
    positives = b.op("Max", b.reshape(count, []), b.scalar(1.0, count))
    alpha, scale = c.argument("alpha", 0.25), c.argument("scale", 1.0)
    return b.scalar(alpha * scale, count) / positives, b.scalar((1.0 - alpha) * scale, count) / positives


def _sides(c: Context, scores: Value, labels: Value) -> tuple[Value, Value, Value]:
    """The scores by anchors; where a class is the wanted one, and where another one is."""
    b = c.b
    x = _by_anchors(c, b, scores, 80)
    classes = np.arange(1, c.argument("num_classes", 80) + 1).reshape(1, 1, -1, 1, 1)
    wanted = b.unsqueeze(b.cast(labels, ir.DataType.INT64), [2])
    hit = wanted.equals(b.constant(classes))
    miss = b.op("And", b.op("Not", wanted.equals(_IGNORED)), b.op("Not", hit))
    return x, hit, miss


@lowers("SigmoidFocalLoss")
def _sigmoid_focal_loss(c: Context, scores: Value, labels: Value, count: Value) -> Value:
    """A probability p for each class: the sum of -(1 - p)^gamma ln p; of other classes with 1 - p for p."""
    b, gamma = c.b, c.argument("gamma", 1.0)
    x, hit, miss = _sides(c, scores, labels)
    p = b.op("Sigmoid", x)
    positive, negative = _weights(c, b, count)
    right = b.binary("Pow", 1.0 - p, gamma) * _log(b, p) * positive
    wrong = b.binary("Pow", p, gamma) * _log_rest(b, x) * negative
    return -b.reduce_sum(b.where(hit, right, b.where(miss, wrong, 0.0)), range(5))


@lowers("SigmoidFocalLossGradient")
def _sigmoid_focal_loss_gradient(c: Context, scores: Value, labels: Value, count: Value, dy: Value) -> Value:
    b, gamma = c.b, c.argument("gamma", 1.0)
    x, hit, miss = _sides(c, scores, labels)
    p = b.op("Sigmoid", x)
    positive, negative = _weights(c, b, count)
    rest = 1.0 - p
    right = b.binary("Pow", rest, gamma) * (rest - p * _log(b, p) * gamma) * positive
    wrong = b.binary("Pow", p, gamma) * (rest * _log_rest(b, x) * gamma - p) * negative
    slopes = -b.where(hit, right, b.where(miss, wrong, 0.0)) * b.reshape(dy, [])
    return b.reshape_like(slopes, scores)


def _softmax_focal(c: Context, b: Builder, given: list[Value]) -> list[Value]:
    """One probability for all classes of an anchor, the first of which is the background."""
    scores, labels, count = given
    places = b.unsqueeze(b.cast(labels, ir.DataType.INT64), [2])
    p = b.op("Softmax", _by_anchors(c, b, scores, 81), axis=2)
    chosen = b.op("GatherElements", p, b.op("Max", places, b.scalar(0, places)), axis=2)
    losses = b.binary("Pow", 1.0 - chosen, c.argument("gamma", 1.0)) * _log(b, chosen)
    positive, negative = _weights(c, b, count)
    weighed = b.where(places > 0, losses * positive, b.where(places.equals(0), losses * negative, 0.0))
    return [-b.reduce_sum(weighed, range(5))]


@lowers("SoftmaxFocalLoss")
def _softmax_focal_loss(c: Context, scores: Value, labels: Value, count: Value) -> list[Value]:
    """The loss, and the probabilities in one row."""
    p = c.b.op("Softmax", _by_anchors(c, c.b, scores, 81), axis=2)
    return [*_softmax_focal(c, c.b, [scores, labels, count]), c.b.reshape(p, [-1])]


@lowers("SoftmaxFocalLossGradient")
def _softmax_focal_loss_gradient(
    c: Context, scores: Value, labels: Value, count: Value, p: Value, dy: Value
) -> list[Value]:
    cotangent = c.b.reshape(dy, [])
    return gradients(
        c.b, lambda b, given: _softmax_focal(c, b, given), [scores], [cotangent], [labels, count]
    )


@lowers("GroupSpatialSoftmax")
def _group_softmax(c: Context, scores: Value) -> Value:
    """The probabilities of the classes of each anchor."""
    return c.b.reshape_like(c.b.op("Softmax", _by_anchors(c, c.b, scores, 81), axis=2), scores)


@lowers("GroupSpatialSoftmaxGradient")
def _group_softmax_gradient(c: Context, y: Value, dy: Value) -> Sequence[Value]:
    p, slopes = (_by_anchors(c, c.b, value, 81) for value in (y, dy))
    found = p * (slopes - c.b.reduce_sum(p * slopes, [2], keepdims=True))
    return [c.b.reshape_like(found, y)]
