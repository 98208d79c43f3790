"""Huber's loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import core, schema
from netgrad.caffe2.python.layers.layers import ModelLayer
from netgrad.caffe2.python.layers.losses import label_like_prediction, needs_fields, weighted
from netgrad.caffe2.python.layers.tags import Tags


class BatchHuberLoss(ModelLayer):
    """The mean over the batch of ``weight (min(e, d)^2 / 2 + d max(e - d, 0))``, ``e`` being the distance."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        name: str = "batch_huber_loss",
        delta: float = 1.0,
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: The columns ``label``, of numbers; ``prediction``, of vectors of one number each;
                and ``weight``, if examples have one.
            name: Its name.
            delta: The distance ``d`` from which on the loss grows in a line.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        assert delta > 0, f"delta has to be positive, not {delta}"
        self._delta = delta
        needs_fields(input_record, ("label", schema.Scalar()), ("prediction", schema.Scalar()))
        self.tags.add(Tags.EXCLUDE_FROM_PREDICTION)
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("output"))

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        named = net.NextScopedBlob
        record = self.input_record
        prediction = net.Squeeze(record.prediction(), named("flat_prediction"), dims=[1])
        label = label_like_prediction(net, record)
        delta = net.ConstantFill(label, named("delta"), value=self._delta, dtype=core.DataType.FLOAT)
        label = net.StopGradient(label, named("fixed_label"))
        delta = net.StopGradient(delta, named("fixed_delta"))
        distance = net.L1Distance([label, prediction], named("distance"))
        near = net.Min([distance, delta], named("near"))
        quadratic = net.Scale(net.Sqr(near), scale=0.5)
        linear = net.Mul([net.Sub([distance, near]), delta], named("linear"))
        huber = net.Add([quadratic, linear], named("huber"))
        loss = weighted(net, record, huber, "weighted_huber_distance")
        net.AveragedLoss(loss, self.output_schema.field_blobs())
