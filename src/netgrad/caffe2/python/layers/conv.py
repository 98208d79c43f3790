"""Convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.layers import ModelLayer


def _pads(kernel: int, stride: int, first: int | None, last: int | None) -> list[int]:
    """The padding at both ends; what isn't given keeps the size if the stride is 1, and is 0 else."""
    default = (kernel - 1) // 2 if stride == 1 else 0
    return [default if pad is None else pad for pad in (first, last)]


class Conv(ModelLayer):
    """A convolution of images. The output's schema has its channels only: height and width follow."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        output_dim: int,
        kernel_h: int,
        kernel_w: int,
        stride_h: int,
        stride_w: int,
        pad_b: int | None = None,
        pad_l: int | None = None,
        pad_r: int | None = None,
        pad_t: int | None = None,
        order: str = "NHWC",
        kernel_init: Any = None,
        bias_init: Any = None,
        kernel_optim: Any = None,
        bias_optim: Any = None,
        name: str = "conv",
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: A column of images.
            output_dim: The number of filters.
            kernel_h: Height of a filter.
            kernel_w: Width of a filter.
            stride_h: Distance of neighbours.
            stride_w: Likewise.
            pad_b: Padding at the bottom; None for what keeps the size if the stride is 1, and else 0.
            pad_l: Likewise, at the left.
            pad_r: Likewise, at the right.
            pad_t: Likewise, at the top.
            order: ``NHWC`` or ``NCHW``.
            kernel_init: The operator that the filters start with, and its arguments.
            bias_init: Likewise.
            kernel_optim: Optimizer of the filters; None for the model's.
            bias_optim: Likewise.
            name: Its name.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        assert isinstance(input_record, schema.Scalar), f"the layer {name} does not take {input_record!r}"
        assert order in ("NHWC", "NCHW"), f"order is NCHW or NHWC, not {order}"
        self.order = order
        self.kernel_h, self.kernel_w = kernel_h, kernel_w
        self.stride_h, self.stride_w = stride_h, stride_w
        self.pad_t, self.pad_b = _pads(kernel_h, stride_h, pad_t, pad_b)
        self.pad_l, self.pad_r = _pads(kernel_w, stride_w, pad_l, pad_r)
        least = {"kernel_h": 1, "kernel_w": 1, "stride_h": 1, "stride_w": 1}
        for attribute in (*least, "pad_t", "pad_b", "pad_r", "pad_l"):
            value, bound = getattr(self, attribute), least.get(attribute, 0)
            assert isinstance(value, int), f"{attribute} is an integer, not {value!r}"
            assert value >= bound, f"{attribute} is {bound} or more, not {value}"
        channels = int(input_record.field_type().shape[-1 if order == "NHWC" else 0])
        assert channels > 0, f"images have {channels} channels, so there is nothing to filter"
        size = [kernel_h, kernel_w]
        self.kernel = self.create_param(
            param_name="conv_kernel",
            shape=[output_dim, *size, channels] if order == "NHWC" else [output_dim, channels, *size],
            initializer=kernel_init or ("XavierFill", {}),
            optimizer=kernel_optim,
        )
        self.bias = self.create_param(
            param_name="conv_bias",
            shape=[output_dim],
            initializer=bias_init or ("ConstantFill", {"value": 0.0}),
            optimizer=bias_optim,
        )
        self.output_schema = schema.Scalar(
            (np.float32, (output_dim,)), self.get_next_blob_reference("output")
        )

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        net.Conv(
            [*self.input_record.field_blobs(), self.kernel, self.bias],
            self.output_schema.field_blobs(),
            kernel_h=self.kernel_h,
            kernel_w=self.kernel_w,
            stride_h=self.stride_h,
            stride_w=self.stride_w,
            pad_t=self.pad_t,
            pad_l=self.pad_l,
            pad_b=self.pad_b,
            pad_r=self.pad_r,
            order=self.order,
        )
