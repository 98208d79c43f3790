"""Adagrad in its forms."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import core, workspace
from netgrad.caffe2.python.modeling.parameter_info import ParameterInfo
from netgrad.caffe2.python.optimizer.base import OptimizerWithRate

FP16_ENGINES = ("SIMD_Q_FP16", "SIMD_Q_STOC_FP16", "SIMD_Q_STOC_MKL_FP16")


class AdagradOptimizer(OptimizerWithRate):
    """Adagrad: steps shrink with the sum of squared gradients."""

    def __init__(
        self,
        alpha: float = 0.01,
        epsilon: float = 1e-4,
        decay: float = 1,
        weight_decay: float = 0.0,
        policy: str = "fixed",
        sparse_dedup_aggregator: str | None = None,
        rowWise: bool = False,
        engine: str = "",
        lars: float | None = None,
        output_effective_lr: bool = False,
        output_effective_lr_and_update: bool = False,
        pruning_options: Any = None,
        swa_options: Any = None,
        ema_options: Any = None,
        weight_scale: Any = None,
        counter_halflife: int = -1,
        **kwargs: Any,
    ) -> None:
        """Make the optimizer.

        Args:
            alpha: The rate.
            epsilon: Added to the root of the history.
            decay: How much of the history stays, for dense gradients.
            weight_decay: The share of a parameter of two dims or more that is added to its gradient.
            policy: The policy of the rate.
            sparse_dedup_aggregator: How repeated rows of a sparse gradient are aggregated.
            rowWise: Whether there is one history per row, for sparse gradients.
            engine: Kept for scripts.
            lars: The offset of LARS, for dense gradients.
            output_effective_lr: Whether there is a blob ``<parameter>_effective_lr``.
            output_effective_lr_and_update: Whether there is one ``<parameter>_update``, too.
            pruning_options: Must be empty.
            swa_options: Must be empty.
            ema_options: Must be empty.
            weight_scale: An object with ``stepsize``, ``upper_bound_iter``, ``scale`` and ``to_aux``.
            counter_halflife: In how many iterations half of a row's count is forgotten; -1: rows are not
                counted. Weight decay grows with how seldom a row comes.
            **kwargs: Arguments of the policy.

        Raises:
            NotImplementedError: There are options for pruning, or for averages of the parameters.
        """
        super().__init__(alpha, policy, **kwargs)
        options = {
            "pruning_options": pruning_options,
            "swa_options": swa_options,
            "ema_options": ema_options,
        }
        given = [name for name, value in options.items() if value]
        if given:
            raise NotImplementedError(f"netgrad does not have {', '.join(given)} of AdagradOptimizer")
        self.epsilon = epsilon
        self.decay = decay
        self.weight_decay = float(weight_decay)
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.rowWise = rowWise
        self.engine = engine
        self.lars = lars
        self.output_effective_lr = output_effective_lr
        self.output_effective_lr_and_update = output_effective_lr_and_update
        self.weight_scale = weight_scale
        self.counter_halflife = counter_halflife

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        sparse = isinstance(grad, core.GradientSlice)
        assert sparse or not self.rowWise, f"row-wise Adagrad is for sparse gradients; {param}'s is dense"
        if self.lars is not None and not sparse:
            assert self.weight_decay == 0, "LARS goes without weight decay"
        self._add_lars(net, param_init_net, param_info, self.lars)
        rate, iteration = self._rate(net, param_init_net)
        if self.rowWise:
            history = self._row_state(param_init_net, param, "avg_squared_sum")
        elif self.engine in FP16_ENGINES:
            raise NotImplementedError(f"netgrad does not have the engine {self.engine} of Adagrad")
        else:
            history = self._state(param_init_net, param, "squared_sum")
        arguments: dict[str, Any] = {"epsilon": self.epsilon, "engine": self.engine}
        decay = self._decay_of(param_init_net, param_info)
        if decay > 0:
            arguments["weight_decay"] = decay
        if sparse:
            self._sparse(net, param_init_net, param_info, [history, rate, iteration], arguments)
        else:
            outputs = [param, history]
            if self.output_effective_lr or self.output_effective_lr_and_update:
                outputs.append(core.BlobReference(f"{param}_effective_lr"))
            if self.output_effective_lr_and_update:
                outputs.append(core.BlobReference(f"{param}_update"))
            net.Adagrad([param, history, grad, rate], outputs, decay=float(self.decay), **arguments)
        if self.weight_scale:
            for blob in [param, history] if self.weight_scale.to_aux else [param]:
                net.WeightScale(
                    [blob, iteration],
                    [blob],
                    stepsize=self.weight_scale.stepsize,
                    upper_bound_iter=self.weight_scale.upper_bound_iter,
                    scale=float(self.weight_scale.scale),
                )

    def _sparse(
        self,
        net: Any,
        param_init_net: Any,
        param_info: ParameterInfo,
        shared: list[Any],
        arguments: dict[str, Any],
    ) -> None:
        """Add the update of rows; ``shared`` are the history, the rate and the counter of iterations."""
        param, (history, rate, iteration) = param_info.blob, shared
        assert self.decay == 1, "decay is for dense gradients"
        grad = self.dedup(net, self.sparse_dedup_aggregator, param_info.grad)
        inputs = [param, history, grad.indices, grad.values, rate]
        counts = []
        if self.counter_halflife > 0:
            self._aux_params.shared.append(iteration)
            wide, whole = core.DataType.DOUBLE, core.DataType.INT64
            counts = [
                self._row_state(param_init_net, param, "prev_update_iter", value=0, dtype=whole),
                self._row_state(param_init_net, param, "update_counter", dtype=wide),
            ]
            if self.rowWise:
                inputs.append(counts[1])
            if "weight_decay" in arguments:
                arguments["counter_halflife"] = self.counter_halflife
        update = net.RowWiseSparseAdagrad if self.rowWise else net.SparseAdagrad
        update(inputs, [param, history], **arguments)
        if counts:
            net.RowWiseCounter(
                [*counts, grad.indices, iteration], counts, counter_halflife=self.counter_halflife
            )

    def _decay_of(self, param_init_net: Any, param_info: ParameterInfo) -> float:
        """The weight decay of a parameter; those of one dim have none."""
        if self.weight_decay == 0:
            return 0.0
        shape = param_info.shape
        if shape is None:
            shape = workspace.InferShapesAndTypes([param_init_net])[0].get(str(param_info.blob))
        assert shape is not None, f"weight decay needs the shape of {param_info.blob}, which is not known"
        return 0.0 if len(shape) == 1 else self.weight_decay
