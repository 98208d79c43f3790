"""Random Fourier features (Rahimi and Recht, 2007)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.layers import ModelLayer


class RandomFourierFeatures(ModelLayer):
    """``sqrt(2 / D) cos(X W^T + b)`` with weights and a bias that are drawn once, and aren't trained."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        output_dims: int,
        sigma: float,
        w_init: Any = None,
        b_init: Any = None,
        name: str = "random_fourier_features",
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: A column of vectors.
            output_dims: The number D of features.
            sigma: Width of the Gaussian kernel that they are for.
            w_init: The operator that draws the weights, and its arguments; normal values if None.
            b_init: Likewise; uniform values if None.
            name: Its name.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        assert isinstance(input_record, schema.Scalar), f"the layer {name} does not take {input_record!r}"
        input_dims = input_record.field_type().shape[0]
        assert input_dims >= 1, "a row has no elements"
        assert output_dims >= 1, f"output_dims is 1 or more, not {output_dims}"
        assert sigma > 0.0, f"sigma is positive, not {sigma}"
        self.output_dims = output_dims
        self.output_schema = schema.Scalar(
            (np.float32, (output_dims,)), self.get_next_blob_reference("output")
        )
        self.w = self.create_param(
            param_name="w",
            shape=[output_dims, input_dims],
            initializer=w_init or ("GaussianFill", {"mean": 0.0, "std": 1.0 / sigma}),
            optimizer=model.NoOptim,
        )
        self.b = self.create_param(
            param_name="b",
            shape=[output_dims],
            initializer=b_init or ("UniformFill", {"min": 0.0, "max": 2 * math.pi}),
            optimizer=model.NoOptim,
        )

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        inputs = [*self.input_record.field_blobs(), self.w, self.b]
        angle = net.FC(inputs, net.NextScopedBlob("angle"))
        cosine = net.Cos([angle], net.NextScopedBlob("cosine"))
        net.Scale([cosine], self.output_schema.field_blobs(), scale=math.sqrt(2.0 / self.output_dims))
