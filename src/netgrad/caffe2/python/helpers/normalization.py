"""Layers that normalize."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from netgrad.caffe2.python.helpers.parameters import parameter
from netgrad.caffe2.python.modeling.parameter_info import ParameterTags


def _fill(value: float) -> tuple[str, dict[str, Any]]:
    return "ConstantFill", {"value": value}


def softmax(model: Any, blob_in: Any, blob_out: Any = None, use_cudnn: bool = False, **kwargs: Any) -> Any:
    """``Softmax``."""
    if blob_out is None:
        blob_out = model.net.NextName()
    if use_cudnn:
        kwargs["engine"] = "CUDNN"
    return model.net.Softmax(blob_in, blob_out, **kwargs)


def lrn(
    model: Any, blob_in: Any, blob_out: Any, order: str = "NCHW", use_cudnn: bool = False, **kwargs: Any
) -> Any:
    """``LRN``; the scale goes to ``_<out>_scale``."""
    outputs = [blob_out, f"_{blob_out}_scale"]
    found = model.net.LRN(blob_in, outputs, order=order, **kwargs)
    return found[0]


def spatial_bn(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    init_scale: float = 1.0,
    init_bias: float = 0.0,
    ScaleInitializer: Any = None,
    BiasInitializer: Any = None,
    RunningMeanInitializer: Any = None,
    RunningVarianceInitializer: Any = None,
    order: str = "NCHW",
    **kwargs: Any,
) -> Any:
    """Batch normalization: scale ``_s``, bias ``_b``, running mean ``_rm`` and variance ``_riv``."""
    out = str(blob_out) if blob_out is not None else model.net.NextName()
    computed = ParameterTags.COMPUTED_PARAM
    scale = parameter(
        model, f"{out}_s", [dim_in], None, ScaleInitializer, _fill(init_scale), ParameterTags.WEIGHT
    )
    bias = parameter(model, f"{out}_b", [dim_in], None, BiasInitializer, _fill(init_bias), ParameterTags.BIAS)
    mean = parameter(model, f"{out}_rm", [dim_in], None, RunningMeanInitializer, _fill(0.0), computed)
    var = parameter(model, f"{out}_riv", [dim_in], None, RunningVarianceInitializer, _fill(1.0), computed)
    outputs: list[Any] = [out, mean, var, f"{out}_sm", f"{out}_siv"]
    if kwargs.get("is_test"):
        outputs = [out]
    found = model.net.SpatialBN([blob_in, scale, bias, mean, var], outputs, order=order, **kwargs)
    return found[0] if isinstance(found, tuple) else found


def spatial_gn(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    init_scale: float = 1.0,
    init_bias: float = 0.0,
    ScaleInitializer: Any = None,
    BiasInitializer: Any = None,
    RunningMeanInitializer: Any = None,
    RunningVarianceInitializer: Any = None,
    order: str = "NCHW",
    **kwargs: Any,
) -> Any:
    """Group normalization: scale ``_s``, bias ``_b``; means and deviations go to ``_mean`` and ``_std``."""
    out = str(blob_out) if blob_out is not None else model.net.NextName()
    scale = parameter(
        model, f"{out}_s", [dim_in], None, ScaleInitializer, _fill(init_scale), ParameterTags.WEIGHT
    )
    bias = parameter(model, f"{out}_b", [dim_in], None, BiasInitializer, _fill(init_bias), ParameterTags.BIAS)
    outputs = [out, f"{out}_mean", f"{out}_std"]
    if order != "NCHW":
        kwargs["order"] = order
    return model.net.GroupNorm([blob_in, scale, bias], outputs, **kwargs)[0]


def instance_norm(
    model: Any, blob_in: Any, blob_out: Any, dim_in: int, order: str = "NCHW", **kwargs: Any
) -> Any:
    """Normalization of each channel of each sample: scale ``_s``, bias ``_b``."""
    out = str(blob_out) if blob_out is not None else model.net.NextName()
    scale = parameter(model, f"{out}_s", [dim_in], None, None, _fill(1.0), ParameterTags.WEIGHT)
    bias = parameter(model, f"{out}_b", [dim_in], None, None, _fill(0.0), ParameterTags.BIAS)
    outputs: list[Any] = [out] if kwargs.get("is_test") else [out, f"{out}_sm", f"{out}_siv"]
    kwargs.pop("is_test", None)
    found = model.net.InstanceNorm([blob_in, scale, bias], outputs, order=order, **kwargs)
    return found[0] if isinstance(found, tuple) else found


def layer_norm(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int | Iterable[int],
    axis: int = 1,
    epsilon: float = 1e-4,
    initial_scale: float = 1.0,
    initial_bias: float = 0.0,
) -> tuple[Any, Any, Any]:
    """``LayerNorm`` with a learned scale and bias; returns the result, the mean and the deviation.

    ``dim_in`` is the shape of both: the dims of the input from ``axis`` on, or the only one.
    """
    dims = [int(dim) for dim in dim_in] if isinstance(dim_in, Iterable) else [dim_in]
    scale = parameter(
        model, f"{blob_out}_scale", dims, None, None, _fill(initial_scale), ParameterTags.WEIGHT
    )
    bias = parameter(model, f"{blob_out}_bias", dims, None, None, _fill(initial_bias), ParameterTags.BIAS)
    normalized, mean, deviation = model.net.LayerNorm(
        [blob_in, scale, bias],
        [blob_out, f"{blob_out}_mean", f"{blob_out}_std"],
        axis=axis,
        epsilon=epsilon,
        elementwise_affine=True,
    )
    return normalized, mean, deviation


def moments_with_running_stats(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    RunningMeanInitializer: Any = None,
    RunningVarianceInitializer: Any = None,
    order: str = "NCHW",
    **kwargs: Any,
) -> Any:
    """The mean ``_sm`` and variance ``_sv`` of each channel of images.

    The computed parameters ``_rm`` and ``_riv`` for running averages are made, which other operators keep.

    Raises:
        ValueError: The order is neither ``NCHW`` nor ``NHWC``.
    """
    axes = {"NCHW": [0, 2, 3], "NHWC": [0, 1, 2]}.get(order)
    if axes is None:
        raise ValueError(f"the order of images is NCHW or NHWC, not {order}")
    out = str(blob_out) if blob_out is not None else str(model.net.NextName())
    computed = ParameterTags.COMPUTED_PARAM
    parameter(model, f"{out}_rm", [dim_in], None, RunningMeanInitializer, _fill(0.0), computed)
    parameter(model, f"{out}_riv", [dim_in], None, RunningVarianceInitializer, _fill(1.0), computed)
    names = [f"{out}_sm", f"{out}_sv"]
    return model.net.Moments([blob_in], names, axes=axes, order=order, keepdims=False, **kwargs)
