"""Fully connected layers, also with weights in parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.helpers.arg_scope import get_current_scope
from netgrad.caffe2.python.layers.clipped import clip_arguments, clipped
from netgrad.caffe2.python.layers.initial_weights import uniform
from netgrad.caffe2.python.layers.layers import ModelLayer
from netgrad.caffe2.python.layers.sampling_trainable_mixin import SamplingTrainableMixin


def get_fc_predictor_version(fc_version: str) -> str:
    """The precision of layers in nets for predictions, which ``arg_scope`` sets by this function.

    Raises:
        AssertionError: It is neither ``fp32`` nor ``fp16``.
    """
    assert fc_version in ("fp32", "fp16"), f"predictions are made in fp32 or fp16, not in {fc_version}"
    return fc_version


def input_dims_of(input_record: Any, axis: int) -> int:
    """How many inputs a layer has for a row of ``input_record``, whose axes from ``axis`` on are one.

    Raises:
        AssertionError: The record is no column, or its shape isn't known.
    """
    assert isinstance(input_record, schema.Scalar), f"a column is multiplied, not {input_record!r}"
    shape = input_record.field_types()[0].shape
    assert len(shape) > 0, f"a column of single numbers, {input_record!r}, has no axis to multiply along"
    assert axis >= 1, f"axis 0 is that of the batch: axis is 1 or more, not {axis}"
    dims = math.prod(int(dim) for dim in shape[axis - 1 :])
    assert dims > 0, f"a row has no elements from axis {axis} on: its shape is {shape}"
    return dims


class FC(SamplingTrainableMixin, ModelLayer):
    """``X W^T + b``, or ``X W + b`` where it is ``transposed``."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        output_dims: int,
        weight_init: Any = None,
        bias_init: Any = None,
        weight_optim: Any = None,
        bias_optim: Any = None,
        name: str = "fc",
        weight_reg: Any = None,
        bias_reg: Any = None,
        clip_param: Any = None,
        max_fc_size: int | None = None,
        axis: int = 1,
        transposed: bool = False,
        uniform_weight_init_scale_numerator: float | None = 1.0,
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: A column of vectors, or of tensors.
            output_dims: The number of outputs.
            weight_init: The operator that the weights start with, and its arguments.
            bias_init: Likewise.
            weight_optim: Optimizer of the weights; None for the model's.
            bias_optim: Likewise.
            name: Its name.
            weight_reg: Regularizer of the weights.
            bias_reg: Likewise.
            clip_param: The range that parameters are clipped to.
            max_fc_size: How many weights there are in one part, at most; None or less than 1 for no limit.
            axis: The first axis of the input that is summed over, the batch being axis 0.
            transposed: Whether weights have inputs first.
            uniform_weight_init_scale_numerator: See `initial_weights.uniform`.
            **kwargs: Further arguments of the operators, and those of `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        input_dims = input_dims_of(input_record, axis)
        self.axis = axis
        self.clip_args = clip_arguments(clip_param)
        self.transposed = transposed
        numerator = uniform_weight_init_scale_numerator
        default = uniform(input_dims, 1.0 if numerator is None else numerator)
        weight_init, bias_init = weight_init or default, bias_init or default
        self.output_dim_vec = FC.calculate_fc_output_dims(max_fc_size, input_dims, output_dims)
        self._is_whole = self.output_dim_vec is None or len(self.output_dim_vec) == 1
        parts = [output_dims] if self._is_whole else self.output_dim_vec or []
        self._weights: list[Any] = []
        self._biases: list[Any] = []
        for at, size in enumerate(parts):
            suffix = "" if self._is_whole else f"_sub_{at}"
            weight = self.create_param(
                param_name=f"w{suffix}",
                shape=[input_dims, size] if transposed else [size, input_dims],
                initializer=weight_init,
                optimizer=weight_optim,
                regularizer=weight_reg,
            )
            bias = self.create_param(
                param_name=f"b{suffix}",
                shape=[size],
                initializer=bias_init,
                optimizer=bias_optim,
                regularizer=bias_reg,
            )
            self._weights.append(weight)
            self._biases.append(bias)
        if self._is_whole:
            self.w, self.b = self._weights[0], self._biases[0]
        else:
            self.w_vec, self.b_vec = self._weights, self._biases
        outer = input_record.field_types()[0].shape[: axis - 1]
        self.output_schema = schema.Scalar(
            (np.float32, (*outer, output_dims)), self.get_next_blob_reference("output")
        )

    @staticmethod
    def calculate_fc_output_dims(
        max_fc_size: int | None, input_dim: int, output_dim: int
    ) -> list[int] | None:
        """The number of outputs of each part; None if there is no limit.

        Raises:
            AssertionError: The limit is below the number of inputs.
        """
        if not max_fc_size or max_fc_size < 0:
            return None
        assert max_fc_size >= input_dim, (
            f"outputs are split, so max_fc_size {max_fc_size} has to be at least input_dim {input_dim}"
        )
        most = max_fc_size // input_dim
        full = (output_dim - 1) // most
        return [*[most] * full, output_dim - full * most]

    @property
    def param_blobs(self) -> list[Any]:
        """The weights, then the biases."""
        return [*self._weights, *self._biases]

    def get_fp16_compatible_parameters(self) -> list[Any]:
        """The weights."""
        return list(self._weights)

    def _insert_fc_ops(self, net: Any, params: Sequence[Any], outputs: Sequence[Any], version: str) -> Any:
        if version == "fp32":
            add = net.FCTransposed if self.transposed else net.FC
        elif version == "fp16":
            add = net.FbFCPacked
        else:
            raise ValueError(f"there is no version {version} of FC, but fp32 and fp16")
        return add([*self.input_record.field_blobs(), *params], outputs, axis=self.axis, **self.kwargs)

    def _add_ops(self, net: Any, param_blobs: list[Any], version: str = "fp32") -> None:
        params = clipped(net, param_blobs, self.clip_args)
        outputs = self.output_schema.field_blobs()
        if self._is_whole:
            self._insert_fc_ops(net, params, outputs, version)
            return
        half = len(params) // 2
        parts = [
            self._insert_fc_ops(net, pair, [net.NextScopedBlob(f"output_sub_{at}")], version)
            for at, pair in enumerate(zip(params[:half], params[half:], strict=True))
        ]
        net.Concat(parts, [*outputs, outputs[0] + "_concat_dims"], axis=self.axis)

    def add_ops(self, net: Any) -> None:
        """Add the operators for predictions, in the precision that is in force."""
        in_force = get_current_scope().get(get_fc_predictor_version.__name__, {})
        self._add_ops(net, self.param_blobs, in_force.get("fc_version", "fp32"))
