"""Cross entropy of sigmoids."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.layers import ModelLayer
from netgrad.caffe2.python.layers.losses import needs_fields
from netgrad.caffe2.python.layers.tags import Tags


class BatchSigmoidCrossEntropyLoss(ModelLayer):
    """The mean over the batch of the cross entropy of the predictions' sigmoids."""

    def __init__(
        self, model: Any, input_record: Any, name: str = "batch_sigmoid_cross_entropy_loss", **kwargs: Any
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: The columns ``label`` and ``prediction``, of one shape; predictions are logits.
            name: Its name.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        needs_fields(
            input_record, ("label", schema.Scalar(np.float32)), ("prediction", schema.Scalar(np.float32))
        )
        shapes = [input_record[field].field_type().shape for field in ("prediction", "label")]
        assert shapes[0] == shapes[1], f"a prediction and its label differ in shape: {shapes}"
        self.tags.add(Tags.EXCLUDE_FROM_PREDICTION)
        self.output_schema = schema.Scalar((np.float32, ()), self.get_next_blob_reference("loss"))

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        entropy = net.SigmoidCrossEntropyWithLogits(
            [self.input_record.prediction(), self.input_record.label()],
            net.NextScopedBlob("sigmoid_cross_entropy"),
        )
        net.AveragedLoss(entropy, self.output_schema.field_blobs())
