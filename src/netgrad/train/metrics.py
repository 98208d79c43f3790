"""Metrics: figures beside the loss that a training step reports, computed in the same graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from netgrad.core.errors import InvalidArgumentError
from netgrad.onnx.builder import Value
from netgrad.train.graph import GraphWriter
from netgrad.train.losses import WrittenLoss


class Metric(ABC):
    """The common form of all metrics.

    Attributes:
        name: What the figure is called in reports, and its output in the graph.
    """

    name: str

    @abstractmethod
    def write(self, writer: GraphWriter, loss: WrittenLoss | None) -> Value:
        """Append the metric.

        Args:
            writer: Writes to the graph of the model.
            loss: What the loss looked at; None if the loss is an output of the model.

        Returns:
            The metric, 0-d floating-point: a mean over the batch's samples.

        Raises:
            InvalidArgumentError: The metric does not fit the loss.
        """


@dataclass(frozen=True)
class Accuracy(Metric):
    """See `accuracy`."""

    top: int
    name: str

    def write(self, writer: GraphWriter, loss: WrittenLoss | None) -> Value:
        """Append the metric (see `Metric.write`)."""
        op = writer.op
        if loss is None:
            raise InvalidArgumentError(
                f"the metric '{self.name}' compares scores with labels, but the loss is an output of the "
                "model",
                hint="use a loss of netgrad.losses, or name a 0-d output of the model as the metric",
            )
        scores, target, axis = loss.scores, loss.target, loss.class_axis
        if axis is None:
            return _mean(writer, (scores > 0.0).equals(target > 0.5))
        if target.is_floating:
            target = op.op("ArgMax", target, axis=axis, keepdims=0)
        else:
            target = op.cast(target, ir.DataType.INT64)
        if self.top == 1:
            right = op.op("ArgMax", scores, axis=axis, keepdims=0).equals(target)
        else:
            _, best = op.ops("TopK", scores, op.ints([self.top]), outputs=2, axis=axis)
            hits = best.equals(op.unsqueeze(target, [axis]))
            right = op.reduce("ReduceMax", op.cast(hits, ir.DataType.INT32), [axis], keepdims=False)
        if loss.ignore_index is None:
            return _mean(writer, right)
        counted = op.op("Not", target.equals(op.constant(np.asarray(loss.ignore_index, np.int64))))
        hits = op.cast(right, ir.DataType.FLOAT) * op.cast(counted, ir.DataType.FLOAT)
        return op.op("ReduceSum", hits, keepdims=0) / op.op(
            "ReduceSum", op.cast(counted, ir.DataType.FLOAT), keepdims=0
        )


@dataclass(frozen=True)
class MeanAbsoluteError(Metric):
    """See `mean_absolute_error`."""

    name: str

    def write(self, writer: GraphWriter, loss: WrittenLoss | None) -> Value:
        """Append the metric (see `Metric.write`)."""
        if loss is None or loss.class_axis is not None:
            raise InvalidArgumentError(
                f"the metric '{self.name}' compares numbers, which the loss does not have",
                hint="use it with mean_squared_error",
            )
        return writer.op.op("ReduceMean", writer.op.op("Abs", loss.scores - loss.target), keepdims=0)


def accuracy(top: int = 1) -> Metric:
    """Share of the samples whose label is the class with the highest score.

    With binary cross entropy: share of the elements whose score has the right sign.

    Args:
        top: How many classes with the highest scores count as a hit.

    Raises:
        InvalidArgumentError: ``top`` is below 1.
    """
    if top < 1:
        raise InvalidArgumentError(f"`top` is {top}; it is at least 1")
    return Accuracy(top, "accuracy" if top == 1 else f"accuracy_top_{top}")


def mean_absolute_error() -> Metric:
    """Mean of ``|prediction - target|`` over all elements."""
    return MeanAbsoluteError("mean_absolute_error")


BY_NAME = {"accuracy": accuracy, "mean_absolute_error": mean_absolute_error}
"""The metrics that can be asked for by their name."""


def _mean(writer: GraphWriter, flags: Value) -> Value:
    """Mean of booleans (or of integers 0 and 1), 0-d float32."""
    return writer.op.op("ReduceMean", writer.op.cast(flags, ir.DataType.FLOAT), keepdims=0)
