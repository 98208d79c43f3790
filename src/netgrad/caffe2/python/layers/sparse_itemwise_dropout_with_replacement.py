"""Ids that are dropped at random."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python.layers.id_dropout import IdDropout


class SparseItemwiseDropoutWithReplacement(IdDropout):
    """Single ids are dropped at random, and a value is put in their place."""

    _operator = "SparseItemwiseDropoutWithReplacement"

    def __init__(
        self,
        model: Any,
        input_record: Any,
        dropout_prob_train: float,
        dropout_prob_eval: float,
        dropout_prob_predict: float,
        replacement_value: int,
        name: str = "sparse_itemwise_dropout",
        **kwargs: Any,
    ) -> None:
        """Make the layer; see `IdDropout`."""
        ratios = (dropout_prob_train, dropout_prob_eval, dropout_prob_predict)
        super().__init__(model, input_record, *ratios, replacement_value, name, **kwargs)
