"""Ranking with a margin."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import core, schema
from netgrad.caffe2.python.layers import ranking_pairs
from netgrad.caffe2.python.layers.layers import ModelLayer
from netgrad.caffe2.python.layers.tags import Tags


class MarginRankLoss(ModelLayer):
    """The sum over pairs of scores of ``max(0, margin - (high - low))``."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        name: str = "margin_rank_loss",
        margin: float = 0.1,
        average_loss: bool = False,
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: See `netgrad.caffe2.python.layers.ranking_pairs`.
            name: Its name.
            margin: By how much a high score should be above a low one.
            average_loss: Whether the loss is the mean.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        assert margin >= 0, f"margin is not negative, as {margin} is"
        ranking_pairs.check(input_record)
        self._margin = margin
        self._average_loss = average_loss
        self.tags.add(Tags.EXCLUDE_FROM_PREDICTION)
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("output"))

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        high, low = ranking_pairs.scores(net, self.input_record)
        first_is_high = net.ConstantFill(
            low, net.NextScopedBlob("first_is_high"), value=1, dtype=core.DataType.INT32
        )
        losses = net.MarginRankingCriterion(
            [high, low, first_is_high], net.NextScopedBlob("losses"), margin=self._margin
        )
        reduce = net.AveragedLoss if self._average_loss else net.ReduceFrontSum
        reduce(losses, self.output_schema.field_blobs())
