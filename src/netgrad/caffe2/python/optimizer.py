"""Optimizers: operators that update the parameters of a model after its backward pass.

``build_sgd(model, base_learning_rate=0.1)`` and its siblings add them for every parameter with a gradient.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import CPU, CUDA, DeviceOption
from netgrad.caffe2.python import core, scope
from netgrad.caffe2.python.model_helper import ModelHelper
from netgrad.caffe2.python.modeling.parameter_info import ParameterInfo

_OPTIMIZER_ITERATION_NAME = "optimizer_iteration"
_LEARNING_RATE_INJECTION = "lr_injection"

_instances: dict[str, int] = defaultdict(int)


class Optimizer:
    """Adds the update of one parameter after the other.

    Attributes:
        _base_learning_rate: The rate that policies start from, positive.
    """

    def __init__(self) -> None:
        self._aux_local: list[Any] = []
        self._aux_shared: list[Any] = []
        self._instance_num = _instances[type(self).__name__]
        _instances[type(self).__name__] += 1
        self._lr_multiplier: Any = None
        self._local_lr_multipliers: list[Any] = []
        self._local_lr_multiplier_on_gpu = False

    def __call__(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> None:
        """Add the update of ``param``: a `ParameterInfo`, or a blob with its gradient."""
        info = param if isinstance(param, ParameterInfo) else ParameterInfo(None, param, grad=grad)
        self._run(net, param_init_net, info)

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        raise NotImplementedError

    def get_cpu_blob_name(self, base_str: str, node_name: str = "") -> str:
        """A name for a blob of this optimizer on the processor."""
        return f"{type(self).__name__}_{self._instance_num}_{base_str}{node_name}_cpu"

    def get_gpu_blob_name(self, base_str: str, gpu_id: int, node_name: str = "") -> str:
        """A name for a blob of this optimizer on another device."""
        return f"{type(self).__name__}_{self._instance_num}_{base_str}{node_name}_gpu{gpu_id}"

    def make_unique_blob_name(self, base_str: str) -> str:
        """A name for a blob of this optimizer on the current device."""
        device = scope.CurrentDeviceScope()
        if device is not None and device.device_type == CUDA:
            return self.get_gpu_blob_name(base_str, device.device_id, device.node_name)
        return self.get_cpu_blob_name(base_str, device.node_name if device is not None else "")

    def build_lr(
        self,
        net: Any,
        param_init_net: Any,
        base_learning_rate: float,
        learning_rate_blob: str | None = None,
        policy: str = "fixed",
        iter_val: int = 0,
        **kwargs: Any,
    ) -> tuple[Any, Any]:
        """Add the counter and the learning rate, once per net; returns references to both."""
        name = learning_rate_blob or self.make_unique_blob_name("lr")
        with core.DeviceScope(core.DeviceOption(CPU)):
            iteration = _counter(net, param_init_net, iter_val)
        if net.BlobIsDefined(name):
            rate = net.GetBlobRef(name)
        else:
            rate = net.LearningRate(
                [iteration],
                core.BlobReference(name),
                base_lr=-base_learning_rate,
                policy=policy,
                **kwargs,
            )
        for multiplier in (self._lr_multiplier, *self._local_lr_multipliers):
            if multiplier is not None:
                rate = net.Mul([rate, multiplier], net.NextScopedBlob(f"{rate}_scaled"), broadcast=1)
        return rate, iteration

    def add_lr_multiplier(self, lr_multiplier: Any, is_gpu_blob: bool = False) -> None:
        """Multiply the rate of all parameters by a blob."""
        self._lr_multiplier = lr_multiplier

    def _add_local_lr_multiplier(self, multiplier: Any, is_gpu_blob: bool = False) -> None:
        self._local_lr_multipliers.append(multiplier)

    def _clear_local_lr_multiplier(self) -> None:
        self._local_lr_multipliers.clear()

    def get_auxiliary_parameters(self) -> AuxParams:
        """The state: what belongs to one parameter, and what all share."""
        return AuxParams(local=self._aux_local, shared=self._aux_shared)

    def scale_learning_rate(self, *args: Any, **kwargs: Any) -> None:
        """Multiply the rate by a number, before the updates are added.

        Raises:
            NotImplementedError: The optimizer has no rate.
        """
        raise NotImplementedError("this optimizer has no learning rate")

    def _state(self, param_init_net: Any, param: Any, ending: str, value: float = 0.0) -> Any:
        """A blob like the parameter."""
        state = param_init_net.ConstantFill([param], f"{param}_{ending}", value=value)
        self._aux_local.append(state)
        return state


class AuxParams:
    """State of an optimizer."""

    def __init__(self, local: list[Any], shared: list[Any]) -> None:
        self.local = local
        self.shared = shared


def _counter(net: Any, param_init_net: Any, value: int = 0) -> Any:
    """The counter of iterations of ``net``, which goes up before the rates are computed."""
    if net.BlobIsDefined(_OPTIMIZER_ITERATION_NAME):
        return net.GetBlobRef(_OPTIMIZER_ITERATION_NAME)
    iteration = param_init_net.ConstantFill(
        [],
        core.BlobReference(_OPTIMIZER_ITERATION_NAME),
        shape=[1],
        value=value,
        dtype=core.DataType.INT64,
    )
    mutex = param_init_net.CreateMutex([], [core.BlobReference("iteration_mutex")])
    net.AtomicIter([mutex, iteration], [iteration])
    return net.GetBlobRef(_OPTIMIZER_ITERATION_NAME)


class _WithRate(Optimizer):
    """An optimizer with a learning rate and a policy."""

    def __init__(self, base_learning_rate: float, policy: str, **kwargs: Any) -> None:
        super().__init__()
        self.base_learning_rate = base_learning_rate
        self.policy = policy
        self.init_kwargs = kwargs

    def scale_learning_rate(self, scale: float) -> None:
        """Multiply the rate by a number, before the updates are added."""
        self.base_learning_rate *= scale

    def _rate(self, net: Any, param_init_net: Any, sign: float = 1.0) -> tuple[Any, Any]:
        return self.build_lr(
            net,
            param_init_net,
            base_learning_rate=sign * self.base_learning_rate,
            policy=self.policy,
            **self.init_kwargs,
        )

    def _deduplicated(self, net: Any, grad: Any, aggregator: str | None) -> Any:
        return net.DeduplicateGradientSlices(grad, aggregator=aggregator) if aggregator else grad


class SgdOptimizer(_WithRate):
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


class AdagradOptimizer(_WithRate):
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


class AdamOptimizer(_WithRate):
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


class RmsPropOptimizer(_WithRate):
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


# ---- building ----------------------------------------------------------------------------------------


def _param_device(param_name: str, grad: Any, devices: dict[str, DeviceOption], default: DeviceOption) -> Any:
    """Where a parameter is updated: where it is made, else where its gradient is."""
    if param_name in devices:
        return devices[param_name]
    name = str(grad.indices if isinstance(grad, core.GradientSlice) else grad)
    return devices.get(name, default)


def _devices_of(model: ModelHelper) -> dict[str, DeviceOption]:
    """Blob to the device of the operator that writes it last."""
    found: dict[str, DeviceOption] = {}
    for net in (model.param_init_net, model.net):
        for op in net.Proto().op:
            if op.HasField("device_option"):
                found.update(dict.fromkeys(op.output, op.device_option))
    return found


def _build(
    model: ModelHelper,
    optimizer: Optimizer,
    weights_only: bool = False,
    use_param_info_optim: bool = True,
    max_gradient_norm: float | None = None,
    allow_lr_injection: bool = False,
) -> Optimizer:
    devices = _devices_of(model)
    infos = model.GetOptimizationParamInfo()
    if max_gradient_norm is not None:
        _clip_by_norm(model, optimizer, infos, max_gradient_norm, "norm_clipped_grad_update")
    if allow_lr_injection:
        optimizer.add_lr_multiplier(_injected(model))
    for info in infos:
        if weights_only and info.blob not in model.weights:
            continue
        chosen = info.optimizer if use_param_info_optim and info.optimizer else optimizer
        device = _param_device(info.name, info.grad, devices, core.DeviceOption(CPU))
        with core.DeviceScope(device):
            chosen(model.net, model.param_init_net, info)
    return optimizer


def _injected(model: ModelHelper) -> Any:
    with core.DeviceScope(core.DeviceOption(CPU)):
        name = core.BlobReference(_LEARNING_RATE_INJECTION)
        return model.param_init_net.ConstantFill([], name, shape=[1], value=1.0)


def set_lr_injection(lr_injection_value: float) -> None:
    """Set the number that learning rates are multiplied by, in the current workspace."""
    value = np.array([float(lr_injection_value)], np.float32)
    import_module("netgrad.caffe2.python.workspace").FeedBlob(_LEARNING_RATE_INJECTION, value)


def get_lr_injection() -> float:
    """The number that learning rates are multiplied by."""
    workspace = import_module("netgrad.caffe2.python.workspace")
    return float(workspace.FetchBlob(_LEARNING_RATE_INJECTION)[0])


def _clip_by_norm(
    model: ModelHelper, optimizer: Optimizer, infos: Sequence[ParameterInfo], limit: float, name: str
) -> None:
    """Multiply the rate by limit / max(limit, norm of all gradients)."""
    squares = []
    for info in infos:
        grad = info.grad.values if isinstance(info.grad, core.GradientSlice) else info.grad
        squares.append(model.net.SumSqrElements([grad], [f"{grad}_{name}_sum_squares"]))
    total = model.net.Sum(squares, [f"grad_{name}_sum_squares"])
    norm = model.net.Pow([total], [f"grad_{name}_norm"], exponent=0.5)
    bound = model.param_init_net.ConstantFill([], f"{name}_max_norm", shape=[], value=float(limit))
    largest = model.net.Max([bound, norm], [f"max_{name}_norm"])
    optimizer.add_lr_multiplier(model.net.Div([bound, largest], [f"{name}_update_factor"]))


def add_weight_decay(model: ModelHelper, weight_decay: float) -> None:
    """Add a share of each weight to its gradient; call it before the updates are built."""
    _build(model, WeightDecayBuilder(weight_decay), weights_only=True, use_param_info_optim=False)


def _builder(kind: Callable[..., Optimizer], rate_name: str | None) -> Callable[..., Optimizer]:
    def build(
        model: ModelHelper,
        base_learning_rate: float | None = None,
        max_gradient_norm: float | None = None,
        allow_lr_injection: bool = False,
        **kwargs: Any,
    ) -> Optimizer:
        if base_learning_rate is not None and rate_name is not None:
            kwargs[rate_name] = base_learning_rate
        return _build(
            model, kind(**kwargs), max_gradient_norm=max_gradient_norm, allow_lr_injection=allow_lr_injection
        )

    return build


build_sgd = _builder(SgdOptimizer, "base_learning_rate")
build_adagrad = _builder(AdagradOptimizer, "alpha")
build_adam = _builder(AdamOptimizer, "alpha")
build_rms_prop = _builder(RmsPropOptimizer, "alpha")


def build_ftrl(model: ModelHelper, engine: str = "SIMD", **kwargs: Any) -> Optimizer:
    """Add the updates of `FtrlOptimizer`."""
    return _build(model, FtrlOptimizer(engine=engine, **kwargs))
