"""Measures, counters and weight decay."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import core


def accuracy(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """``Accuracy`` of probabilities and labels."""
    return model.net.Accuracy(blob_in, blob_out)


def iter(model: Any, blob_out: Any, **kwargs: Any) -> Any:
    """A counter that goes up by one with each run."""
    kwargs.pop("device_option", None)
    with core.DeviceScope(core.DeviceOption(0)):
        model.param_init_net.ConstantFill(
            [], blob_out, shape=[1], value=0, dtype=core.DataType.INT64, **kwargs
        )
        return model.net.Iter(blob_out, blob_out, **kwargs)


def add_weight_decay(model: Any, weight_decay: float) -> None:
    """Add a share of each weight to its gradient; call it after the gradients and before the updates."""
    if weight_decay <= 0.0:
        return
    decay = model.param_init_net.ConstantFill([], "wd", shape=[1], value=weight_decay)
    one = model.param_init_net.ConstantFill([], "ONE", shape=[1], value=1.0)
    for param in model.GetParams():
        if param in model.weights:
            grad = model.param_to_grad[param]
            model.net.WeightedSum([grad, one, param, decay], grad)
