"""Random classes besides those of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import core, schema
from netgrad.caffe2.python.layers.layers import ModelLayer


class UniformSampling(ModelLayer):
    """Different numbers below a limit: those that are given, then random ones.

    The output has the fields ``samples`` and ``sampling_prob``, the probability of each.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        num_samples: int,
        num_elements: int,
        name: str = "uniform_sampling",
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: A column of different numbers.
            num_samples: How many numbers there are in the end.
            num_elements: The limit.
            name: Its name.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        assert num_elements > num_samples > 0, f"{num_samples} of {num_elements} numbers can't be drawn"
        assert isinstance(input_record, schema.Scalar), f"the layer {name} does not take {input_record!r}"
        self.num_elements = num_elements
        self.num_samples = self.create_param(
            param_name="num_examples",
            shape=[1],
            initializer=("GivenTensorInt64Fill", {"values": [num_samples]}),
            optimizer=model.NoOptim,
        )
        probability = {"value": num_samples / num_elements, "dtype": core.DataType.FLOAT}
        self.sampling_prob = self.create_param(
            param_name="prob",
            shape=[num_samples],
            initializer=("ConstantFill", probability),
            optimizer=model.NoOptim,
        )
        self.output_schema = schema.Struct(
            ("samples", schema.Scalar(np.int32, self.get_next_blob_reference("samples"))),
            ("sampling_prob", schema.Scalar(np.float32, self.sampling_prob)),
        )

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        net.StopGradient(self.sampling_prob, self.sampling_prob)
        given, samples = self.input_record(), self.output_schema.samples()
        shape = net.Shape([given], net.NextScopedBlob("shape"))
        missing = net.Sub([self.num_samples, shape], shape)
        drawn = net.UniqueUniformFill(
            [missing, given],
            net.NextScopedBlob("drawn"),
            min=0,
            max=self.num_elements - 1,
            input_as_shape=True,
        )
        net.Concat([given, drawn], [samples, net.NextScopedBlob("sizes")], axis=0)
        net.StopGradient(samples, samples)
