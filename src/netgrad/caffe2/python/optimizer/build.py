"""Adding the updates of all parameters of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import CPU, DeviceOption
from netgrad.caffe2.python import core, workspace
from netgrad.caffe2.python.model_helper import ModelHelper
from netgrad.caffe2.python.modeling.parameter_info import ParameterInfo
from netgrad.caffe2.python.optimizer.adagrad import AdagradOptimizer
from netgrad.caffe2.python.optimizer.adam import AdamOptimizer
from netgrad.caffe2.python.optimizer.adaptive import (
    AdadeltaOptimizer,
    DecayAdagradOptimizer,
    RmsPropOptimizer,
    StormOptimizer,
    WngradOptimizer,
    YellowFinOptimizer,
)
from netgrad.caffe2.python.optimizer.base import Optimizer
from netgrad.caffe2.python.optimizer.descent import (
    FP16SgdOptimizer,
    MultiPrecisionSgdOptimizer,
    SgdOptimizer,
    WeightDecayBuilder,
)
from netgrad.caffe2.python.optimizer.leaders import FtrlOptimizer, GFtrlOptimizer

_LEARNING_RATE_INJECTION = "lr_injection"


def _get_param_to_device(model: ModelHelper) -> dict[str, DeviceOption]:
    """Blob to the device of the operator that writes it last; the initializing net has the last word."""
    found: dict[str, DeviceOption] = {}
    for net in (model.net, model.param_init_net):
        found.update(core.InferBlobDevices(net))
    return found


def get_param_device(
    param_name: str,
    grad: Any,
    param_to_device: dict[str, DeviceOption] | None = None,
    default_device: DeviceOption | None = None,
) -> DeviceOption:
    """Where a parameter is updated: where it is made, else where its gradient is."""
    devices = param_to_device or {}
    names = [grad.values, grad.indices] if isinstance(grad, core.GradientSlice) else [grad]
    known = [name for name in (param_name, *map(str, names)) if name in devices]
    device = devices[known[0]] if known else default_device
    assert device is not None, f"Cannot infer device for {param_name}: no op creates it"
    return device


def _build(
    model: ModelHelper,
    optimizer: Optimizer,
    weights_only: bool = False,
    use_param_info_optim: bool = True,
    max_gradient_norm: float | None = None,
    allow_lr_injection: bool = False,
) -> Optimizer:
    devices = _get_param_to_device(model)
    model.Validate()
    infos = [
        info for info in model.GetOptimizationParamInfo() if not weights_only or info.blob in model.weights
    ]
    multiplier = None
    if max_gradient_norm is not None:
        multiplier = _norm_ratio(model, infos, devices, max_gradient_norm)
    if allow_lr_injection:
        injected = _injected(model)
        if multiplier is not None:
            injected = model.net.Mul([multiplier, injected], "lr_multiplier", broadcast=1)
        multiplier = injected
    optimizer.add_lr_multiplier(multiplier)
    for info in infos:
        device = get_param_device(str(info.blob), info.grad, devices)
        chosen = info.optimizer if use_param_info_optim and info.optimizer else optimizer
        with core.DeviceScope(device):
            chosen(model.net, model.param_init_net, info)
    return optimizer


def _injected(model: ModelHelper) -> Any:
    name = core.BlobReference(_LEARNING_RATE_INJECTION)
    if model.net.BlobIsDefined(name):
        return name
    return model.param_init_net.ConstantFill([], name, shape=[1], value=1.0)


def set_lr_injection(lr_injection_value: float) -> None:
    """Set the number that learning rates are multiplied by, in the current workspace."""
    workspace.FeedBlob(_LEARNING_RATE_INJECTION, np.array([float(lr_injection_value)], np.float32))


def get_lr_injection() -> Any:
    """The number that learning rates are multiplied by, an array of shape (1,)."""
    return workspace.FetchBlob(_LEARNING_RATE_INJECTION)


def _norm_ratio(
    model: ModelHelper, infos: Sequence[ParameterInfo], devices: dict[str, DeviceOption], limit: float
) -> Any:
    """A blob of limit / max(limit, norm of all gradients)."""
    with core.NameScope("norm_clipped_grad_update"):
        squares = []
        for number, info in enumerate(infos):
            grad = info.grad.values if isinstance(info.grad, core.GradientSlice) else info.grad
            with core.DeviceScope(get_param_device(str(info.blob), info.grad, devices)):
                square = model.net.SumSqrElements(grad, f"grad_{number}_squared_sum")
                squares.append(model.net.EnsureCPUOutput(square))
        with core.DeviceScope(core.DeviceOption(CPU)):
            total = model.net.Sum(squares, "grad_squared_full_sum")
            norm = model.net.Pow(total, "global_norm", exponent=0.5)
            bound = model.param_init_net.ConstantFill([], "clip_norm", shape=[], value=float(limit))
            largest = model.net.Max([norm, bound], "max_norm")
            return model.net.Div([bound, largest], "norm_ratio")


def add_weight_decay(model: ModelHelper, weight_decay: float) -> None:
    """Add a share of each weight to its gradient; call it before the updates are built."""
    decay = WeightDecayBuilder(weight_decay=weight_decay)
    _build(model, decay, weights_only=True, use_param_info_optim=False)


def _builder(kind: Callable[..., Optimizer]) -> Callable[..., Optimizer]:
    def build(
        model: ModelHelper,
        base_learning_rate: float,
        max_gradient_norm: float | None = None,
        allow_lr_injection: bool = False,
        **kwargs: Any,
    ) -> Optimizer:
        # what the original takes from some callers and doesn't use
        kwargs.pop("parameters", None)
        optimizer = kind(base_learning_rate, **kwargs)
        return _build(
            model, optimizer, max_gradient_norm=max_gradient_norm, allow_lr_injection=allow_lr_injection
        )

    build.__doc__ = f"Add the updates of `{kind.__name__}`."
    return build


build_sgd = _builder(SgdOptimizer)
build_multi_precision_sgd = _builder(MultiPrecisionSgdOptimizer)
build_fp16_sgd = _builder(FP16SgdOptimizer)
build_adagrad = _builder(AdagradOptimizer)
build_decay_adagrad = _builder(DecayAdagradOptimizer)
build_wngrad = _builder(WngradOptimizer)
build_storm = _builder(StormOptimizer)
build_adadelta = _builder(AdadeltaOptimizer)
build_adam = _builder(AdamOptimizer)
build_rms_prop = _builder(RmsPropOptimizer)


def build_ftrl(model: ModelHelper, engine: str = "SIMD", **kwargs: Any) -> Optimizer:
    """Add the updates of `FtrlOptimizer`."""
    return _build(model, FtrlOptimizer(engine=engine, **kwargs))


def build_gftrl(model: ModelHelper, engine: str = "", **kwargs: Any) -> Optimizer:
    """Add the updates of `GFtrlOptimizer`."""
    return _build(model, GFtrlOptimizer(engine=engine, **kwargs))


def build_yellowfin(model: ModelHelper, base_learning_rate: float = 0.1, **kwargs: Any) -> Optimizer:
    """Add the updates of `YellowFinOptimizer`."""
    return _build(model, YellowFinOptimizer(alpha=base_learning_rate, **kwargs))
