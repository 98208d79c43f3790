"""Optimizers whose steps depend on the gradients before."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import core, utils
from netgrad.caffe2.python.modeling.parameter_info import ParameterInfo
from netgrad.caffe2.python.optimizer.base import Optimizer, OptimizerWithRate, constant_one


class WngradOptimizer(OptimizerWithRate):
    """WNGrad: one rate per parameter, which shrinks with the squared norms of its gradients."""

    def __init__(
        self,
        alpha: float = 1.0,
        epsilon: float = 1e-9,
        policy: str = "fixed",
        sparse_dedup_aggregator: str | None = None,
        engine: str = "",
        moment_init: float = 100.0,
        lars: float | None = None,
        output_effective_lr: bool = False,
        output_effective_lr_and_update: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(alpha, policy, **kwargs)
        self.epsilon = epsilon
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.engine = engine
        self.moment_init = moment_init
        self.lars = lars
        self.output_effective_lr = output_effective_lr
        self.output_effective_lr_and_update = output_effective_lr_and_update

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        self._add_lars(net, param_init_net, param_info, self.lars)
        rate, _ = self._rate(net, param_init_net)
        moment = self._number(param_init_net, param, "moment", self.moment_init)
        arguments = {"epsilon": self.epsilon, "engine": self.engine}
        if isinstance(grad, core.GradientSlice):
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            net.SparseWngrad([param, moment, grad.indices, grad.values, rate], [param, moment], **arguments)
            return
        outputs = [param, moment]
        if self.output_effective_lr or self.output_effective_lr_and_update:
            outputs.append(core.BlobReference(f"{param}_effective_lr"))
        if self.output_effective_lr_and_update:
            outputs.append(core.BlobReference(f"{param}_update"))
        net.Wngrad([param, moment, grad, rate], outputs, **arguments)


class DecayAdagradOptimizer(OptimizerWithRate):
    """Adagrad with a moving average of the gradients, for dense ones; sparse gradients get plain Adagrad."""

    def __init__(
        self,
        alpha: float = 0.01,
        beta1: float = 0.0,
        beta2: float = 0.999,
        epsilon: float = 0.1,
        weight_decay: float = 0.0,
        ema_options: Any = None,
        bias_correction_first: bool = True,
        policy: str = "fixed",
        engine: str = "",
        **kwargs: Any,
    ) -> None:
        """Make the optimizer.

        Args:
            alpha: The rate.
            beta1: How much of the average stays at each step.
            beta2: Kept for scripts: the history of squares only grows.
            epsilon: Added to the root of the history.
            weight_decay: The share of the parameter that is added to a step.
            ema_options: Must be empty.
            bias_correction_first: Whether the average is divided by the sum of its weights.
            policy: The policy of the rate.
            engine: Kept for scripts.
            **kwargs: Arguments of the policy.

        Raises:
            NotImplementedError: There are options for averages of the parameters.
        """
        super().__init__(alpha, policy, **kwargs)
        if ema_options:
            raise NotImplementedError("netgrad does not have ema_options of DecayAdagradOptimizer")
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.weight_decay = weight_decay
        self.bias_correction_first = bias_correction_first
        self.engine = engine

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        rate, iteration = self._rate(net, param_init_net)
        if isinstance(grad, core.GradientSlice):
            history = self._state(param_init_net, param, "squared_sum")
            operands = [param, history, grad.indices, grad.values, rate]
            net.SparseAdagrad(operands, [param, history], epsilon=self.epsilon)
            return
        # The first name is misspelt in the original too, and saved models hold it.
        average = self._state(param_init_net, param, "first_mo1ment")
        history = self._state(param_init_net, param, "second_moment")
        self._aux_params.shared.append(iteration)
        net.DecayAdagrad(
            [param, average, history, grad, rate, iteration],
            [param, average, history],
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon,
            weight_decay=self.weight_decay,
            bias_correction_first=self.bias_correction_first,
        )


class StormOptimizer(Optimizer):
    """STORM: momentum that makes up for the variance of gradients, with a rate by their squared norms."""

    def __init__(
        self,
        lr: float = 0.1,
        momentum: float = 10.0,
        beta: float = 0.1,
        grad_sq_init: float = 0.01,
        policy: str = "fixed",
        sparse_dedup_aggregator: str | None = None,
        lars: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.lr = lr
        self.momentum = momentum
        self.beta = beta
        self.grad_sq_init = grad_sq_init
        self.policy = policy
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.lars = lars
        self.init_kwargs = kwargs

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.lr <= 0:
            return
        self._add_lars(net, param_init_net, param_info, self.lars)
        rate, _ = self.build_lr(
            net, param_init_net, base_learning_rate=self.lr, policy=self.policy, **self.init_kwargs
        )
        moment = self._state(param_init_net, param, "moment")
        squares = self._number(param_init_net, param, "grad_sq_sum", self.grad_sq_init)
        states = [param, moment, squares]
        arguments = {"momentum": self.momentum, "beta": self.beta}
        if isinstance(grad, core.GradientSlice):
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            net.SparseStorm([*states, grad.values, grad.indices, rate], states, **arguments)
        else:
            net.Storm([*states, grad, rate], states, **arguments)

    def scale_learning_rate(self, scale: float) -> None:
        """Multiply the rate by a number, before the updates are added."""
        self.lr *= scale


class AdadeltaOptimizer(OptimizerWithRate):
    """Adadelta: steps by the ratio of the running roots of squared steps and of squared gradients."""

    def __init__(
        self,
        alpha: float = 0.01,
        epsilon: float = 1e-4,
        decay: float = 0.95,
        policy: str = "fixed",
        sparse_dedup_aggregator: str | None = None,
        engine: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(alpha, policy, **kwargs)
        self.epsilon = epsilon
        self.decay = decay
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.engine = engine

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        rate, _ = self._rate(net, param_init_net)
        endings = ("squared_moment", "squared_moment_update")
        states = [param, *(self._state(param_init_net, param, ending) for ending in endings)]
        arguments = {"epsilon": self.epsilon, "decay": self.decay, "engine": self.engine}
        if isinstance(grad, core.GradientSlice):
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            net.SparseAdadelta([*states, grad.indices, grad.values, rate], states, **arguments)
        else:
            net.Adadelta([*states, grad, rate], states, **arguments)


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
        assert self.alpha > 0, "a learning rate is positive"
        assert not isinstance(grad, core.GradientSlice), f"RMSProp takes no sparse gradient, as of {param}"
        one = constant_one(param_init_net, with_node=False)
        rate, _ = self._rate(net, param_init_net, -1.0)
        step = param_init_net.ConstantFill([param], core.BlobReference(f"{param}_grad_o"), values=0.0)
        squares = self._state(param_init_net, param, "mean_squares")
        momentum = self._state(param_init_net, param, "momentum")
        net.RmsProp(
            [grad, squares, momentum, one],
            [step, squares, momentum],
            decay=self.decay,
            momentum=self.momentum,
            epsilon=self.epsilon,
            engine=self.engine,
        )
        net.MomentumSGDUpdate([step, momentum, rate, param], [step, momentum, param])


class YellowFinOptimizer(Optimizer):
    """YellowFin: momentum whose rate and decay are measured for each parameter; dense only."""

    def __init__(
        self,
        alpha: float = 0.1,
        mu: float = 0.0,
        beta: float = 0.999,
        curv_win_width: int = 20,
        zero_debias: bool = True,
        epsilon: float = 1e-6,
        policy: str = "fixed",
        sparse_dedup_aggregator: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.alpha = alpha
        self.mu = mu
        self.beta = beta
        self.curv_win_width = curv_win_width
        self.zero_debias = zero_debias
        self.epsilon = epsilon
        self.policy = policy
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.init_kwargs = kwargs

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        assert self.alpha > 0, "a learning rate is positive"
        assert not isinstance(grad, core.GradientSlice), f"YellowFin takes no sparse gradient, as of {param}"
        states = [
            param,
            self._state(param_init_net, param, "moment"),
            self._number(param_init_net, param, "lr_avg", self.alpha),
            self._number(param_init_net, param, "mu_avg", self.mu),
            self._number(param_init_net, param, "curv_win", 0.0, self.curv_win_width),
            self._state(param_init_net, param, "g_avg"),
            self._state(param_init_net, param, "g2_avg"),
            self._number(param_init_net, param, "scalars_memory", 0.0, 5),
        ]
        iteration = utils.BuildUniqueMutexIter(param_init_net, net, iter_val=0)
        self._aux_params.shared.append(iteration)
        net.YellowFin(
            [*states, grad, iteration],
            states,
            beta=self.beta,
            epsilon=self.epsilon,
            curv_win_width=self.curv_win_width,
            zero_debias=self.zero_debias,
        )

    def scale_learning_rate(self, scale: float) -> None:
        """Multiply the first rate by a number, before the updates are added."""
        self.alpha *= scale
