"""Regularizers that keep parameters between bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netgrad.caffe2.python import utils
from netgrad.caffe2.python.regularizer.base import Regularizer


class LogBarrier(Regularizer):
    """Minus the sum of logarithms, with a factor that shrinks; the parameter is kept positive."""

    def __init__(
        self,
        reg_lambda: float,
        discount_policy: str = "inv",
        discount_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Make the regularizer.

        Args:
            reg_lambda: The factor.
            discount_policy: How it shrinks: the policy of a learning rate.
            discount_options: Arguments of the policy.
        """
        super().__init__()
        assert reg_lambda > 0, f"reg_lambda is positive, not {reg_lambda}"
        self.reg_lambda = reg_lambda
        self.discount_policy = discount_policy
        self.discount_options = dict(discount_options or {"gamma": 1.0, "power": 1.0})

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        iteration = utils.BuildUniqueMutexIter(param_init_net, net)
        discount = net.LearningRate(
            [iteration],
            [net.NextScopedBlob(f"{param}_log_barrier_discount")],
            base_lr=-self.reg_lambda,
            policy=self.discount_policy,
            **self.discount_options,
        )
        positive = net.Clip([param], [net.NextScopedBlob(f"{param}_non_neg")], min=self.kEpsilon)
        logarithms = net.Log([positive], [net.NextScopedBlob(f"{param}_log")])
        total = net.SumElements([logarithms], [net.NextScopedBlob(f"{param}_log_sum")])
        return net.Mul([total, discount], [net.NextScopedBlob(f"{param}_log_barrier")], broadcast=1)

    def _run_after_optimizer(self, net: Any, param_init_net: Any, param: Any, grad: Any) -> Any:
        self._ensure_clipped(net, param, grad, min=0, open_range=True)


class BoundedGradientProjection(Regularizer):
    """The parameter lies between two bounds, either of which may be open."""

    def __init__(
        self,
        lb: float | None = None,
        ub: float | None = None,
        left_open: bool = False,
        right_open: bool = False,
        epsilon: float | None = None,
    ) -> None:
        super().__init__()
        self.lb = None if lb is None else float(lb)
        self.ub = None if ub is None else float(ub)
        self.left_open = left_open
        self.right_open = right_open
        self.kEpsilon = self.kEpsilon if epsilon is None else float(epsilon)
        assert self.kEpsilon > 0, f"epsilon is positive, not {epsilon}"
        if self.lb is not None and self.ub is not None:
            low = self.lb + (self.kEpsilon if left_open else 0.0)
            high = self.ub - (self.kEpsilon if right_open else 0.0)
            assert low <= high, f"nothing is between the bounds lb={lb} and ub={ub} with epsilon={epsilon}"

    def _run_after_optimizer(self, net: Any, param_init_net: Any, param: Any, grad: Any) -> Any:
        self._ensure_clipped(
            net,
            param,
            grad,
            min=self.lb,
            max=self.ub,
            left_open=self.left_open,
            right_open=self.right_open,
        )
