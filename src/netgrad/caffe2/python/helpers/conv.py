"""Convolutions."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python.helpers.parameters import XAVIER, ZERO, parameter
from netgrad.caffe2.python.modeling.parameter_info import ParameterTags


def _kernels(kernel: Any) -> list[int]:
    return [int(size) for size in kernel] if isinstance(kernel, list | tuple) else [int(kernel)] * 2


def _window(kernel: Any) -> dict[str, Any]:
    """The arguments that say the kernel: one number, two for height and width, or a list."""
    sizes = _kernels(kernel)
    if isinstance(kernel, list | tuple) and len(sizes) == 2:
        return {"kernel_h": sizes[0], "kernel_w": sizes[1]}
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
    transform_inputs: Any = None,
    **kwargs: Any,
) -> Any:
    out = str(blob_out) if blob_out is not None else model.net.NextName()
    inner = dim_in // group if not transposed else dim_out // group
    outer = dim_in if transposed else dim_out
    spatial = _kernels(kernel)
    shape = [outer, *spatial, inner] if order == "NHWC" else [outer, inner, *spatial]
    weight = parameter(
        model, f"{out}_w", shape, weight_init, weight_initializer, XAVIER, ParameterTags.WEIGHT
    )
    inputs = [blob_in, weight]
    if not kwargs.pop("no_bias", False):
        inputs.append(
            parameter(model, f"{out}_b", [dim_out], bias_init, bias_initializer, ZERO, ParameterTags.BIAS)
        )
    if transform_inputs is not None:
        transform_inputs(model, out, inputs)
    _check_engine(kwargs.get("engine"), use_cudnn, transposed)
    if use_cudnn:
        kwargs["engine"] = "CUDNN"
        kwargs["exhaustive_search"] = cudnn_exhaustive_search
        if ws_nbytes_limit:
            kwargs["ws_nbytes_limit"] = ws_nbytes_limit
    if group != 1:
        kwargs["group"] = group
    operator = model.net.ConvTranspose if transposed else model.net.Conv
    return operator(inputs, out, order=order, **_window(kernel), **kwargs)


def _check_engine(engine: str | None, use_cudnn: bool, transposed: bool) -> None:
    """What is asked of a convolution's engine has to agree; a transposed one takes cuDNN in any case."""
    if engine is not None and not transposed and use_cudnn != (engine == "CUDNN"):
        wanted = "only the engine CUDNN" if use_cudnn else "any engine but CUDNN"
        raise ValueError(f"use_cudnn={use_cudnn} takes {wanted}, and engine={engine!r} was given")


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
    """A convolution; the kernel is a number or a list.

    ``transform_inputs`` gets the model, the output's name and the list of inputs, which it may change.
    """
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
        transform_inputs=transform_inputs,
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


def group_conv_deprecated(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    dim_out: int,
    kernel: int,
    weight_init: Any = None,
    bias_init: Any = None,
    group: int = 1,
    use_cudnn: bool = False,
    order: str = "NCHW",
    cudnn_exhaustive_search: bool = False,
    ws_nbytes_limit: int | None = None,
    **kwargs: Any,
) -> Any:
    """A convolution with groups as convolutions of parts of the channels, which are joined again.

    Part k is ``_<out>_gconv_split_<k>``; its convolution ``<out>_gconv_<k>`` has ``_w`` and ``_b``.

    Raises:
        ValueError: Channels can't be divided into the groups.
    """
    if dim_in % group or dim_out % group:
        raise ValueError(f"{dim_in} and {dim_out} channels can't be divided into {group} groups")
    inner, outer = dim_in // group, dim_out // group
    out = str(blob_out) if blob_out is not None else str(model.net.NextName())
    names = [f"_{out}_gconv_split_{at}" for at in range(group)]
    parts = model.net.DepthSplit(blob_in, names, dimensions=[inner] * group, order=order)
    found = [
        _conv_base(
            model,
            part,
            f"{out}_gconv_{at}",
            inner,
            outer,
            int(kernel),
            weight_init,
            bias_init,
            None,
            None,
            order=order,
            use_cudnn=use_cudnn,
            cudnn_exhaustive_search=cudnn_exhaustive_search,
            ws_nbytes_limit=ws_nbytes_limit,
            **kwargs,
        )
        for at, part in enumerate(parts if group > 1 else [parts])
    ]
    return model.net.Concat(found, [out, f"_{out}_concat_dims"], order=order)[0]
