"""Weights by positions."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.layers import ModelLayer, get_categorical_limit
from netgrad.caffe2.python.layers.tags import Tags

_logger = logging.getLogger(__name__)


class PositionWeighted(ModelLayer):
    """Gives each value of a list the trained weight of its position, as the field ``position_weights``."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        weight_optim: Any = None,
        name: str = "position_weights",
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: Lists of ids. There are as many weights as lists have values at most: the limit of
                their lengths, or if there is none that of the ids.
            weight_optim: Optimizer of the weights; None for the model's.
            name: Its name.
        """
        super().__init__(model, name, input_record)
        assert isinstance(input_record, schema.List), f"the layer {name} does not take {input_record!r}"
        known = input_record.lengths.metadata
        longest = None if known is None else known.categorical_limit
        if longest is None:
            longest = get_categorical_limit(input_record)
            _logger.warning(
                "%s: lengths have no categorical_limit, so that of the keys is taken: %s",
                input_record.lengths(),
                longest,
            )
        self.shape: int = longest
        self.pos_w = self.create_param(
            param_name="pos_w",
            shape=[self.shape],
            initializer=("ConstantFill", {"value": 1.0}),
            optimizer=weight_optim,
        )
        weights = schema.Scalar((np.float32, self.shape), self.get_next_blob_reference("pos_w_gather"))
        self.output_schema = schema.Struct(("position_weights", weights))
        self.tags.add(Tags.HANDLE_AS_SPARSE_LAYER)

    def get_memory_usage(self) -> int:
        """How many weights there are."""
        return self.shape

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        lengths = self.input_record.lengths()
        positions = net.LengthsRangeFill([lengths], lengths + "_pos_w_seq")
        net.Gather([self.pos_w, positions], self.output_schema.position_weights.field_blobs())
