"""Optimizers that follow the regularized leader."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.modeling.parameter_info import ParameterInfo
from netgrad.caffe2.python.optimizer.base import Optimizer


class FtrlOptimizer(Optimizer):
    """Follow the regularized leader, per coordinate."""

    def __init__(
        self,
        alpha: float = 0.01,
        beta: float = 1e-4,
        lambda1: float = 0,
        lambda2: float = 0,
        sparse_dedup_aggregator: str | None = None,
        engine: str = "",
    ) -> None:
        super().__init__()
        self.alpha = alpha
        self.beta = beta
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.engine = engine

    def _arguments(self) -> dict[str, Any]:
        numbers = {name: float(getattr(self, name)) for name in ("alpha", "beta", "lambda1", "lambda2")}
        return {"engine": self.engine, **numbers}

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        state = self._state(param_init_net, param, "ftrl_nz", extra_shape=[2])
        if isinstance(grad, core.GradientSlice):
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            net.SparseFtrl([param, state, grad.indices, grad.values], [param, state], **self._arguments())
        else:
            net.Ftrl([param, state, grad], [param, state], **self._arguments())

    def scale_learning_rate(self, scale: float) -> None:
        """Multiply the rate by a number, before the updates are added."""
        self.alpha *= scale


class GFtrlOptimizer(FtrlOptimizer):
    """Follow the regularized leader with a threshold for whole columns of the weights; dense only."""

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        assert not isinstance(grad, core.GradientSlice), f"GFtrl takes no sparse gradient, as of {param}"
        state = self._state(param_init_net, param, "gftrl_nz", extra_shape=[2])
        net.GFtrl([param, state, grad], [param, state], **self._arguments())
