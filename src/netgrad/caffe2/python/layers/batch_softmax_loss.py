"""Softmax and its cross entropy."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import core, schema
from netgrad.caffe2.python.layers.label_smoothing import matrix_constants, rows_of_labels
from netgrad.caffe2.python.layers.layers import ModelLayer
from netgrad.caffe2.python.layers.losses import needs_fields, weight_of


class BatchSoftmaxLoss(ModelLayer):
    """The fields ``softmax``, of predictions, and ``loss``, the mean of its cross entropy."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        name: str = "batch_softmax_loss",
        label_smoothing_matrix: Any = None,
        label_prob: bool = False,
        scale: float = 1.0,
        average_by_batch_size: bool = False,
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: The columns ``label``, ``prediction`` and, if examples have one, ``weight``.
            name: Its name.
            label_smoothing_matrix: A matrix whose row i is the distribution that the label i stands for.
            label_prob: Whether labels are distributions themselves.
            scale: Factor of the loss.
            average_by_batch_size: Whether the mean is over examples, whatever their weights.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        needs_fields(input_record, ("label", schema.Scalar()), ("prediction", schema.Scalar()))
        self.label_prob = label_prob or label_smoothing_matrix is not None
        self.scale = scale
        self.average_by_batch_size = average_by_batch_size
        self.label_smoothing_matrix: Any = None
        if label_smoothing_matrix is not None:
            self.label_smoothing_matrix, self.label_dim = matrix_constants(
                model, self.name, label_smoothing_matrix, "label_smoothing_matrix"
            )
        self.output_schema = schema.Struct(
            (
                "softmax",
                schema.Scalar(input_record.prediction.field_type(), self.get_next_blob_reference("softmax")),
            ),
            ("loss", schema.Scalar(np.float32, self.get_next_blob_reference("loss"))),
        )

    def _label(self, net: Any) -> Any:
        label = self.input_record.label
        if self.label_smoothing_matrix is not None:
            output = net.NextScopedBlob("smooth_label")
            return rows_of_labels(net, label, self.label_dim, self.label_smoothing_matrix, output)
        if not self.label_prob and label.field_type().base != np.int32:
            return net.Cast(label(), net.NextScopedBlob("integer_label"), to=core.DataType.INT32)
        return label()

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        inputs = [self.input_record.prediction(), self._label(net)]
        if "weight" in self.input_record:
            inputs.append(weight_of(net, self.input_record))
        net.SoftmaxWithLoss(
            inputs,
            self.output_schema.field_blobs(),
            label_prob=self.label_prob,
            scale=self.scale,
            average_by_batch_size=self.average_by_batch_size,
        )
