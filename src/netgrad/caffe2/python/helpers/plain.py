"""Layers without parameters of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netgrad.caffe2.python import core


def _engine(use_cudnn: bool) -> str | None:
    return "CUDNN" if use_cudnn else None


def relu(
    model: Any, blob_in: Any, blob_out: Any, use_cudnn: bool = False, order: str = "NCHW", **kwargs: Any
) -> Any:
    """``Relu``; in place if the names are the same."""
    return model.net.Relu(blob_in, blob_out, engine=_engine(use_cudnn), order=order, **kwargs)


def tanh(
    model: Any, blob_in: Any, blob_out: Any, use_cudnn: bool = False, order: str = "NCHW", **kwargs: Any
) -> Any:
    """``Tanh``; in place if the names are the same."""
    return model.net.Tanh(blob_in, blob_out, engine=_engine(use_cudnn), order=order, **kwargs)


def softmax(model: Any, blob_in: Any, blob_out: Any = None, use_cudnn: bool = False, **kwargs: Any) -> Any:
    """``Softmax``."""
    if blob_out is None:
        blob_out = model.net.NextName()
    if use_cudnn:
        kwargs["engine"] = "CUDNN"
    return model.net.Softmax(blob_in, blob_out, **kwargs)


def _pool(operator: str) -> Callable[..., Any]:
    def layer(
        model: Any, blob_in: Any, blob_out: Any, use_cudnn: bool = False, order: str = "NCHW", **kwargs: Any
    ) -> Any:
        function = getattr(model.net, operator)
        return function(blob_in, blob_out, engine=_engine(use_cudnn), order=order, **kwargs)

    layer.__doc__ = f"``{operator}``."
    return layer


max_pool = _pool("MaxPool")
average_pool = _pool("AveragePool")


def max_pool_with_index(model: Any, blob_in: Any, blob_out: Any, order: str = "NCHW", **kwargs: Any) -> Any:
    """``MaxPoolWithIndex``; the second output is ``<out>_index``."""
    return model.net.MaxPoolWithIndex(blob_in, [blob_out, f"{blob_out}_index"], order=order, **kwargs)[0]


def concat(model: Any, blobs_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """``Concat``; the sizes go to ``_<out>_concat_dims``."""
    if kwargs.get("order") and kwargs.get("axis"):
        kwargs.pop("order")  # an axis counts more
    return model.net.Concat(blobs_in, [blob_out, f"_{blob_out}_concat_dims"], **kwargs)[0]


def depth_concat(model: Any, blobs_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """`concat` under its old name."""
    return concat(model, blobs_in, blob_out, **kwargs)


def sum(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """``Sum``."""
    return model.net.Sum(blob_in, blob_out, **kwargs)


def transpose(model: Any, blob_in: Any, blob_out: Any, use_cudnn: bool = False, **kwargs: Any) -> Any:
    """``Transpose``."""
    return model.net.Transpose(blob_in, blob_out, engine=_engine(use_cudnn), **kwargs)


def batch_mat_mul(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """``BatchMatMul``."""
    return model.net.BatchMatMul(blob_in, blob_out, **kwargs)


def accuracy(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """``Accuracy`` of probabilities and labels."""
    return model.net.Accuracy(blob_in, blob_out)


def dropout(model: Any, blob_in: Any, blob_out: Any, use_cudnn: bool = False, **kwargs: Any) -> Any:
    """``Dropout``; ``is_test`` must be said. The mask goes to ``_<out>_mask``."""
    assert "is_test" in kwargs, "dropout needs is_test: whether the model is only run"
    outputs = [blob_out, f"_{blob_out}_mask"]
    return model.net.Dropout(blob_in, outputs, engine=_engine(use_cudnn), **kwargs)[0]


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
