"""Gradient descent, in several precisions, and weight decay."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.caffe2_pb2 import CPU
from netgrad.caffe2.python import core, scope
from netgrad.caffe2.python.modeling.parameter_info import ParameterInfo
from netgrad.caffe2.python.optimizer.base import Optimizer, constant_one


class SgdOptimizer(Optimizer):
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
        super().__init__()
        self.base_learning_rate = base_learning_rate
        self.policy = policy
        self.momentum = momentum
        self.nesterov = nesterov
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.lars = lars
        self.init_kwargs = kwargs

    def scale_learning_rate(self, scale: float) -> None:
        """Multiply the rate by a number, before the updates are added."""
        self.base_learning_rate *= scale

    def _learns(self) -> bool:
        """Whether there is a rate, which may not be negative."""
        rate = self.base_learning_rate
        assert rate >= 0, f"Expect positive base learning rate, got {rate}"
        return rate > 0

    def _rate(self, net: Any, param_init_net: Any, sign: float) -> Any:
        rate, _ = self.build_lr(
            net,
            param_init_net,
            base_learning_rate=sign * self.base_learning_rate,
            policy=self.policy,
            **self.init_kwargs,
        )
        return rate

    def _moving(self) -> dict[str, Any]:
        return {"momentum": self.momentum, "nesterov": self.nesterov}

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        if not self._learns():
            return
        self._add_lars(net, param_init_net, param_info, self.lars)
        # Weighted sums add; what has momentum subtracts its step.
        rate = self._rate(net, param_init_net, -1.0 if self.momentum else 1.0)
        one = constant_one(param_init_net)
        self._aux_params.shared.append(one)
        sparse = isinstance(grad, core.GradientSlice)
        if sparse:
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
        if self.momentum > 0:
            state = self._state(param_init_net, param, "momentum")
            if sparse:
                net.SparseMomentumSGDUpdate(
                    [grad.values, state, rate, param, grad.indices],
                    [grad.values, state, param],
                    **self._moving(),
                )
            else:
                net.MomentumSGDUpdate([grad, state, rate, param], [grad, state, param], **self._moving())
        elif sparse:
            net.ScatterWeightedSum([param, one, grad.indices, grad.values, rate], param)
        else:
            net.WeightedSum([param, one, grad, rate], param)


class MultiPrecisionSgdOptimizer(SgdOptimizer):
    """Descent of the float copy of a half-precision parameter, which is rounded after each step."""

    def __init__(
        self,
        base_learning_rate: float = 0.1,
        momentum: float = 0.0,
        policy: str = "fixed",
        nesterov: bool = True,
        sparse_dedup_aggregator: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(base_learning_rate, policy, momentum, nesterov, sparse_dedup_aggregator, **kwargs)

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        if not param_info.blob_copy:
            super()._run(net, param_init_net, param_info)
            return
        param, grad, wide = param_info.blob, param_info.grad, param_info.blob_copy[core.DataType.FLOAT]
        if not self._learns():
            return
        assert not isinstance(grad, core.GradientSlice), "multi-precision descent takes no sparse gradients"
        rate = self._rate(net, param_init_net, -1.0)
        name = core.BlobReference(f"{param}_momentum")
        state = param_init_net.ConstantFill([wide], name, value=0.0)
        self._aux_params.local.append(state)
        slope = net.HalfToFloat(grad, core.BlobReference(f"{grad}_fp32"))
        net.MomentumSGDUpdate([slope, state, rate, wide], [slope, state, wide], **self._moving())
        net.FloatToHalf(wide, param)


class FP16SgdOptimizer(SgdOptimizer):
    """Descent in half precision, with weight decay; of parameters without a half copy in single precision."""

    def __init__(
        self,
        base_learning_rate: float = 0.1,
        momentum: float = 0.0,
        policy: str = "fixed",
        nesterov: bool = True,
        weight_decay: float = 0.0001,
        sparse_dedup_aggregator: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(base_learning_rate, policy, momentum, nesterov, sparse_dedup_aggregator, **kwargs)
        self.weight_decay = weight_decay

    def _run(
        self, net: Any, param_init_net: Any, param_info: ParameterInfo, fp32_update: bool = False
    ) -> None:
        copies = param_info.blob_copy or {}
        # batch normalization keeps its parameters in single precision
        single = fp32_update or not copies or "spatbn" in str(param_info.blob)
        param = wide = param_info.blob
        if not single and core.DataType.FLOAT in copies:
            wide = copies[core.DataType.FLOAT]
        elif not single and core.DataType.FLOAT16 in copies:
            param = copies[core.DataType.FLOAT16]
        elif not single:
            raise AssertionError(f"{param_info.name} has no copy in single or half precision")
        grad = param_info.grad
        if not self._learns():
            return
        assert not isinstance(grad, core.GradientSlice), "descent in half precision takes no sparse gradients"
        rate = self._rate(net, param_init_net, -1.0)
        name = core.BlobReference(f"{param}_momentum_fp32")
        wide_state = param_init_net.ConstantFill([wide], name, value=0.0)
        half_state = param_init_net.FloatToHalf(wide_state, core.BlobReference(f"{param}_momentum"))
        self._aux_params.local.append(half_state)
        update = net.FP32MomentumSGDUpdate if single else net.FP16MomentumSGDUpdate
        state = wide_state if single else half_state
        update(
            [grad, state, rate, param],
            [grad, state, param],
            weight_decay=self.weight_decay,
            **self._moving(),
        )


class WeightDecayBuilder(Optimizer):
    """Adds a share of the parameter to its gradient."""

    def __init__(self, weight_decay: float) -> None:
        super().__init__()
        self.weight_decay = weight_decay

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        device = scope.CurrentDeviceScope() or core.DeviceOption(CPU)
        one = constant_one(param_init_net, with_node=False)
        name = core.BlobReference(f"wd_{device.device_type}_{device.device_id}")
        decay = param_init_net.ConstantFill([], name, shape=[1], value=self.weight_decay)
        grad = param_info.grad
        if isinstance(grad, core.GradientSlice):
            raise ValueError("Weight decay does not yet support sparse gradients")
        net.WeightedSum([grad, one, param_info.blob, decay], grad)
