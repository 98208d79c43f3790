"""Adam in its forms."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.modeling.parameter_info import ParameterInfo
from netgrad.caffe2.python.optimizer.base import OptimizerWithRate


class AdamOptimizer(OptimizerWithRate):
    """Adam: steps by running averages of the gradient and of its square."""

    def __init__(
        self,
        alpha: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        policy: str = "fixed",
        use_lr_adaption: bool = False,
        lr_alpha: float = 0.01,
        normalized_lr_adaption: bool = True,
        sparse_dedup_aggregator: str | None = None,
        rowWise: bool = False,
        engine: str = "",
        enableRAdam: bool = False,
        use_smart_decay: bool = False,
        **kwargs: Any,
    ) -> None:
        """Make the optimizer.

        Args:
            alpha: The rate.
            beta1: How much of the first moment stays.
            beta2: How much of the second moment stays.
            epsilon: Added to the root of the second moment.
            policy: The policy of the rate.
            use_lr_adaption: Whether the rate is adapted by the product of gradient and step.
            lr_alpha: How much.
            normalized_lr_adaption: Whether that product is divided by both norms.
            sparse_dedup_aggregator: How repeated rows of a sparse gradient are aggregated.
            rowWise: Whether there is one second moment per row, for sparse gradients.
            engine: Kept for scripts.
            enableRAdam: Whether steps are rectified, for sparse gradients.
            use_smart_decay: Whether moments decay in iterations in which a row of a sparse gradient doesn't
                occur.
            **kwargs: Arguments of the policy.

        Raises:
            NotImplementedError: Smart decay is asked for with another form.
        """
        super().__init__(alpha, policy, **kwargs)
        others = {"rowWise": rowWise, "enableRAdam": enableRAdam, "use_lr_adaption": use_lr_adaption}
        clash = [name for name, value in others.items() if value] if use_smart_decay else []
        if clash:
            raise NotImplementedError(f"use_smart_decay does not go with {' and '.join(clash)}")
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.use_lr_adaption = use_lr_adaption
        self.lr_alpha = lr_alpha
        self.normalized_lr_adaption = normalized_lr_adaption
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.rowWise = rowWise
        self.engine = engine
        self.enableRAdam = enableRAdam
        self.use_smart_decay = use_smart_decay

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        sparse = isinstance(grad, core.GradientSlice)
        assert sparse or not self.rowWise, f"row-wise Adam is for sparse gradients; that of {param} is dense"
        assert not (self.rowWise and self.enableRAdam), "row-wise Adam is not rectified"
        rate, iteration = self._rate(net, param_init_net)
        self._aux_params.shared.append(iteration)
        states = [self._state(param_init_net, param, "first_moment")]
        if self.rowWise:
            states.append(self._row_state(param_init_net, param, "avg_second_moment"))
        else:
            states.append(self._state(param_init_net, param, "second_moment"))
        if self.use_smart_decay:
            whole = core.DataType.INT64
            states.append(self._row_state(param_init_net, param, "last_seen", value=0, dtype=whole))
        outputs = [param, *states]
        step = core.BlobReference(f"{param}_effective_grad")
        if self.use_lr_adaption:
            outputs.append(step)
        arguments: dict[str, Any] = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}
        if sparse:
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            slope = grad.values
            if self.rowWise:
                update = net.RowWiseSparseAdam
            elif self.use_smart_decay:
                update = net.SmartDecaySparseAdam
            else:
                update = net.SparseAdam
                arguments["enableRAdam"] = self.enableRAdam
            update([param, *states, grad.indices, slope, rate, iteration], outputs, **arguments)
        else:
            slope = grad
            if self.use_smart_decay:  # every row occurs in every iteration
                del outputs[len(states)], states[-1]
            net.Adam([param, *states, slope, rate, iteration], outputs, **arguments)
        if self.use_lr_adaption:
            net.LearningRateAdaption(
                [rate, slope, step],
                [rate],
                lr_alpha=self.lr_alpha,
                normalized_lr_adaption=self.normalized_lr_adaption,
            )
