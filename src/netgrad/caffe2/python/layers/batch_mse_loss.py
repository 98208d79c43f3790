"""Squared distance from labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.layers import ModelLayer
from netgrad.caffe2.python.layers.losses import label_like_prediction, needs_fields, weighted
from netgrad.caffe2.python.layers.tags import Tags


class BatchMSELoss(ModelLayer):
    """The mean over the batch of ``weight * (label - prediction)^2 / 2``."""

    def __init__(self, model: Any, input_record: Any, name: str = "batch_mse_loss", **kwargs: Any) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: The columns ``label``, of numbers; ``prediction``, of vectors of one number each;
                and ``weight``, if examples have one.
            name: Its name.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        needs_fields(input_record, ("label", schema.Scalar()), ("prediction", schema.Scalar()))
        self.tags.add(Tags.EXCLUDE_FROM_PREDICTION)
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("output"))

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        record = self.input_record
        expanded = net.ExpandDims(label_like_prediction(net, record), 1, dims=[1])
        label = net.StopGradient(expanded, net.NextScopedBlob("fixed_label"))
        distance = net.SquaredL2Distance([label, record.prediction()], net.NextScopedBlob("l2"))
        loss = weighted(net, record, distance, "weighted_l2_distance")
        net.AveragedLoss(loss, self.output_schema.field_blobs())
