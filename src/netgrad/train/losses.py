"""Losses that are added to a model which has none: cross entropy, squared error, binary cross entropy.

A loss is given to `netgrad.training_step`. It names an output of the model (by default the only
floating-point one) and adds an input for what that output should have been.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import onnx_ir as ir

from netgrad.core.errors import InvalidArgumentError
from netgrad.onnx.builder import Value
from netgrad.onnx.half import working_type
from netgrad.onnx.view import FLOATING, Dim, values_of
from netgrad.train.graph import GraphWriter
from netgrad.transforms.select import listed

Reduction: TypeAlias = Literal["mean", "sum"]


@dataclass(frozen=True)
class WrittenLoss:
    """What a loss wrote, for the metrics that look at the same values.

    Attributes:
        value: The loss, 0-d.
        scores: The output of the model that was compared.
        target: The input that it was compared with.
        class_axis: Axis of ``scores`` along which the classes lie, or None.
        ignore_index: Label of samples that don't count, or None.
    """

    value: Value
    scores: Value
    target: Value
    class_axis: int | None = None
    ignore_index: int | None = None


class Loss(ABC):
    """The common form of all losses: `write` appends it to a graph."""

    @abstractmethod
    def write(self, writer: GraphWriter) -> WrittenLoss:
        """Append the loss.

        Args:
            writer: Writes to the graph of the model.

        Returns:
            The loss as a 0-d value, and what it was computed from.

        Raises:
            InvalidArgumentError: The model has no such output or input, or one of another type or rank.
        """


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """See `cross_entropy`."""

    scores: str | None
    labels: str
    soft: bool
    axis: int
    label_smoothing: float
    ignore_index: int | None
    class_weights: tuple[float, ...] | None
    reduction: Reduction

    def write(self, writer: GraphWriter) -> WrittenLoss:
        """Append the loss (see `Loss.write`)."""
        op = writer.op
        scores = _before(writer, _output(writer, self.scores, "scores"), ("Softmax", "LogSoftmax"), self.axis)
        rank = scores.rank
        if rank is None or rank < 2:
            raise InvalidArgumentError(
                f"cross entropy needs scores with an axis of samples and one of classes; "
                f"'{scores.name}' has {'an unknown number of' if rank is None else rank} axes"
            )
        axis = _axis(self.axis, rank, scores.name)
        classes = scores.dim(axis)
        if self.class_weights is not None and isinstance(classes, int) and len(self.class_weights) != classes:
            raise InvalidArgumentError(
                f"`class_weights` has {len(self.class_weights)} entries, but '{scores.name}' has {classes} "
                "classes"
            )
        dims = _dims(scores)
        pooled = not self.soft and axis == 1 and rank > 2 and all(dim == 1 for dim in dims[2:])
        if pooled and not (writer.is_input(self.labels) and writer.read(self.labels).rank == rank - 1):
            # a classifier that ends in pooling: its labels are one number per sample
            scores, dims, rank = op.squeeze(scores, range(2, rank)), dims[:2], 2
        if self.soft:
            target = _target(writer, self.labels, scores.dtype, dims)
            value = self._soft(writer, _wide(writer, scores), _wide(writer, target), axis)
            return WrittenLoss(value, scores, target, axis)
        target = _target(writer, self.labels, ir.DataType.INT64, dims[:axis] + dims[axis + 1 :], integer=True)
        table, labels = _wide(writer, scores), target
        if axis != 1:  # the operator wants its classes on axis 1: one row of scores per label
            moved = [k for k in range(rank) if k != axis]
            last = table if axis == rank - 1 else op.transpose(table, [*moved, axis])
            width = classes if isinstance(classes, int) else -1
            table = op.reshape(last, [-1, width]) if width != -1 else op.op("Flatten", last, axis=rank - 1)
            labels = op.reshape(target, [-1])
        weights = self._weights(writer, table)
        if not self.label_smoothing:
            value = op.op(
                "SoftmaxCrossEntropyLoss",
                table,
                labels,
                weights,
                reduction=self.reduction,
                ignore_index=self.ignore_index,
            )
            return WrittenLoss(value, scores, target, axis, self.ignore_index)
        value = self._smoothed(writer, table, labels, weights)
        return WrittenLoss(value, scores, target, axis, self.ignore_index)

    def _weights(self, writer: GraphWriter, scores: Value) -> Value | None:
        if self.class_weights is None:
            return None
        return writer.op.constant(np.asarray(self.class_weights), scores.dtype)

    def _soft(self, writer: GraphWriter, scores: Value, target: Value, axis: int) -> Value:
        op = writer.op
        log_probability = op.op("LogSoftmax", scores, axis=axis)
        if self.label_smoothing:
            share = 1.0 / op.cast(op.size_along(scores, [axis]), _dtype(scores))
            target = target * (1.0 - self.label_smoothing) + share * self.label_smoothing
        weights = self._weights(writer, scores)
        if weights is not None:
            assert scores.rank is not None, "checked by write"
            target = target * op.reshape(weights, [1] * axis + [-1] + [1] * (scores.rank - axis - 1))
        total = _total(writer, target * log_probability)
        if self.reduction == "sum":
            return -total
        assert scores.rank is not None, "checked by write"
        samples = op.size_along(scores, [k for k in range(scores.rank) if k != axis])
        return -(total / op.cast(samples, _dtype(scores)))

    def _smoothed(self, writer: GraphWriter, scores: Value, labels: Value, weights: Value | None) -> Value:
        """Label smoothing, classes on axis 1: the target is ``(1 - s) one_hot + s / C``.

        With class weights ``w``: ``(1 - s) w[y] nll[y] + s / C sum_c w[c] nll[c]`` over the counted labels,
        divided by the sum of their ``w[y]``.
        """
        op = writer.op
        nll = -op.op("LogSoftmax", scores, axis=1)
        index = labels
        counted: Value | None = None
        if self.ignore_index is not None:
            counted = op.op("Not", labels.equals(op.constant(np.asarray(self.ignore_index), labels.dtype)))
            index = op.where(counted, labels, op.constant(np.asarray(0), labels.dtype))
        picked = op.squeeze(op.op("GatherElements", nll, op.unsqueeze(index, [1]), axis=1), [1])
        weight = None if weights is None else op.op("Gather", weights, index, axis=0)
        if weights is not None and weight is not None:
            assert scores.rank is not None, "checked by write"
            nll = nll * op.reshape(weights, [1, -1] + [1] * (scores.rank - 2))
            picked = picked * weight
        spread = op.reduce_mean(nll, [1])
        each = picked * (1.0 - self.label_smoothing) + spread * self.label_smoothing
        count: Value
        if counted is not None:
            each = op.where(counted, each, 0.0)
            ones = op.cast(counted, _dtype(scores))
            count = _total(writer, ones if weight is None else ones * weight)
        elif weight is not None:
            count = _total(writer, weight)
        else:
            count = op.cast(op.op("Size", labels), _dtype(scores))
        total = _total(writer, each)
        return total if self.reduction == "sum" else total / count


def cross_entropy(
    scores: str | None = None,
    labels: str = "labels",
    *,
    soft: bool = False,
    axis: int = 1,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    class_weights: Sequence[float] | None = None,
    reduction: Reduction = "mean",
) -> Loss:
    """Cross entropy between the softmax of scores and labels, ``-sum_c t[c] log softmax(scores)[c]``.

    If the named output is itself a softmax over the same axis, the scores that go into it are used, which
    is the same loss and does not lose digits.

    Args:
        scores: Floating-point output of shape (N, C) or (N, C, d1, ...); by default the only one of the
            model.
        labels: Name of the input for the labels. Integer labels: int64 of shape (N) or (N, d1, ...), from
            0 to C - 1; (N) for scores of shape (N, C, 1, 1), too. Soft labels: probabilities of the type and
            shape of the scores. An input of the model that has this name is used, otherwise one is added.
        soft: Whether the labels are probabilities.
        axis: Axis of the classes; -1 for scores of shape (N, T, C).
        label_smoothing: Share ``s`` of each label that is spread evenly over all classes, in [0, 1)
            (Szegedy et al. 2016, arXiv:1512.00567).
        ignore_index: Integer label whose samples count nothing, in the sum and in the mean.
        class_weights: C factors. With integer labels the mean is divided by the sum of the
            factors of the samples' labels, with soft labels by the number of samples.
        reduction: ``"mean"`` over samples (and d1, ...) or ``"sum"``.

    Raises:
        InvalidArgumentError: A value outside the permitted ones.
    """
    if not 0.0 <= label_smoothing < 1.0:
        raise InvalidArgumentError(f"`label_smoothing` is {label_smoothing}; it is from 0 up to below 1")
    if soft and ignore_index is not None:
        raise InvalidArgumentError("`ignore_index` belongs to integer labels; soft labels have no index")
    weights = None if class_weights is None else tuple(float(weight) for weight in class_weights)
    return CrossEntropy(
        scores, labels, soft, axis, label_smoothing, ignore_index, weights, _reduction(reduction)
    )


@dataclass(frozen=True)
class MeanSquaredError(Loss):
    """See `mean_squared_error`."""

    predictions: str | None
    targets: str
    reduction: Reduction

    def write(self, writer: GraphWriter) -> WrittenLoss:
        """Append the loss (see `Loss.write`)."""
        predictions = _output(writer, self.predictions, "predictions")
        target = _target(writer, self.targets, predictions.dtype, _dims(predictions))
        error = _wide(writer, predictions) - _wide(writer, target)
        return WrittenLoss(_reduced(writer, error * error, self.reduction), predictions, target)


def mean_squared_error(
    predictions: str | None = None, targets: str = "targets", *, reduction: Reduction = "mean"
) -> Loss:
    """Mean of ``(prediction - target)^2`` over all elements.

    Args:
        predictions: Floating-point output of any shape; by default the only one of the model.
        targets: Name of the input for the targets, of the same type and shape. An input of the model that
            has this name is used, otherwise one is added.
        reduction: ``"mean"`` over all elements or ``"sum"``.

    Raises:
        InvalidArgumentError: A value outside the permitted ones.
    """
    return MeanSquaredError(predictions, targets, _reduction(reduction))


@dataclass(frozen=True)
class BinaryCrossEntropyOnScores(Loss):
    """See `binary_cross_entropy_on_scores`."""

    scores: str | None
    labels: str
    positive_weight: float
    reduction: Reduction

    def write(self, writer: GraphWriter) -> WrittenLoss:
        """Append the loss (see `Loss.write`)."""
        op = writer.op
        scores = _before(writer, _output(writer, self.scores, "scores"), ("Sigmoid",), None)
        target = _target(writer, self.labels, scores.dtype, _dims(scores))
        given, scores, labels = scores, _wide(writer, scores), _wide(writer, target)
        positive = op.op("Softplus", scores)
        if self.positive_weight == 1.0:
            # softplus(x) - t x: its derivative sigmoid(x) - t is exact at x = 0 too, unlike that of the
            # common form with Relu and Abs
            each = positive - labels * scores
        else:
            negative = op.op("Softplus", -scores)
            each = (1.0 - labels) * positive + labels * negative * self.positive_weight
        return WrittenLoss(_reduced(writer, each, self.reduction), given, target)


def binary_cross_entropy_on_scores(
    scores: str | None = None,
    labels: str = "labels",
    *,
    positive_weight: float = 1.0,
    reduction: Reduction = "mean",
) -> Loss:
    """Cross entropy of independent yes/no labels, ``-(w t log s(x) + (1 - t) log(1 - s(x)))``, s the sigmoid.

    Computed from the scores x, so that large ones neither overflow nor lose digits. If the named output is
    a sigmoid, the scores that go into it are used.

    Args:
        scores: Floating-point output of any shape; by default the only one of the model.
        labels: Name of the input for the labels t in [0, 1], of the type and shape of the scores. An
            input of the model that has this name is used, otherwise one is added.
        positive_weight: Factor w of the positive labels, for classes of unequal size.
        reduction: ``"mean"`` over all elements or ``"sum"``.

    Raises:
        InvalidArgumentError: A value outside the permitted ones.
    """
    if not positive_weight > 0.0:
        raise InvalidArgumentError(f"`positive_weight` is {positive_weight}; it is above 0")
    return BinaryCrossEntropyOnScores(scores, labels, float(positive_weight), _reduction(reduction))


# ---- what the losses share ------------------------------------------------------------------------------


def _reduction(given: Reduction) -> Reduction:
    if given not in ("mean", "sum"):
        raise InvalidArgumentError(f"`reduction` is {given!r}; it can be 'mean' or 'sum'")
    return given


def _output(writer: GraphWriter, name: str | None, what: str) -> Value:
    """The output that a loss looks at: a floating-point value of the graph."""
    if name is None:
        outputs = [v.name or "" for v in writer.graph.outputs if v.dtype is None or v.dtype in FLOATING]
        if len(outputs) != 1:
            raise InvalidArgumentError(
                f"the loss looks at one floating-point output, and the model has {len(outputs)}: "
                f"{listed(outputs)}",
                hint=f"name the output in the loss: `{what}=`",
            )
        name = outputs[0]
    value = writer.read(name)
    if value.dtype not in FLOATING:
        raise InvalidArgumentError(
            f"the loss compares '{name}', whose elements are {_say(value.dtype)}: it has to be floating-point"
        )
    return value


def _before(writer: GraphWriter, value: Value, types: Sequence[str], axis: int | None) -> Value:
    """What goes into the activation that made ``value``, if it is one of ``types`` (over ``axis``)."""
    nodes = {output.name: node for node in writer.graph for output in node.outputs}
    name = value.name
    while name in nodes:
        node = nodes[name]
        source = node.inputs[0] if node.inputs else None
        if source is None or not source.name:
            break
        if node.op_type in types and node.domain in ("", "ai.onnx"):
            if axis is None or _same_axis(node, axis, value.rank):
                return writer.read(source.name)
            raise InvalidArgumentError(
                f"'{value.name}' is a {node.op_type} over axis {node.attributes.get_int('axis', -1)}, but "
                f"the loss takes axis {axis} for the classes",
                hint="give the loss the axis of the classes with `axis=`",
            )
        if node.op_type != "Identity":
            break
        name = source.name
    return value


def _same_axis(node: ir.Node, axis: int, rank: int | None) -> bool:
    own = node.attributes.get_int("axis", -1)
    if rank is None:
        return own == axis
    return bool(own % rank == axis % rank)


def _axis(axis: int, rank: int, name: str) -> int:
    if not -rank <= axis < rank:
        raise InvalidArgumentError(f"`axis` is {axis}, but '{name}' has {rank} axes")
    return axis % rank


def _dims(value: Value) -> tuple[Dim, ...]:
    """The dims of ``value`` for an input of the same shape; an unknown first dim is called ``batch``."""
    if value.shape is None:
        raise InvalidArgumentError(
            f"the number of axes of '{value.name}' is unknown, so the input to compare it with cannot be "
            "declared",
            hint="give the model's inputs a shape (symbolic dims will do)",
        )
    return tuple("batch" if dim is None and k == 0 else dim for k, dim in enumerate(value.shape))


def _dtype(value: Value) -> ir.DataType:
    assert value.dtype is not None, f"the element type of {value.name} was checked"
    return value.dtype


def _wide(writer: GraphWriter, x: Value) -> Value:
    """``x`` in float32 where it is half precision: float16 could not sum 8192 losses of 10 each."""
    return writer.op.cast(x, working_type(_dtype(x)))


def _say(dtype: ir.DataType | None) -> str:
    return "of unknown type" if dtype is None else dtype.name


def _target(
    writer: GraphWriter, name: str, dtype: ir.DataType | None, shape: Sequence[Dim], *, integer: bool = False
) -> Value:
    """The input called ``name``: the model's own, or a new one."""
    if writer.is_input(name):
        value = writer.read(name)
        allowed = (ir.DataType.INT64, ir.DataType.INT32) if integer else (dtype,)
        if value.dtype not in allowed or not _fits(value, shape):
            dims = "unknown" if value.shape is None else list(value.shape)
            raise InvalidArgumentError(
                f"the model's input '{name}' is {_say(value.dtype)} of shape {dims}; the loss "
                f"needs {' or '.join(_say(each) for each in allowed)} of shape {list(shape)}",
                hint="give the loss another name for its input",
            )
        return value
    if any(value.name == name for value in values_of(writer.graph)):
        raise InvalidArgumentError(
            f"the loss cannot have an input '{name}': the model has a value of that name which is no input",
            hint="give the loss another name for its input",
        )
    assert dtype is not None, "the caller knows the type of a new input"
    return writer.new_input(name, dtype, shape)


def _fits(value: Value, shape: Sequence[Dim]) -> bool:
    """Whether ``value`` may have ``shape``: dims that are numbers in both agree."""
    if value.shape is None:
        return True
    if len(value.shape) != len(shape):
        return False
    return all(
        own == wanted or not (isinstance(own, int) and isinstance(wanted, int))
        for own, wanted in zip(value.shape, shape, strict=True)
    )


def _total(writer: GraphWriter, x: Value) -> Value:
    """The sum of all elements, 0-d."""
    return writer.op.op("ReduceSum", x, keepdims=0)


def _reduced(writer: GraphWriter, each: Value, reduction: Reduction) -> Value:
    if reduction == "sum":
        return _total(writer, each)
    return writer.op.op("ReduceMean", each, keepdims=0)
