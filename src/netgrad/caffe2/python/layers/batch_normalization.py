"""Batch normalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.layers import ModelLayer


class BatchNormalization(ModelLayer):
    """Normalizes by the moments of the batch in training, and by running ones elsewhere.

    Attributes:
        scale: Factor of each channel.
        bias: What is added to it.
        rm: The running mean, which isn't trained.
        riv: The running variance, likewise.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        name: str = "batch_normalization",
        scale_optim: Any = None,
        bias_optim: Any = None,
        momentum: float = 0.9,
        order: str = "NCHW",
        scale_init_value: float = 1.0,
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: A column of vectors, or of images.
            name: Its name.
            scale_optim: Optimizer of the factors; None for the model's.
            bias_optim: Likewise.
            momentum: Share of the running moments that is kept.
            order: Of images, ``NCHW`` or ``NHWC``.
            scale_init_value: What the factors start with.
            **kwargs: See `ModelLayer`.

        Raises:
            ValueError: The order is another one.
        """
        super().__init__(model, name, input_record, **kwargs)
        assert isinstance(input_record, schema.Scalar), f"the layer {name} does not take {input_record!r}"
        self.input_shape = input_record.field_type().shape
        assert len(self.input_shape) in (1, 3), (
            f"rows are vectors or images of three axes, not {self.input_shape}"
        )
        if order not in ("NCHW", "NHWC"):
            raise ValueError(f"order is NCHW or NHWC, not {order}")
        is_last = order == "NHWC" and len(self.input_shape) == 3
        channels = self.input_shape[-1 if is_last else 0]
        self.momentum = momentum
        self.order = order
        self.output_schema = schema.Scalar(
            (np.float32, self.input_shape), self.get_next_blob_reference("output")
        )

        def filled(param_name: str, value: float, optimizer: Any) -> Any:
            return self.create_param(
                param_name=param_name,
                shape=[channels],
                initializer=("ConstantFill", {"value": value}),
                optimizer=optimizer,
            )

        self.scale = filled("scale", scale_init_value, scale_optim)
        self.bias = filled("bias", 0.0, bias_optim)
        self.rm = filled("running_mean", 0.0, model.NoOptim)
        self.riv = filled("running_inv_var", 1.0, model.NoOptim)

    def _add_ops(self, net: Any, is_test: bool) -> None:
        images = self.input_record.field_blobs()[0]
        is_flat = len(self.input_shape) == 1
        if is_flat:
            axes = [2, 3] if self.order == "NCHW" else [1, 2]
            images = net.ExpandDims([images], net.NextScopedBlob("image"), dims=axes)
        output = self.output_schema.field_blobs()
        more = []
        if not is_test:
            saved = [net.NextScopedBlob("mean"), net.NextScopedBlob("deviation_inverse")]
            more = [self.rm, self.riv, *saved]
        net.SpatialBN(
            [images, self.scale, self.bias, self.rm, self.riv],
            output + more,
            momentum=self.momentum,
            is_test=is_test,
            order=self.order,
        )
        if is_flat:
            net.Squeeze(output, output, dims=axes)

    def add_train_ops(self, net: Any) -> None:
        """Add the operators for training."""
        self._add_ops(net, is_test=False)

    def add_eval_ops(self, net: Any) -> None:
        """Add the operators for evaluation."""
        self._add_ops(net, is_test=True)

    def add_ops(self, net: Any) -> None:
        """Add the operators for predictions."""
        self.add_eval_ops(net)
