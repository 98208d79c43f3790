"""A trained vector that is added to each row."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.initial_weights import uniform
from netgrad.caffe2.python.layers.layers import ModelLayer


class AddBias(ModelLayer):
    """``X + b``."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        bias_init: Any = None,
        bias_optim: Any = None,
        name: str = "add_bias",
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: A column of vectors.
            bias_init: The operator that the vector starts with, and its arguments.
            bias_optim: Its optimizer; None for the model's.
            name: The layer's name.
        """
        super().__init__(model, name, input_record)
        assert isinstance(input_record, schema.Scalar), f"the layer {name} does not take {input_record!r}"
        shape = input_record.field_type().shape
        assert len(shape) > 0, (
            f"a column of single numbers, {input_record!r}, has no axis to add a bias along"
        )
        input_dims = shape[0]
        assert input_dims > 0, f"the bias has no elements: a row has {input_dims}"
        self.b = self.create_param(
            param_name="b",
            shape=[input_dims],
            initializer=bias_init or uniform(input_dims),
            optimizer=bias_optim,
        )
        self.output_schema = schema.Scalar(
            (input_record.field_type().base, (input_dims,)), self.get_next_blob_reference("output")
        )

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        inputs = [*self.input_record.field_blobs(), self.b]
        net.Add(inputs, self.output_schema.field_blobs(), broadcast=1)
