"""Caffe's products with weights, normalizations and scales as operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.caffe_pb2 import LRNParameter
from netgrad.caffe2.python import utils
from netgrad.caffe2.python.caffe_translator.registry import Translated, TranslatorRegistry
from netgrad.caffe2.python.caffe_translator.tools import (
    AddArgument,
    BaseTranslate,
    check_trained,
    parameter_of,
    refused,
)

_register = TranslatorRegistry.Register


@_register("InnerProduct")
def _inner_product(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
    param = layer.inner_product_param
    if param.axis != 1 or param.transpose:
        raise refused(layer, "its axis is not 1, or its weights are transposed")
    check_trained(layer, arrays, 2 if param.bias_term else 1)
    weight = arrays[0]
    if weight.ndim not in (2, 4) or (weight.ndim == 4 and weight.shape[:2] != (1, 1)):
        raise ValueError(
            f"the weights of layer {layer.name!r} are {weight.shape}: a matrix is needed, or in the old "
            "style one with two dims of 1 in front"
        )
    op = BaseTranslate(layer, "FC")
    matrix = weight.reshape(-1, weight.shape[-1])
    bias = arrays[1].flatten() if param.bias_term else np.zeros(len(matrix))
    return op, [parameter_of(op, matrix, "_w"), parameter_of(op, bias, "_b")]


@_register("LRN")
def _local_response(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
    param = layer.lrn_param
    if param.norm_region != LRNParameter.ACROSS_CHANNELS:
        raise refused(layer, "it normalizes within channels")
    op = BaseTranslate(layer, "LRN")
    op.output.append(f"_{op.output[0]}_scale")
    AddArgument(op, "size", int(param.local_size))
    for name, value in (("alpha", param.alpha), ("beta", param.beta), ("bias", param.k)):
        AddArgument(op, name, float(value))
    AddArgument(op, "order", "NCHW")
    return op, []


@_register("InstanceNorm")
def _instance_norm(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
    check_trained(layer, arrays, 2)
    op = BaseTranslate(layer, "InstanceNorm")
    parameters = [parameter_of(op, arrays[0].flatten(), "_w"), parameter_of(op, arrays[1].flatten(), "_b")]
    AddArgument(op, "order", "NCHW")
    return op, parameters


@_register("BatchNorm")
def _batch_norm(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
    """Caffe keeps sums of means and variances, and the number that they are divided by."""
    check_trained(layer, arrays, 3)
    divisor = float(arrays[2].reshape(-1)[0])
    if not divisor:
        raise ValueError(f"layer {layer.name!r} was never trained: the scale of its statistics is zero")
    op = BaseTranslate(layer, "SpatialBN")
    AddArgument(op, "is_test", int(is_test))
    AddArgument(op, "epsilon", layer.batch_norm_param.eps)
    AddArgument(op, "order", "NCHW")
    channels = arrays[0].shape[0]
    fused = len(arrays) > 4  # some forks keep the scale and bias of the next layer here
    content = {
        "_scale": arrays[3].flatten() if fused else np.ones(channels),
        "_bias": arrays[4].flatten() if fused else np.zeros(channels),
        "_mean": arrays[0].flatten() / divisor,
        "_var": arrays[1].flatten() / divisor,
    }
    parameters = [parameter_of(op, array, suffix) for suffix, array in content.items()]
    if not is_test:
        names = ("_mean", "_var", "_saved_mean", "_saved_var")
        op.output.extend([f"{op.output[0]}{name}" for name in names])
    return op, parameters


@_register("Scale")
def _scale(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
    """A product with a vector along one axis, and perhaps a sum with another one."""
    param = layer.scale_param
    if len(layer.bottom) != 1 or param.num_axes != 1:
        raise refused(layer, "it scales by another blob, or along several axes")
    check_trained(layer, arrays, 2 if param.bias_term else 1)
    output = layer.top[0]
    names = [f"{output}_internal", output] if len(arrays) > 1 else [output]
    operators, parameters, read = [], [], layer.bottom[0]
    for type_, suffix, array, written in zip(("Mul", "Add"), "wb", arrays, names, strict=False):
        name = f"{output}scale_{suffix}"
        op = OperatorDef(type=type_, input=[read, name], output=[written])
        AddArgument(op, "axis", param.axis)
        AddArgument(op, "broadcast", True)
        operators.append(op)
        parameters.append(utils.NumpyArrayToCaffe2Tensor(np.asarray(array.flatten(), np.float32), name))
        read = written
    return operators, parameters
