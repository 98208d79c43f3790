"""Gradient rules of the classification losses.

Scores have the shape (N, C, D1, ..., Dk) and labels (N, D1, ..., Dk). Item i, a position of the labels, has
the label t_i and the weight w_i: the weight of its class, or 1; 0 where t_i is ``ignore_index``. With
l_i = -log_prob[t_i], the loss is w_i l_i, or the sum of these, or that sum divided by W = sum w_i.

Half precision is computed in float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.precision import filled, widened

_CLASSES = [1]  # the axis of the classes


@dataclass(frozen=True)
class _Items:
    """The items of one loss.

    Attributes:
        builder: Writes the operators.
        reduction: ``none``, ``sum`` or ``mean``.
        dtype: Element type of the computation.
        labels: Label of each item, a valid one where it is ignored.
        ignored: Whether each item is; None where nothing is ignored.
        class_weights: Weights of the classes; None where all are 1.
    """

    builder: Builder
    reduction: str
    dtype: ir.DataType
    labels: Value
    ignored: Value | None
    class_weights: Value | None

    @property
    def places(self) -> Value:
        """The labels with an axis of size 1 for the classes."""
        return self.builder.unsqueeze(self.labels, _CLASSES)

    @property
    def share_one_coefficient(self) -> bool:
        """Whether every w_i l_i enters the objective with the same factor."""
        return self.reduction != "none" and self.ignored is None and self.class_weights is None

    def unless_ignored(self, x: Value) -> Value:
        """``x`` with 0 for each ignored item, even where ``x`` is no number."""
        return x if self.ignored is None else self.builder.where(self.ignored, self.builder.scalar(0.0, x), x)

    def rate(self, dloss: Value) -> Value:
        """The derivative of the objective by each w_i l_i, W held fixed: 0-d, or one for each item."""
        if self.reduction != "mean":
            return dloss
        if self.share_one_coefficient:
            return dloss / self._number_of_items()
        weights = self._weights() or self.builder.constant(1.0, self.dtype)
        return dloss / self.builder.op("ReduceSum", self.unless_ignored(weights), keepdims=0)

    def coefficients(self, dloss: Value) -> Value:
        """The derivative of the objective by each l_i."""
        weights, rate = self._weights(), self.rate(dloss)
        return self.unless_ignored(rate if weights is None else rate * weights)

    def weights_gradient(self, log_prob: Value, loss: Value, dloss: Value) -> Value:
        """The gradient of the class weights: l_i, less the loss if it is a mean, added up by class."""
        builder = self.builder
        picked = builder.op("GatherElements", log_prob, self.places, axis=1)
        negative = -builder.squeeze(picked, _CLASSES)
        slope = negative - loss if self.reduction == "mean" else negative
        terms = self.unless_ignored(self.rate(dloss) * slope)
        assert self.class_weights is not None, "asked for where there are weights"
        return builder.op(
            "ScatterElements",
            filled(builder, self.class_weights, 0.0),
            builder.reshape(self.labels, [-1]),
            builder.reshape(terms, [-1]),
            axis=0,
            reduction="add",
        )

    def _weights(self) -> Value | None:
        if self.class_weights is None:
            return None
        return self.builder.op("Gather", self.class_weights, self.labels)

    def _number_of_items(self) -> Value:
        shape = self.labels.static_shape
        if shape is not None:
            return self.builder.constant(math.prod(shape), self.dtype)
        return self.builder.cast(self.builder.op("Size", self.labels), self.dtype)


def _items(op: RuleContext, dtype: ir.DataType) -> _Items:
    reduction = op.attribute("reduction")
    if reduction not in ("none", "mean", "sum"):
        raise op.refuse(f"reduction is '{reduction}'; the standard allows 'none', 'mean' and 'sum'")
    labels, ignored, weights = op.required(1), None, op.optional(2)
    if op.has_attribute("ignore_index"):
        ignored = labels.equals(op.attribute("ignore_index"))
        labels = op.builder.where(ignored, op.builder.scalar(0, labels), labels)
    if weights is not None:
        weights = widened(op.builder, weights)
    return _Items(op.builder, reduction, dtype, labels, ignored, weights)


@rule("NegativeLogLikelihoodLoss", attributes=("ignore_index", "reduction"), not_differentiable=(1,))
def negative_log_likelihood_loss(op: RuleContext, dloss: Value) -> list[Value | None]:
    """L = w_i l_i, reduced; dlog_prob is -w_i dL (times 1/W for a mean) at the labels, 0 elsewhere.

    dweights[c] sums dL l_i over the items with label c; for a mean, dL (l_i - L) / W.
    Kink: where the mean is 0/0 because every item is ignored, the gradient is 0.
    """
    builder = op.builder
    log_prob, dloss = widened(builder, op.input), widened(builder, dloss)
    items = _items(op, op.floating(log_prob))
    dinput = dweights = None
    if op.wants(0):
        down = -items.coefficients(dloss)
        updates = builder.expand_like(
            down if items.share_one_coefficient else builder.unsqueeze(down, _CLASSES), items.places
        )
        zeros = builder.zeros_like(log_prob)
        dinput = op.emit("ScatterElements", zeros, items.places, updates, axis=1)
    if op.wants(2):
        dweights = items.weights_gradient(log_prob, widened(builder, op.output), dloss)
    return [dinput, None, dweights][: len(op.inputs)]


@rule(
    "SoftmaxCrossEntropyLoss",
    attributes=("ignore_index", "reduction"),
    not_differentiable=(1,),
    needs_outputs=2,
)
def softmax_cross_entropy_loss(op: RuleContext, *cotangents: Value | None) -> list[Value | None]:
    """L = w_i l_i, reduced, with log_prob = LogSoftmax(scores), which is the second output.

    dscores = w_i dL (e^log_prob - onehot(t_i)), times 1/W for a mean; a gradient at log_prob itself adds
    dlog_prob - e^log_prob sum_c dlog_prob. dweights as for NegativeLogLikelihoodLoss.
    No exponent is above 0, so that no score overflows.
    Kink: where the mean is 0/0 because every item is ignored, the gradient is 0.
    """
    builder = op.builder
    dloss, dlog_prob = (
        None if cotangent is None else widened(builder, cotangent) for cotangent in [*cotangents, None][:2]
    )
    output = op.optional_output(1)
    log_prob = op.emit("LogSoftmax", op.input, axis=1) if output is None else output
    log_prob = widened(builder, log_prob)
    items = _items(op, op.floating(log_prob))
    terms: list[Value] = []
    prob = op.emit("Exp", log_prob)
    if dloss is not None and op.wants(0):
        minus_ones = filled(builder, items.places, -1.0, items.dtype)
        residual = op.emit("ScatterElements", prob, items.places, minus_ones, axis=1, reduction="add")
        factor = items.coefficients(dloss)
        terms.append(
            residual * (factor if items.share_one_coefficient else builder.unsqueeze(factor, _CLASSES))
        )
    if dlog_prob is not None and op.wants(0):
        terms.append(dlog_prob - prob * builder.reduce_sum(dlog_prob, _CLASSES, keepdims=True))
    dscores = None if not terms else terms[0] if len(terms) == 1 else terms[0] + terms[1]
    dweights = None
    if op.wants(2):
        weights = op.required(2)
        if dloss is None:
            dweights = builder.zeros_like(weights)
        else:
            dweights = items.weights_gradient(log_prob, widened(builder, op.output), dloss)
    return [dscores, None, dweights][: len(op.inputs)]
