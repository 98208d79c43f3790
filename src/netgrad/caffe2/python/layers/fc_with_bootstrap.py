"""Several fully connected layers, each trained with a batch drawn from the batch with replacement."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import core, schema
from netgrad.caffe2.python.helpers.arg_scope import get_current_scope
from netgrad.caffe2.python.layers.clipped import clip_arguments, clipped
from netgrad.caffe2.python.layers.fc import input_dims_of
from netgrad.caffe2.python.layers.initial_weights import uniform
from netgrad.caffe2.python.layers.layers import ModelLayer
from netgrad.caffe2.python.layers.sampling_trainable_mixin import SamplingTrainableMixin


def get_fc_predictor_version(fc_version: str) -> str:
    """The precision of layers in nets for predictions, which ``arg_scope`` sets by this function.

    Raises:
        AssertionError: It is not ``fp32``.
    """
    assert fc_version == "fp32", f"predictions are made in fp32, not in {fc_version}"
    return fc_version


class FCWithBootstrap(SamplingTrainableMixin, ModelLayer):
    """``num_bootstrap`` layers ``X W_i^T + b_i``.

    Training draws rows of the batch anew for each. The output has a pair of the rows' numbers and the
    predictions for each; predictions are of the batch itself, and the numbers then mean nothing.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        output_dims: int,
        num_bootstrap: int,
        weight_init: Any = None,
        bias_init: Any = None,
        weight_optim: Any = None,
        bias_optim: Any = None,
        name: str = "fc_with_bootstrap",
        weight_reg: Any = None,
        bias_reg: Any = None,
        clip_param: Any = None,
        axis: int = 1,
        **kwargs: Any,
    ) -> None:
        """Make the layers; see `netgrad.caffe2.python.layers.fc.FC`."""
        super().__init__(model, name, input_record, **kwargs)
        self.input_dims = input_dims_of(input_record, axis)
        self.axis = axis
        self.num_bootstrap = num_bootstrap
        self.clip_args = clip_arguments(clip_param)
        default = uniform(self.input_dims)
        self.bootstrapped_FCs: list[Any] = []
        fields = []
        for at in range(num_bootstrap):
            start = f"bootstrap_iteration_{at}"
            fields += [
                (f"{start}/{column}", self.get_next_blob_reference(f"{start}/{column}"))
                for column in ("indices", "preds")
            ]
            weight = self.create_param(
                param_name=f"{start}/w",
                shape=[output_dims, self.input_dims],
                initializer=weight_init or default,
                optimizer=weight_optim,
                regularizer=weight_reg,
            )
            bias = self.create_param(
                param_name=f"{start}/b",
                shape=[output_dims],
                initializer=bias_init or default,
                optimizer=bias_optim,
                regularizer=bias_reg,
            )
            self.bootstrapped_FCs += [weight, bias]
        self.output_schema = schema.Struct(*fields)

    @property
    def param_blobs(self) -> list[Any]:
        """Weights and bias of the first layer, of the second one, and so on."""
        return self.bootstrapped_FCs

    def get_fp16_compatible_parameters(self) -> list[Any]:
        """The weights."""
        return self.bootstrapped_FCs[::2]

    def _range_of_rows(self, net: Any) -> tuple[Any, Any, Any]:
        """Blobs of the batch's size, and of the first and the last number of a row."""
        shape = net.Shape(self.input_record.field_blobs()[0], "input_shape")
        first_axis = net.Const(np.array([0]), "batch_size_index")
        size = net.Gather([shape, first_axis], "batch_size")
        low = net.Const(np.array([0]), "lower_bound", dtype=np.int32)
        one = net.Const(np.array([1]), "offset", dtype=np.int32)
        as_int = net.Cast([size], "int_batch_size", to=core.DataType.INT32)
        return size, low, net.Sub([as_int, one], "upper_bound")

    def _add_layers(self, net: Any, param_blobs: list[Any], is_drawn: bool) -> None:
        batch = self.input_record.field_blobs()[0]
        outputs = self.output_schema.field_blobs()
        rows: Any = None
        for at in range(self.num_bootstrap):
            with core.NameScope(f"bootstrap_iteration_{at}"):
                rows = rows or self._range_of_rows(net)
                indices = net.UniformIntFill(list(rows), outputs[2 * at], input_as_shape=1)
            features = batch
            if is_drawn:
                name = net.NextScopedBlob(f"bootstrapped_features_{at}")
                features = net.Gather([batch, indices], name)
            params = clipped(net, param_blobs[2 * at : 2 * at + 2], self.clip_args)
            net.FC([features, *params], [outputs[2 * at + 1]], axis=self.axis, **self.kwargs)

    def _add_ops(self, net: Any, param_blobs: list[Any]) -> None:
        self._add_layers(net, param_blobs, is_drawn=False)

    def add_ops(self, net: Any) -> None:
        """Add the operators for predictions, in the precision that is in force."""
        in_force = get_current_scope().get(get_fc_predictor_version.__name__, {})
        get_fc_predictor_version(in_force.get("fc_version", "fp32"))
        self._add_ops(net, self.param_blobs)

    def add_train_ops(self, net: Any) -> None:
        """Add the operators for training."""
        self._add_layers(net, self.train_param_blobs, is_drawn=True)
