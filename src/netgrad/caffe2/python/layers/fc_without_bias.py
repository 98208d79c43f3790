"""Products with weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.fc import input_dims_of
from netgrad.caffe2.python.layers.initial_weights import uniform
from netgrad.caffe2.python.layers.layers import ModelLayer
from netgrad.caffe2.python.layers.sampling_trainable_mixin import SamplingTrainableMixin


class FCWithoutBias(SamplingTrainableMixin, ModelLayer):
    """``X W^T``."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        output_dims: int,
        weight_init: Any = None,
        weight_optim: Any = None,
        name: str = "fc_without_bias",
        uniform_weight_init_scale_numerator: float = 1.0,
        **kwargs: Any,
    ) -> None:
        """Make the layer; see `netgrad.caffe2.python.layers.fc.FC`."""
        super().__init__(model, name, input_record, **kwargs)
        assert isinstance(input_record, schema.Scalar), f"the layer {name} does not take {input_record!r}"
        input_dims = input_dims_of(schema.Scalar((np.float32, input_record.field_type().shape[:1])), 1)
        self.w = self.create_param(
            param_name="w",
            shape=[output_dims, input_dims],
            initializer=weight_init or uniform(input_dims, uniform_weight_init_scale_numerator),
            optimizer=weight_optim,
        )
        self.output_schema = schema.Scalar(
            (np.float32, (output_dims,)), self.get_next_blob_reference("output")
        )

    @property
    def param_blobs(self) -> list[Any]:
        """The weights."""
        return [self.w]

    def _add_ops(self, net: Any, param_blobs: list[Any]) -> None:
        inputs = [*self.input_record.field_blobs(), *param_blobs]
        net.MatMul(inputs, self.output_schema.field_blobs(), trans_b=1, **self.kwargs)
