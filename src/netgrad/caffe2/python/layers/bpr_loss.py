"""Bayesian personalized ranking (Rendle et al., arXiv:1205.2618)."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers import ranking_pairs
from netgrad.caffe2.python.layers.layers import ModelLayer
from netgrad.caffe2.python.layers.tags import Tags


class BPRLoss(ModelLayer):
    """The sum over pairs of scores of ``-log(sigmoid(high - low))``."""

    def __init__(self, model: Any, input_record: Any, name: str = "bpr_loss", **kwargs: Any) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: See `netgrad.caffe2.python.layers.ranking_pairs`.
            name: Its name.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        ranking_pairs.check(input_record)
        self.tags.add(Tags.EXCLUDE_FROM_PREDICTION)
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("output"))

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        high, low = ranking_pairs.scores(net, self.input_record)
        net.ReduceFrontSum(net.Softplus([net.Sub([low, high])]), self.output_schema.field_blobs())
