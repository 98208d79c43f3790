"""Adding the updates of all parameters of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import CPU, DeviceOption
from netgrad.caffe2.python import core
from netgrad.caffe2.python.model_helper import ModelHelper
from netgrad.caffe2.python.modeling.parameter_info import ParameterInfo
from netgrad.caffe2.python.optimizer.adaptive import (
    AdagradOptimizer,
    AdamOptimizer,
    FtrlOptimizer,
    RmsPropOptimizer,
)
from netgrad.caffe2.python.optimizer.base import Optimizer
from netgrad.caffe2.python.optimizer.descent import SgdOptimizer, WeightDecayBuilder

_LEARNING_RATE_INJECTION = "lr_injection"


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
