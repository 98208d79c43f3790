"""Optimizers whose steps depend on the gradients before."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.modeling.parameter_info import ParameterInfo
from netgrad.caffe2.python.optimizer.base import Optimizer, OptimizerWithRate


class AdagradOptimizer(OptimizerWithRate):
    """Adagrad: steps shrink with the sum of squared gradients."""

    def __init__(
        self,
        alpha: float = 0.01,
        epsilon: float = 1e-4,
        decay: float = 1,
        policy: str = "fixed",
        sparse_dedup_aggregator: str | None = None,
        rowWise: bool = False,
        engine: str = "",
        lars: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(alpha, policy, **kwargs)
        self.epsilon = epsilon
        self.decay = decay
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.rowWise = rowWise
        self.engine = engine
        self.lars = lars

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.base_learning_rate <= 0:
            return
        sparse = isinstance(grad, core.GradientSlice)
        self._clear_local_lr_multiplier()
        if self.lars is not None and not sparse:
            self._add_local_lr_multiplier(
                net.Lars([param, grad], f"{param}_lars", offset=self.lars, lr_min=0.0, lr_max=float("inf"))
            )
        rate, _ = self._rate(net, param_init_net)
        if self.rowWise:
            assert sparse, f"row-wise Adagrad is for sparse gradients; that of {param} is dense"
            shape = param_init_net.Shape([param], f"{param}_shape")
            rows = param_init_net.Slice([shape], f"{param}_numrows", starts=[0], ends=[1])
            state = param_init_net.ConstantFill(
                [rows], f"{param}_avg_squared_sum", input_as_shape=1, value=0.0
            )
            self._aux_local.append(state)
        else:
            state = self._state(param_init_net, param, "squared_sum")
        if sparse:
            assert self.decay == 1, "decay is for dense gradients"
            grad = self._deduplicated(net, grad, self.sparse_dedup_aggregator)
            operator = net.RowWiseSparseAdagrad if self.rowWise else net.SparseAdagrad
            operator(
                [param, state, grad.indices, grad.values, rate],
                [param, state],
                epsilon=self.epsilon,
                engine=self.engine,
            )
        else:
            net.Adagrad(
                [param, state, grad, rate],
                [param, state],
                epsilon=self.epsilon,
                decay=float(self.decay),
                engine=self.engine,
            )


class AdamOptimizer(OptimizerWithRate):
    """Adam: steps by running averages of the gradient and of its square."""

    def __init__(
        self,
        alpha: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        policy: str = "fixed",
        sparse_dedup_aggregator: str | None = None,
        rowWise: bool = False,
        engine: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(alpha, policy, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.rowWise = rowWise
        self.engine = engine

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.base_learning_rate <= 0:
            return
        rate, iteration = self._rate(net, param_init_net)
        first = self._state(param_init_net, param, "first_moment")
        if self.rowWise:
            shape = param_init_net.Shape([param], f"{param}_shape")
            rows = param_init_net.Slice([shape], f"{param}_numrows", starts=[0], ends=[1])
            second = param_init_net.ConstantFill(
                [rows], f"{param}_avg_second_moment", input_as_shape=1, value=0.0
            )
            self._aux_local.append(second)
        else:
            second = self._state(param_init_net, param, "second_moment")
        self._aux_shared.append(iteration)
        arguments = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}
        if isinstance(grad, core.GradientSlice):
            grad = self._deduplicated(net, grad, self.sparse_dedup_aggregator)
            operator = net.RowWiseSparseAdam if self.rowWise else net.SparseAdam
            operator(
                [param, first, second, grad.indices, grad.values, rate, iteration],
                [param, first, second],
                **arguments,
            )
        else:
            assert not self.rowWise, f"row-wise Adam is for sparse gradients; that of {param} is dense"
            net.Adam([param, first, second, grad, rate, iteration], [param, first, second], **arguments)


class RmsPropOptimizer(OptimizerWithRate):
    """RMSProp: steps by the gradient over the root of its running mean square."""

    def __init__(
        self,
        alpha: float = 0.01,
        decay: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-5,
        policy: str = "fixed",
        engine: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(alpha, policy, **kwargs)
        self.decay = decay
        self.momentum = momentum
        self.epsilon = epsilon
        self.engine = engine

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        assert self.base_learning_rate > 0, "a learning rate is positive"
        assert not isinstance(grad, core.GradientSlice), f"RMSProp takes no sparse gradient, as of {param}"
        rate, _ = self._rate(net, param_init_net, -1.0)
        step = param_init_net.ConstantFill([param], f"{param}_grad_o", value=0.0)
        squares = self._state(param_init_net, param, "mean_squares", value=1.0)
        momentum = self._state(param_init_net, param, "momentum")
        one = core.BlobReference("ONE_FOR_RMSPROP")
        param_init_net.ConstantFill([], one, shape=[1], value=1.0)
        net.RmsProp(
            [grad, squares, momentum, one],
            [step, squares, momentum],
            decay=self.decay,
            momentum=self.momentum,
            epsilon=self.epsilon,
            engine=self.engine,
        )
        net.MomentumSGDUpdate([step, momentum, rate, param], [step, momentum, param])


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

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        state = param_init_net.ConstantFill([param], f"{param}_ftrl_nz", extra_shape=[2], value=0.0)
        self._aux_local.append(state)
        arguments = {
            "alpha": float(self.alpha),
            "beta": float(self.beta),
            "lambda1": float(self.lambda1),
            "lambda2": float(self.lambda2),
            "engine": self.engine,
        }
        if isinstance(grad, core.GradientSlice):
            if self.sparse_dedup_aggregator:
                grad = net.DeduplicateGradientSlices(grad, aggregator=self.sparse_dedup_aggregator)
            net.SparseFtrl([param, state, grad.indices, grad.values], [param, state], **arguments)
        else:
            net.Ftrl([param, state, grad], [param, state], **arguments)

    def scale_learning_rate(self, scale: float) -> None:
        """Multiply the rate by a number, before the updates are added."""
        self.alpha *= scale
