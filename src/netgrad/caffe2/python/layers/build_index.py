"""Numbers for keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import core, schema
from netgrad.caffe2.python.layers.layers import ModelLayer


class MapToRange(ModelLayer):
    """Numbers keys from 1 on, as they come in training; elsewhere new ones get 0.

    The output has the fields ``indices`` and ``handler``, the index.
    """

    def __init__(
        self, model: Any, input_record: Any, max_index: int, name: str = "map_to_range", **kwargs: Any
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: A column of integers.
            max_index: What the numbers are below.
            name: Its name.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        assert max_index > 0, f"max_index has to be positive, not {max_index}"
        assert isinstance(input_record, schema.Scalar), f"the layer {name} does not take {input_record!r}"
        self.max_index = max_index
        self.handler = self.create_param(
            param_name="handler",
            shape=[],
            initializer=("LongIndexCreate", {"max_elements": max_index}),
            optimizer=model.NoOptim,
        )
        self.output_schema = schema.Struct(
            ("indices", schema.Scalar(np.int64, self.get_next_blob_reference("indices"))),
            ("handler", schema.Scalar(np.void, self.handler)),
        )

    def add_train_ops(self, net: Any) -> None:
        """Add the operators that number new keys."""
        keys = self.input_record()
        if self.input_record.field_type().base != np.int64:
            name = net.NextScopedBlob("keys")
            keys = net.Cast(keys, name, to=core.DataType.INT64)
        indices = net.IndexGet([self.handler, keys], self.output_schema.indices())
        net.StopGradient(indices, indices)

    def add_eval_ops(self, net: Any) -> None:
        """Add the operators that don't."""
        net.IndexFreeze(self.handler, self.handler)
        self.add_train_ops(net)

    def add_ops(self, net: Any) -> None:
        """Add the operators for predictions."""
        self.add_eval_ops(net)
