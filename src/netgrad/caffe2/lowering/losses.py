"""Softmax, losses, accuracy, and their gradient operators."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.places import from_front
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.onnx.builder import Builder, Value

_LEAST = 1e-20  # probabilities below count as this much


def _softmax(c: Context, b: Builder, x: Value) -> Value:
    """Of the rows of ``x`` as a matrix."""
    axis = c.axis(x, c.argument("axis", 1))
    if axis == c.rank(x) - 1:
        return b.op("Softmax", x, axis=-1)
    return b.reshape_like(b.op("Softmax", b.op("Flatten", x, axis=axis), axis=-1), x)


@lowers("Softmax", "SoftmaxFp16")
def _softmax_forward(c: Context, x: Value) -> Value:
    return _softmax(c, c.b, x)


@lowers("SoftmaxGradient", "SoftmaxFp16Gradient")
def _softmax_gradient(c: Context, y: Value, dy: Value) -> Value:
    axis = c.axis(y, c.argument("axis", 1))
    axes = list(range(axis, c.rank(y)))
    return y * (dy - c.b.reduce_sum(dy * y, axes, keepdims=True))


def _rows(b: Builder, x: Value, axis: int) -> Value:
    return x if x.rank == 2 and axis == 1 else b.op("Flatten", x, axis=axis)


def _classes(b: Builder, labels: Value) -> Value:
    """The class of each row, as a column. None is negative."""
    return b.reshape(from_front(b, b.cast(labels, ir.DataType.INT64)), [-1, 1])


def _cross_entropies(c: Context, b: Builder, scores: Value, labels: Value, axis: int) -> Value:
    """The cross entropy of each row."""
    log_probabilities = b.op("LogSoftmax", _rows(b, scores, axis), axis=-1)
    if c.argument("label_prob", False):
        targets = _rows(b, labels, axis)
        bounded = b.op("Max", log_probabilities, b.scalar(-46.051701859880914, log_probabilities))  # ln 1e-20
        return -b.reduce_sum(targets * bounded, [1])
    places = _classes(b, labels)
    return -b.squeeze(b.op("GatherElements", log_probabilities, places, axis=1), [1])


def _weighted_loss(c: Context, b: Builder, scores: Value, labels: Value, weights: Value | None) -> Value:
    axis = c.axis(scores, c.argument("axis", 1))
    entropies = _cross_entropies(c, b, scores, labels, axis)
    scale = c.argument("scale", 1.0)
    if weights is None:
        return b.reduce_mean(entropies, [0]) * scale
    flat = b.reshape(weights, [-1])
    total = b.reduce_sum(flat, [0])
    is_zero = total.equals(0.0)
    loss = b.reduce_sum(entropies * flat, [0]) / b.where(is_zero, 1.0, total)
    return b.where(is_zero, 0.0, loss * scale)


@lowers("SoftmaxWithLoss")
def _softmax_with_loss(
    c: Context, scores: Value, labels: Value, weights: Value | None = None
) -> Sequence[Value | None]:
    loss = _weighted_loss(c, c.b, scores, labels, weights)
    if c.argument("only_loss", False) and c.outputs == 1:
        return [loss]
    return [_softmax(c, c.b, scores), loss]


@lowers("SoftmaxWithLossGradient")
def _softmax_with_loss_gradient(c: Context, scores: Value, labels: Value, *rest: Value) -> list[Value]:
    weights = [rest[0]] if len(rest) > 2 else []

    def write(b: Builder, given: list[Value]) -> list[Value]:
        return [_weighted_loss(c, b, given[0], given[1], given[2] if weights else None)]

    return gradients(c.b, write, [scores], [c.b.reshape(rest[-1], [])], [labels, *weights])


def _examples(b: Builder, x: Value) -> Value:
    """One row for each entry of the first axis; a vector is one example."""
    return x if x.rank == 2 else b.op("Flatten", x, axis=0 if x.rank == 1 else 1)


def _label_cross_entropy(b: Builder, x: Value, labels: Value) -> Value:
    chosen = b.squeeze(b.op("GatherElements", _examples(b, x), _classes(b, labels), axis=1), [1])
    return -b.op("Log", b.op("Max", chosen, b.scalar(_LEAST, chosen)))


@lowers("LabelCrossEntropy")
def _label_cross_entropy_forward(c: Context, x: Value, labels: Value) -> Value:
    return _label_cross_entropy(c.b, x, labels)


@lowers("LabelCrossEntropyGradient")
def _label_cross_entropy_gradient(c: Context, x: Value, labels: Value, dy: Value) -> list[Value]:
    return gradients(c.b, lambda b, given: [_label_cross_entropy(b, *given)], [x], [dy], [labels])


def _cross_entropy(b: Builder, x: Value, labels: Value) -> Value:
    rows = _examples(b, x)
    return -b.reduce_sum(labels * b.op("Log", b.op("Max", rows, b.scalar(_LEAST, rows))), [1])


@lowers("CrossEntropy")
def _cross_entropy_forward(c: Context, x: Value, labels: Value) -> Value:
    if c.rank(labels) > 2:
        raise c.refused("the labels have a row for each example: flatten them to a matrix")
    return _cross_entropy(c.b, x, labels)


@lowers("CrossEntropyGradient")
def _cross_entropy_gradient(c: Context, x: Value, labels: Value, dy: Value) -> list[Value]:
    if c.rank(labels) > 2:
        raise c.refused("the labels have a row for each example: flatten them to a matrix")
    return gradients(c.b, lambda b, given: [_cross_entropy(b, *given)], [x], [dy], [labels])


def _sigmoid_entropies(b: Builder, scores: Value, targets: Value) -> Value:
    """max(x, 0) - x t + ln(1 + exp(-|x|)), without overflow."""
    return _softplus(b, scores) - scores * targets


@lowers("SigmoidCrossEntropyWithLogits")
def _sigmoid_cross_entropy(c: Context, scores: Value, targets: Value) -> Value:
    """Of scores x and targets t: the mean of log(1 + e^x) - x t.

    With ``log_D_trick`` that of (2 t - 1) log(1 + e^-x); with ``unjoined_lr_loss``, where each positive
    example has been counted as a negative one before, that of (1 - t) log(1 + e^x) - x t.
    """
    c.same_ranks(scores, targets)
    b, last = c.b, [c.rank(scores) - 1]
    trick, unjoined = _kind(c)
    if trick:
        return b.reduce_mean((targets * 2.0 - 1.0) * _softplus(b, -scores), last)
    if unjoined:
        return b.reduce_mean((1.0 - targets) * _softplus(b, scores) - scores * targets, last)
    return b.reduce_mean(_sigmoid_entropies(b, scores, targets), last)


def _kind(c: Context) -> tuple[bool, bool]:
    """Whether an operator has ``log_D_trick``, and ``unjoined_lr_loss``."""
    trick, unjoined = c.argument("log_D_trick", False), c.argument("unjoined_lr_loss", False)
    if trick and unjoined:
        raise c.refused("log_D_trick and unjoined_lr_loss are for different targets: leave one out")
    return trick, unjoined


def _softplus(b: Builder, x: Value) -> Value:
    """log(1 + e^x), of large numbers too."""
    return b.op("Relu", x) + b.op("Softplus", -b.op("Abs", x))


@lowers("SigmoidCrossEntropyWithLogitsGradient")
def _sigmoid_cross_entropy_gradient(c: Context, dy: Value, scores: Value, targets: Value) -> Value:
    b = c.b
    trick, unjoined = _kind(c)
    if trick:
        slopes = (1.0 - targets * 2.0) * b.op("Sigmoid", -scores)
    elif unjoined:
        slopes = (1.0 - targets) * b.op("Sigmoid", scores) - targets
    else:
        slopes = b.op("Sigmoid", scores) - targets
    return _mean_slopes(c, dy, slopes)


@lowers("WeightedSigmoidCrossEntropyWithLogits")
def _weighted_sigmoid_cross_entropy(c: Context, scores: Value, targets: Value, weights: Value) -> Value:
    c.same_ranks(scores, targets, weights)
    return c.b.reduce_mean(weights * _sigmoid_entropies(c.b, scores, targets), [c.rank(scores) - 1])


@lowers("WeightedSigmoidCrossEntropyWithLogitsGradient")
def _weighted_sigmoid_cross_entropy_gradient(
    c: Context, dy: Value, scores: Value, targets: Value, weights: Value
) -> Value:
    return _mean_slopes(c, dy, (c.b.op("Sigmoid", scores) - targets) * weights)


def _mean_slopes(c: Context, dy: Value, slopes: Value) -> Value:
    """The gradient of a mean over the last axis of what has these slopes."""
    b, last = c.b, c.rank(slopes) - 1
    count = b.cast(b.size_along(slopes, [last]), slopes.dtype or ir.DataType.FLOAT)
    return b.unsqueeze(dy, [last]) * slopes / count


@lowers("AveragedLoss")
def _averaged_loss(c: Context, x: Value) -> Value:
    return c.b.reduce_mean(x, range(c.rank(x)))


@lowers("AveragedLossGradient")
def _averaged_loss_gradient(c: Context, x: Value, dy: Value) -> list[Value]:
    axes = range(c.rank(x))
    return gradients(c.b, lambda b, given: [b.reduce_mean(given[0], axes)], [x], [c.b.reshape(dy, [])])


@lowers("Accuracy")
def _accuracy(c: Context, predictions: Value, labels: Value) -> Value:
    """The share of rows whose label is among the ``top_k`` largest scores."""
    b = c.b
    if c.rank(predictions) != 2 or c.rank(labels) != 1:
        raise c.refused(
            "predictions are a matrix with a row for each example, and labels a vector: reshape them"
        )
    count = b.ints([c.argument("top_k", 1)])
    _, best = b.ops("TopK", predictions, count, outputs=2, axis=1)
    right = best.equals(b.reshape(b.cast(labels, ir.DataType.INT64), [-1, 1]))
    return b.reduce_mean(b.op("ReduceMax", b.cast(right, ir.DataType.FLOAT), b.ints([1]), keepdims=0), [0])


def _make_two_class(b: Builder, given: list[Value]) -> list[Value]:
    """Both probabilities beside each other, along a new last axis."""
    assert given[0].rank is not None, "the rank of every blob is known"
    column = b.unsqueeze(given[0], [given[0].rank])
    return [b.concat([1.0 - column, column], given[0].rank)]


@lowers("MakeTwoClass")
def _two_class(c: Context, x: Value) -> Sequence[Value]:
    """The probabilities of both classes, along a new last axis."""
    return _make_two_class(c.b, [x])


@lowers("MakeTwoClassGradient")
def _two_class_gradient(c: Context, dy: Value) -> Value:
    axis = c.rank(dy) - 1
    first, second = (c.b.squeeze(c.b.slice(dy, axis, k, k + 1), [axis]) for k in (0, 1))
    return second - first
