"""Layers with parameters: products and convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.modeling.initializers import update_initializer
from netgrad.caffe2.python.modeling.parameter_info import ParameterTags

_XAVIER = ("XavierFill", dict[str, Any]())
_ZERO = ("ConstantFill", dict[str, Any]())


def parameter(
    model: Any, name: Any, shape: Any, given: Any, initializer: Any, default: Any, tags: Any
) -> Any:
    """A parameter from an initializer class, a pair of operator and arguments, or the default pair.

    If the model doesn't initialize its parameters, it is only registered.
    """
    if not model.init_params:
        made: Any = core.ScopedBlobReference(str(name), model.param_init_net)
        model.AddParameter(made, tags)
        return made
    return model.create_param(
        param_name=str(name),
        shape=list(shape),
        initializer=update_initializer(initializer, given, default),
        tags=tags,
    )


def _fc_like(operator: str) -> Callable[..., Any]:
    def layer(
        model: Any,
        blob_in: Any,
        blob_out: Any,
        dim_in: int,
        dim_out: int,
        weight_init: Any = None,
        bias_init: Any = None,
        WeightInitializer: Any = None,
        BiasInitializer: Any = None,
        enable_tensor_core: bool = False,
        float16_compute: bool = False,
        **kwargs: Any,
    ) -> Any:
        out = str(blob_out) if blob_out is not None else model.net.NextName()
        weight = parameter(
            model,
            f"{out}_w",
            [dim_out, dim_in],
            weight_init,
            WeightInitializer,
            _XAVIER,
            ParameterTags.WEIGHT,
        )
        bias_tags = [ParameterTags.BIAS]
        if "freeze_bias" in kwargs:
            bias_tags.append(ParameterTags.COMPUTED_PARAM)
        bias = parameter(model, f"{out}_b", [dim_out], bias_init, BiasInitializer, _ZERO, bias_tags)
        if enable_tensor_core:
            kwargs["engine"] = "TENSORCORE"
        if float16_compute:
            kwargs["float16_compute"] = True
        return getattr(model.net, operator)([blob_in, weight, bias], out, **kwargs)

    layer.__name__ = operator.lower()
    layer.__doc__ = (
        f"A layer ``{operator}`` with weights ``<out>_w`` and bias ``<out>_b``; a given ``freeze_bias`` "
        "leaves the bias out of training."
    )
    return layer


fc = _fc_like("FC")
packed_fc = _fc_like("PackedFC")


def _kernels(kernel: Any) -> list[int]:
    return [int(size) for size in kernel] if isinstance(kernel, list | tuple) else [int(kernel)] * 2


def _window(kernel: Any) -> dict[str, Any]:
    """The arguments that say the kernel: one number, or a list."""
    sizes = _kernels(kernel)
    return {"kernels": sizes} if isinstance(kernel, list | tuple) else {"kernel": sizes[0]}


def _conv_base(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    dim_out: int,
    kernel: Any,
    weight_init: Any,
    bias_init: Any,
    weight_initializer: Any,
    bias_initializer: Any,
    *,
    transposed: bool = False,
    group: int = 1,
    order: str = "NCHW",
    use_cudnn: bool = True,
    cudnn_exhaustive_search: bool = False,
    ws_nbytes_limit: int | None = None,
    **kwargs: Any,
) -> Any:
    out = str(blob_out) if blob_out is not None else model.net.NextName()
    inner = dim_in // group if not transposed else dim_out // group
    outer = dim_in if transposed else dim_out
    spatial = _kernels(kernel)
    shape = [outer, *spatial, inner] if order == "NHWC" else [outer, inner, *spatial]
    weight = parameter(
        model, f"{out}_w", shape, weight_init, weight_initializer, _XAVIER, ParameterTags.WEIGHT
    )
    inputs = [blob_in, weight]
    if not kwargs.pop("no_bias", False):
        inputs.append(
            parameter(model, f"{out}_b", [dim_out], bias_init, bias_initializer, _ZERO, ParameterTags.BIAS)
        )
    if use_cudnn:
        kwargs["engine"] = "CUDNN"
        kwargs["exhaustive_search"] = cudnn_exhaustive_search
        if ws_nbytes_limit:
            kwargs["ws_nbytes_limit"] = ws_nbytes_limit
    if group != 1:
        kwargs["group"] = group
    operator = model.net.ConvTranspose if transposed else model.net.Conv
    return operator(inputs, out, order=order, **_window(kernel), **kwargs)


def conv(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    dim_out: int,
    kernel: Any,
    weight_init: Any = None,
    bias_init: Any = None,
    WeightInitializer: Any = None,
    BiasInitializer: Any = None,
    group: int = 1,
    transform_inputs: Any = None,
    **kwargs: Any,
) -> Any:
    """A convolution; the kernel is a number or a list."""
    return _conv_base(
        model,
        blob_in,
        blob_out,
        dim_in,
        dim_out,
        kernel,
        weight_init,
        bias_init,
        WeightInitializer,
        BiasInitializer,
        group=group,
        **kwargs,
    )


def conv_nd(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    dim_out: int,
    kernel: Any,
    weight_init: Any = None,
    bias_init: Any = None,
    WeightInitializer: Any = None,
    BiasInitializer: Any = None,
    group: int = 1,
    transform_inputs: Any = None,
    order: str = "NCHW",
    **kwargs: Any,
) -> Any:
    """A convolution over any number of dims; the kernel is a list."""
    assert order == "NCHW", "convolutions over any number of dims have their channels behind the batch"
    return conv(
        model,
        blob_in,
        blob_out,
        dim_in,
        dim_out,
        kernel,
        weight_init,
        bias_init,
        WeightInitializer,
        BiasInitializer,
        group,
        transform_inputs,
        order=order,
        **kwargs,
    )


def conv_transpose(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    dim_out: int,
    kernel: Any,
    weight_init: Any = None,
    bias_init: Any = None,
    **kwargs: Any,
) -> Any:
    """A transposed convolution."""
    return _conv_base(
        model,
        blob_in,
        blob_out,
        dim_in,
        dim_out,
        kernel,
        weight_init,
        bias_init,
        None,
        None,
        transposed=True,
        **kwargs,
    )


def group_conv(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    dim_out: int,
    kernel: Any,
    weight_init: Any = None,
    bias_init: Any = None,
    group: int = 1,
    **kwargs: Any,
) -> Any:
    """A convolution with groups."""
    return conv(
        model, blob_in, blob_out, dim_in, dim_out, kernel, weight_init, bias_init, group=group, **kwargs
    )


def elementwise_linear(model: Any, blob_in: Any, blob_out: Any, dim: int, **kwargs: Any) -> Any:
    """A scale ``<out>_w`` and a shift ``<out>_b`` for each column."""
    ones = ("ConstantFill", {"value": 1.0})
    weight = parameter(
        model, f"{blob_out}_w", [dim], kwargs.pop("weight_init", None), None, ones, ParameterTags.WEIGHT
    )
    bias = parameter(
        model, f"{blob_out}_b", [dim], kwargs.pop("bias_init", None), None, _ZERO, ParameterTags.BIAS
    )
    return model.net.ElementwiseLinear([blob_in, weight, bias], blob_out, **kwargs)


def prelu(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    num_channels: int = 1,
    slope_init: Any = None,
    **kwargs: Any,
) -> Any:
    """A Relu whose slope ``<out>_slope`` for negative numbers is learned."""
    slope = parameter(
        model,
        f"{blob_out}_slope",
        [num_channels],
        slope_init,
        None,
        ("ConstantFill", {"value": 0.25}),
        None,
    )
    return model.net.PRelu([blob_in, slope], [blob_out])
