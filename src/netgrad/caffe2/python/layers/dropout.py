"""Dropout."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.layers import ModelLayer


class Dropout(ModelLayer):
    """Sets elements to 0 at random in training, and scales the others up."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        name: str = "dropout",
        ratio: float = 0.5,
        dropout_for_eval: bool = False,
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: A column.
            name: Its name.
            ratio: Which share is set to 0.
            dropout_for_eval: Whether it is so for evaluation and predictions, too.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        assert isinstance(input_record, schema.Scalar), f"the layer {name} does not take {input_record!r}"
        assert 0 <= ratio < 1.0, f"ratio is from 0 to below 1, not {ratio}"
        self.ratio = ratio
        self.dropout_for_eval = dropout_for_eval
        output = input_record.clone_schema()
        output.set_value(self.get_next_blob_reference("output"), unsafe=True)
        self.output_schema = output

    def _add_ops(self, net: Any, is_test: bool) -> None:
        outputs = [*self.output_schema.field_blobs(), net.NextScopedBlob("mask")]
        net.Dropout(self.input_record.field_blobs(), outputs, ratio=self.ratio, is_test=is_test)

    def add_train_ops(self, net: Any) -> None:
        """Add the operators for training."""
        self._add_ops(net, is_test=False)

    def add_eval_ops(self, net: Any) -> None:
        """Add the operators for evaluation."""
        self._add_ops(net, is_test=not self.dropout_for_eval)

    def add_ops(self, net: Any) -> None:
        """Add the operators for predictions."""
        self.add_eval_ops(net)
