"""Blobs weighted by constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.layers import ModelLayer


class ConstantWeight(ModelLayer):
    """The sum of blobs with constant weights."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        weights: Any = None,
        name: str = "constant_weight",
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: The blobs, all of one shape.
            weights: A number for each; equal shares if None.
            name: Its name.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("constant_weight"))
        self.data = input_record.field_blobs()
        self.num = len(self.data)
        numbers = [1 / self.num] * self.num if weights is None else list(weights)
        assert len(numbers) == self.num, f"{self.num} weights are needed, not {len(numbers)}"
        self.weights = [
            model.add_global_constant(f"{self.name}_weight_{at}", float(number))
            for at, number in enumerate(numbers)
        ]

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        pairs = zip(self.data, self.weights, strict=True)
        net.WeightedSum([blob for pair in pairs for blob in pair], self.output_schema())
