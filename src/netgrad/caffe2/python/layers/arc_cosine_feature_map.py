"""Random features of the arc-cosine kernel (Cho and Saul, 2009)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.layers import ModelLayer


class ArcCosineFeatureMap(ModelLayer):
    """``z^s`` where ``z = X W^T + b`` is positive, else 0; for ``s = 0`` it is ``z / (1 + z)`` there.

    Attributes:
        random_w: The weights.
        random_b: The bias.
        stddev: Standard deviation of the weights at the start.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        output_dims: int,
        s: int = 1,
        scale: float = 1.0,
        weight_init: Any = None,
        bias_init: Any = None,
        weight_optim: Any = None,
        bias_optim: Any = None,
        set_weight_as_global_constant: bool = False,
        initialize_output_schema: bool = True,
        name: str = "arc_cosine_feature_map",
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: A column of vectors.
            output_dims: The number of features.
            s: The power.
            scale: Factor of the standard deviation.
            weight_init: The operator that the weights start with, and its arguments; normal values if None.
            bias_init: Likewise; uniform values if None.
            weight_optim: Optimizer of the weights; not trained if None.
            bias_optim: Likewise.
            set_weight_as_global_constant: Whether weights and bias are constants of the model, drawn now.
            initialize_output_schema: Whether the output is one column of the features.
            name: Its name.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        assert isinstance(input_record, schema.Scalar), f"the layer {name} does not take {input_record!r}"
        self.set_weight_as_global_constant = set_weight_as_global_constant
        self.input_dims = input_record.field_type().shape[0]
        self.output_dims = output_dims
        self.s = s
        assert self.input_dims >= 1, "a row has no elements"
        assert output_dims >= 1, f"output_dims is 1 or more, not {output_dims}"
        assert isinstance(s, int), f"the degree s is an integer, not {s!r}"
        assert s >= 0, f"the degree s is not negative, as {s} is"
        assert scale > 0.0, f"scale is positive, not {scale}"
        self.stddev = scale * math.sqrt(1.0 / self.input_dims)
        if initialize_output_schema:
            self.output_schema = schema.Scalar(
                (np.float32, (output_dims,)), model.net.NextScopedBlob(f"{name}_output")
            )
        if set_weight_as_global_constant:
            half = 0.5 * self.stddev
            weights = np.random.normal(scale=self.stddev, size=(output_dims, self.input_dims))
            bias = np.random.uniform(low=-half, high=half, size=output_dims)
            self.random_w = model.add_global_constant(name=f"{self.name}_fixed_rand_W", array=weights)
            self.random_b = model.add_global_constant(name=f"{self.name}_fixed_rand_b", array=bias)
        else:
            self.random_w, self.random_b = self._initialize_params(
                "random_w", "random_b", weight_init, bias_init, weight_optim, bias_optim
            )

    def _initialize_params(
        self,
        w_name: str,
        b_name: str,
        w_init: Any = None,
        b_init: Any = None,
        w_optim: Any = None,
        b_optim: Any = None,
    ) -> list[Any]:
        """Make weights and bias; those without an optimizer are not trained."""
        half = 0.5 * self.stddev
        weight = self.create_param(
            param_name=w_name,
            shape=[self.output_dims, self.input_dims],
            initializer=w_init or ("GaussianFill", {"mean": 0.0, "std": self.stddev}),
            optimizer=w_optim or self.model.NoOptim,
        )
        bias = self.create_param(
            param_name=b_name,
            shape=[self.output_dims],
            initializer=b_init or ("UniformFill", {"min": -half, "max": half}),
            optimizer=b_optim or self.model.NoOptim,
        )
        return [weight, bias]

    def _heaviside_with_power(self, net: Any, input_features: Any, output_blob: Any, s: int) -> Any:
        """Add what follows the product; returns its output."""
        if s == 0:
            soft = net.Softsign([input_features], net.NextScopedBlob("softsign"))
            return net.Relu(soft, output_blob)
        if s == 1:
            return net.Relu([input_features], output_blob)
        positive = net.Relu([input_features], net.NextScopedBlob("positive"))
        power = net.Pow([input_features], net.NextScopedBlob("power"), exponent=float(s - 1))
        return net.Mul([positive, power], output_blob)

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        inputs = [*self.input_record.field_blobs(), self.random_w, self.random_b]
        features = net.FC(inputs, net.NextScopedBlob("projected"))
        self._heaviside_with_power(net, features, self.output_schema.field_blobs(), self.s)
