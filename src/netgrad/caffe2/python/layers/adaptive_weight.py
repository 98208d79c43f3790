"""Losses weighted by what is learnt of their uncertainty (Kendall, Gal and Cipolla, arXiv:1705.07115)."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import core, schema
from netgrad.caffe2.python.layers.layers import ModelLayer
from netgrad.caffe2.python.regularizer import BoundedGradientProjection, LogBarrier


class AdaptiveWeight(ModelLayer):
    """The sum over losses ``x`` of ``w x`` plus a term that keeps the trained weight ``w`` from vanishing."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        name: str = "adaptive_weight",
        optimizer: Any = None,
        weights: Any = None,
        enable_diagnose: bool = False,
        estimation_method: str = "log_std",
        pos_optim_method: str = "log_barrier",
        reg_lambda: float = 0.1,
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: Columns of one number each, the losses.
            name: Its name.
            optimizer: Optimizer of the weights; None for the model's.
            weights: What they start with; equal shares if None.
            enable_diagnose: Whether each weight is written to a blob, which the model plots.
            estimation_method: What is trained: ``log_std``, the logarithm of the variance, or ``inv_var``,
                its inverse, which has to stay positive.
            pos_optim_method: How it does: ``log_barrier`` or ``pos_grad_proj``.
            reg_lambda: Factor of the barrier.
            **kwargs: See `ModelLayer`.

        Raises:
            TypeError: A method is another one.
        """
        super().__init__(model, name, input_record, **kwargs)
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("adaptive_weight"))
        self.data = input_record.field_blobs()
        self.num = len(self.data)
        self.optimizer = optimizer
        self.weights = np.full(self.num, 1 / self.num) if weights is None else np.array(weights, float)
        assert len(self.weights) == self.num, f"{self.num} weights are needed, not {len(self.weights)}"
        assert self.weights.min() > 0, f"weights start positive, not as {self.weights.tolist()}"
        self.estimation_method = estimation_method.lower()
        self.pos_optim_method = pos_optim_method.lower()
        self.reg_lambda = float(reg_lambda)
        self.enable_diagnose = enable_diagnose
        if self.estimation_method == "log_std":
            self.mu = self._trained("mu", np.log(0.5 / self.weights))
        elif self.estimation_method == "inv_var":
            self.k = self._trained("k", 2 * self.weights, self._regularizer())
        else:
            raise TypeError(f"estimation_method is log_std or inv_var, not {estimation_method}")
        self.weight_i = []
        if enable_diagnose:
            self.weight_i = [self.get_next_blob_reference(f"adaptive_weight_{at}") for at in range(self.num)]
            for blob in self.weight_i:
                model.add_ad_hoc_plot_blob(blob)

    def _regularizer(self) -> Any:
        if self.pos_optim_method == "log_barrier":
            return LogBarrier(reg_lambda=self.reg_lambda)
        if self.pos_optim_method == "pos_grad_proj":
            return BoundedGradientProjection(lb=0, left_open=True)
        raise TypeError(f"pos_optim_method is log_barrier or pos_grad_proj, not {self.pos_optim_method}")

    def _trained(self, name: str, values: Any, regularizer: Any = None) -> Any:
        return self.create_param(
            param_name=name,
            shape=[self.num],
            initializer=("GivenTensorFill", {"values": values, "dtype": core.DataType.FLOAT}),
            optimizer=self.optimizer,
            regularizer=regularizer,
        )

    def concat_data(self, net: Any) -> Any:
        """Add what makes one vector of the losses."""
        named = net.NextScopedBlob
        numbers = [
            net.Reshape([blob], [named(f"reshaped_data_{at}"), named(f"new_shape_{at}")], shape=[1])[0]
            for at, blob in enumerate(self.data)
        ]
        return net.Concat(numbers, [named("losses"), named("losses_sizes")], axis=0)[0]

    def _weights_and_terms(self, net: Any) -> tuple[Any, Any]:
        named = net.NextScopedBlob
        if self.estimation_method == "log_std":
            inverse = net.Exp(net.Negative(self.mu, named("negative_mu")), named("inverse"))
            return net.Scale(inverse, named("weight"), scale=0.5), net.Scale(self.mu, named("reg"), scale=0.5)
        weight = net.Scale(self.k, named("weight"), scale=0.5)
        return weight, net.Scale(net.Log(self.k, named("log_inverse")), named("reg"), scale=-0.5)

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        losses = self.concat_data(net)
        weight, term = self._weights_and_terms(net)
        weighted = net.Mul([weight, losses], net.NextScopedBlob("weighted_losses"))
        total = net.Add([weighted, term], net.NextScopedBlob("balanced_losses"))
        net.SumElements(total, self.output_schema())
        for at, blob in enumerate(self.weight_i):
            net.Slice(weight, blob, starts=[at], ends=[at + 1])
