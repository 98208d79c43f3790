"""Gradient descent, and weight decay."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.caffe2_pb2 import DeviceOption
from netgrad.caffe2.python import core, scope
from netgrad.caffe2.python.modeling.parameter_info import ParameterInfo
from netgrad.caffe2.python.optimizer.base import Optimizer, OptimizerWithRate


class SgdOptimizer(OptimizerWithRate):
    """Stochastic gradient descent, with momentum if asked."""

    def __init__(
        self,
        base_learning_rate: float = 0.01,
        policy: str = "fixed",
        momentum: float = 0.0,
        nesterov: bool = True,
        sparse_dedup_aggregator: str | None = None,
        lars: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(base_learning_rate, policy, **kwargs)
        self.momentum = momentum
        self.nesterov = nesterov
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.lars = lars

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.base_learning_rate == 0:
            return
        assert self.base_learning_rate > 0, "a learning rate is positive"
        sparse = isinstance(grad, core.GradientSlice)
        self._clear_local_lr_multiplier()
        if self.lars is not None and not sparse:
            rescale = net.Lars(
                [param, grad], f"{param}_lars", offset=self.lars, lr_min=0.0, lr_max=float("inf")
            )
            self._add_local_lr_multiplier(rescale)
        # Updates add; that with momentum subtracts what it computes.
        rate, _ = self._rate(net, param_init_net, -1.0 if self.momentum > 0 else 1.0)
        if sparse:
            grad = self._deduplicated(net, grad, self.sparse_dedup_aggregator)
        if self.momentum > 0:
            state = self._state(param_init_net, param, "momentum")
            arguments = {"momentum": self.momentum, "nesterov": int(self.nesterov)}
            if sparse:
                net.SparseMomentumSGDUpdate(
                    [grad.values, state, rate, param, grad.indices], [grad.values, state, param], **arguments
                )
            else:
                net.MomentumSGDUpdate([grad, state, rate, param], [grad, state, param], **arguments)
            return
        one = _one(param_init_net)
        self._aux_shared.append(one)
        if sparse:
            net.ScatterWeightedSum([param, one, grad.indices, grad.values, rate], param)
        else:
            net.WeightedSum([param, one, grad, rate], param)


def _one(param_init_net: Any) -> Any:
    """A blob of 1.0 on the current device."""
    device = scope.CurrentDeviceScope() or DeviceOption()
    name = f"ONE_{device.device_type}_{device.device_id}{device.node_name}"
    return param_init_net.ConstantFill([], core.BlobReference(name), shape=[1], value=1.0)


class WeightDecayBuilder(Optimizer):
    """Adds a share of the parameter to its gradient."""

    def __init__(self, weight_decay: float) -> None:
        super().__init__()
        self.weight_decay = weight_decay

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        device = scope.CurrentDeviceScope() or DeviceOption()
        decay = param_init_net.ConstantFill(
            [],
            core.BlobReference(f"wd_{device.device_type}_{device.device_id}"),
            shape=[1],
            value=self.weight_decay,
        )
        grad = param_info.grad
        if isinstance(grad, core.GradientSlice):
            raise ValueError("Weight decay does not yet support sparse gradients")
        net.WeightedSum([grad, _one(param_init_net), param_info.blob, decay], grad)
