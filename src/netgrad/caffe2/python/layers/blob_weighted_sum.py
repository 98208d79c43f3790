"""Blobs with trained weights."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.layers import ModelLayer


class BlobWeightedSum(ModelLayer):
    """The sum of blobs, each with a trained number as its weight."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        init_weights: Any = None,
        weight_optim: Any = None,
        name: str = "blob_weighted_sum",
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: Two blobs or more, all of one shape.
            init_weights: What the weights start with; 1 if None.
            weight_optim: Their optimizer; None for the model's.
            name: Its name.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        self.blobs = input_record.field_blobs()
        self.num_weights = len(self.blobs)
        shapes = [dtype.shape for dtype in input_record.field_types()]
        assert self.num_weights > 1, f"a sum needs two columns or more, not {self.num_weights}"
        assert len(shapes[0]) > 0, "columns of single numbers are not summed: rows need an axis"
        assert len(set(shapes)) == 1, f"columns of different shapes are not summed: {shapes}"
        numbers = list(init_weights or [1.0] * self.num_weights)
        assert len(numbers) == self.num_weights, (
            f"init_weights has {len(numbers)} numbers for {self.num_weights} columns"
        )
        self.weights = [
            self.create_param(
                param_name=f"w_{at}",
                shape=[1],
                initializer=("ConstantFill", {"value": float(number)}),
                optimizer=weight_optim,
            )
            for at, number in enumerate(numbers)
        ]
        self.output_schema = schema.Scalar(
            input_record.field_types()[0], self.get_next_blob_reference("blob_weighted_sum_out")
        )

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        pairs = zip(self.blobs, self.weights, strict=True)
        net.WeightedSum([blob for pair in pairs for blob in pair], self.output_schema(), grad_on_w=True)
