"""Caffe's convolutions and pools as operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.caffe2_pb2 import CAFFE_LEGACY_POOLING, OperatorDef
from netgrad.caffe2.caffe_pb2 import PoolingParameter
from netgrad.caffe2.python.caffe_translator.registry import Translated, TranslatorRegistry
from netgrad.caffe2.python.caffe_translator.tools import (
    AddArgument,
    BaseTranslate,
    check_trained,
    parameter_of,
    refused,
)

_register = TranslatorRegistry.Register


def _one(layer: Any, values: Any, default: int) -> int:
    if isinstance(values, int):
        return values
    if len(values) > 1:
        raise refused(layer, "kernel, stride or pad differ by dim: give them by kernel_h, kernel_w")
    return int(values[0]) if len(values) else default


def _window(layer: Any, param: Any, op: OperatorDef) -> None:
    """The arguments of a window: equal ones for both dims under one name."""
    for name, field, default in (("stride", "stride", 1), ("pad", "pad", 0), ("kernel", "kernel_size", 0)):
        high, wide = f"{name}_h", f"{name}_w"
        if not (param.HasField(high) or param.HasField(wide)):
            AddArgument(op, name, _one(layer, getattr(param, field), default))
        elif name != "pad":
            AddArgument(op, high, getattr(param, high))
            AddArgument(op, wide, getattr(param, wide))
        elif param.pad_h == param.pad_w:
            AddArgument(op, "pad", param.pad_h)
        else:
            sides = {"pad_t": param.pad_h, "pad_b": param.pad_h, "pad_l": param.pad_w, "pad_r": param.pad_w}
            for side, size in sides.items():
                AddArgument(op, side, size)


@_register("Convolution")
def _convolution(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
    check_trained(layer, arrays, 1)
    param = layer.convolution_param
    op = BaseTranslate(layer, "Conv")
    parameters = [parameter_of(op, arrays[0], "_w")]
    _window(layer, param, op)
    if len(arrays) == 2:
        parameters.append(parameter_of(op, arrays[1].flatten(), "_b"))
    if param.group != 1:
        AddArgument(op, "group", param.group)
    if len(param.dilation) == 1:
        AddArgument(op, "dilation", param.dilation[0])
    elif len(param.dilation) == 2:
        AddArgument(op, "dilation_h", param.dilation[0])
        AddArgument(op, "dilation_w", param.dilation[1])
    return op, parameters


@_register("Deconvolution")
def _deconvolution(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
    param = layer.convolution_param
    if param.group > 1:
        raise refused(layer, "it has groups")
    check_trained(layer, arrays, 2 if param.bias_term else 1)
    op = BaseTranslate(layer, "ConvTranspose")
    _window(layer, param, op)
    AddArgument(op, "order", "NCHW")
    parameters = [parameter_of(op, arrays[0], "_w")]
    if param.bias_term:
        parameters.append(parameter_of(op, arrays[1].flatten(), "_b"))
    return op, parameters


@_register("Pooling")
def _pooling(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
    param = layer.pooling_param
    types = {PoolingParameter.MAX: "MaxPool", PoolingParameter.AVE: "AveragePool"}
    if param.pool not in types:
        raise refused(layer, "it neither takes maxima nor means")
    op = BaseTranslate(layer, types[param.pool])
    _window(layer, param, op)
    AddArgument(op, "order", "NCHW")
    AddArgument(op, "legacy_pad", CAFFE_LEGACY_POOLING)
    if param.global_pooling:
        AddArgument(op, "global_pooling", 1)
    return op, []


@_register("ROIPooling")
def _region_pooling(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
    param = layer.roi_pooling_param
    op = BaseTranslate(layer, "RoIPool")
    AddArgument(op, "order", "NCHW")
    if is_test:
        AddArgument(op, "is_test", is_test)
    else:
        op.output.append(f"{op.output[0]}_argmaxes")
    for name in ("pooled_h", "pooled_w", "spatial_scale"):
        if param.HasField(name):
            AddArgument(op, name, getattr(param, name))
    return op, []
