"""Layer normalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.layers import ModelLayer


class LayerNormalization(ModelLayer):
    """Normalizes each example by its own moments, then scales and shifts each of its elements.

    Attributes:
        scale: The factors.
        bias: What is added.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        name: str = "layer_normalization",
        scale_optim: Any = None,
        bias_optim: Any = None,
        epsilon: float = 1e-4,
        axis: int = 1,
        use_layer_norm_op: bool = True,
        scale_init_value: float = 1.0,
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: A column of vectors, or of tensors.
            name: Its name.
            scale_optim: Optimizer of the factors; None for the model's.
            bias_optim: Likewise.
            epsilon: Added to the variance.
            axis: The first axis that is normalized over.
            use_layer_norm_op: Whether there is one operator for it; else several, and for vectors only.
            scale_init_value: What the factors start with.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        assert isinstance(input_record, schema.Scalar), f"a column is normalized, not {input_record!r}"
        self.input_shape = input_record.field_type().shape
        assert len(self.input_shape) >= 1, "rows of one number are not normalized"
        self.axis = axis
        self.use_layer_norm_op = use_layer_norm_op
        self.output_schema = schema.Scalar(
            (np.float32, self.input_shape), self.get_next_blob_reference("output")
        )
        self.scale = self.create_param(
            param_name="scale",
            shape=[self.input_shape[0]],
            initializer=("ConstantFill", {"value": scale_init_value}),
            optimizer=scale_optim,
        )
        self.bias = self.create_param(
            param_name="bias",
            shape=[self.input_shape[0]],
            initializer=("ConstantFill", {"value": 0.0}),
            optimizer=bias_optim,
        )
        self.epsilon: Any = epsilon
        if not use_layer_norm_op:
            assert len(self.input_shape) == 1, (
                f"without the operator LayerNorm rows are vectors, not {self.input_shape}"
            )
            self.epsilon = model.maybe_add_global_constant(f"{self.name}_epsilon", float(epsilon))

    def add_ops_with_layer_norm_op(self, net: Any) -> None:
        """Add one operator that normalizes, and those that scale and shift."""
        named = [net.NextScopedBlob(name) for name in ("normalized", "mean", "deviation")]
        normalized = net.LayerNorm(
            self.input_record.field_blobs(), named, axis=self.axis, epsilon=self.epsilon
        )[0]
        scaled = net.Mul(
            [normalized, self.scale], [net.NextScopedBlob("scaled")], broadcast=1, axis=self.axis
        )
        net.Add([scaled, self.bias], self.output_schema.field_blobs(), broadcast=1, axis=self.axis)

    def add_ops_without_layer_norm_op(self, net: Any) -> None:
        """Add the arithmetic."""

        def add(operator: str, inputs: list[Any], name: str, **kwargs: Any) -> Any:
            return getattr(net, operator)(inputs, [net.NextScopedBlob(name)], **kwargs)

        batch = self.input_record.field_blobs()
        means = add("ReduceBackMean", batch, "means")
        mean = add("ExpandDims", [means], "mean", dims=[1])
        centered = add("Sub", [*batch, mean], "centered")
        squares = add("Sqr", [centered], "squares")
        variances = add("ReduceBackMean", [squares], "variances")
        shifted = add("Add", [variances, self.epsilon], "shifted_variances")
        deviations = add("Pow", [shifted], "deviations", exponent=0.5)
        deviation = add("ExpandDims", [deviations], "deviation", dims=[1])
        normalized = add("Div", [centered, deviation], "normalized")
        scaled = add("Mul", [normalized, self.scale], "scaled")
        net.Add([scaled, self.bias], self.output_schema.field_blobs())

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        if self.use_layer_norm_op:
            self.add_ops_with_layer_norm_op(net)
        else:
            self.add_ops_without_layer_norm_op(net)
