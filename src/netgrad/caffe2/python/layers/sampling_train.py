"""Layers that are trained with a sample of their outputs."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.layers import ModelLayer, get_layer_class
from netgrad.caffe2.python.layers.sampling_trainable_mixin import SamplingTrainableMixin


class SamplingTrain(ModelLayer):
    """Another layer, of whose outputs training computes a sample only."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        prediction_layer: str,
        output_dims: int,
        subtract_log_odd: bool = True,
        name: str = "sampling_train",
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: The fields ``input``, what the other layer reads; ``indices``, the sample; and
                ``sampling_prob``, the probability of each of it.
            prediction_layer: The other layer's class, by name.
            output_dims: The number of all outputs.
            subtract_log_odd: Whether the logarithms of the probabilities are subtracted from the outputs.
            name: Its name.
            **kwargs: Arguments of the other layer.
        """
        super().__init__(model, name, input_record, **kwargs)
        layer_class = get_layer_class(prediction_layer)
        assert issubclass(layer_class, SamplingTrainableMixin), (
            f"{prediction_layer} can't be trained with a sample of its outputs"
        )
        needed = ("input", "indices", *(["sampling_prob"] if subtract_log_odd else []))
        for field in needed:
            assert field in input_record, f"the field {field} is needed"
        assert isinstance(input_record.indices, schema.Scalar), (
            f"indices are a column, not {input_record.indices!r}"
        )
        self.subtract_log_odd = subtract_log_odd
        layer: Any = layer_class(model, input_record.input, output_dims=output_dims, **kwargs)
        layer.train_param_blobs = [model.net.NextBlob(f"{blob}_sampled") for blob in layer.param_blobs]
        self._prediction_layer = layer
        self.params = layer.params
        self.output_schema = layer.output_schema

    def add_ops(self, net: Any) -> None:
        """Add the operators for predictions."""
        self._prediction_layer.add_ops(net)

    def add_train_ops(self, net: Any) -> None:
        """Add the operators for training."""
        layer = self._prediction_layer
        for whole, sampled in zip(layer.param_blobs, layer.train_param_blobs, strict=True):
            net.Gather([whole, self.input_record.indices()], sampled)
        layer.add_train_ops(net)
        if self.subtract_log_odd:
            log_q = net.Log(self.input_record.sampling_prob(), net.NextScopedBlob("log_probability"))
            output = self.output_schema()
            net.Sub([output, log_q], output, broadcast=1, use_grad_hack=1)
