"""Caffe's layers without weights as operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.caffe_pb2 import EltwiseParameter, ReductionParameter
from netgrad.caffe2.python import core
from netgrad.caffe2.python.caffe_translator.padding import shapes_of
from netgrad.caffe2.python.caffe_translator.registry import Translated, TranslatorRegistry
from netgrad.caffe2.python.caffe_translator.tools import (
    AddArgument,
    BaseTranslate,
    check_trained,
    parameter_of,
    refused,
)

_register = TranslatorRegistry.Register


# ---- inputs and plain functions ------------------------------------------------------------------------


@_register("Input")
@_register("Data")
@_register("VideoData")
def _input(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
    return None, []


def _renamed(caffe: str, caffe2: str) -> None:
    def translate(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
        return BaseTranslate(layer, caffe2), []

    _register(caffe)(translate)


for _caffe, _caffe2 in (("TanH", "Tanh"), ("Sigmoid", "Sigmoid")):
    _renamed(_caffe, _caffe2)


@_register("Softmax")
def _softmax(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
    if layer.softmax_param.axis != 1:
        raise refused(layer, f"its axis is {layer.softmax_param.axis}, not 1")
    return BaseTranslate(layer, "Softmax"), []


@_register("ReLU")
def _relu(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
    slope = layer.relu_param.negative_slope
    if not slope:
        return BaseTranslate(layer, "Relu"), []
    op = BaseTranslate(layer, "LeakyRelu")
    AddArgument(op, "alpha", slope)
    return op, []


@_register("PReLU")
def _prelu(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
    check_trained(layer, arrays, 1)
    op = BaseTranslate(layer, "PRelu")
    return op, [parameter_of(op, arrays[0], "_Slope")]


@_register("Eltwise")
def _eltwise(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
    param = layer.eltwise_param
    if len(param.coeff) or param.operation != EltwiseParameter.SUM:
        raise refused(layer, "it is no sum without coefficients")
    return BaseTranslate(layer, "Sum"), []


@_register("Dropout")
def _dropout(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
    op = BaseTranslate(layer, "Dropout")
    op.output.append(f"_{op.output[0]}_mask")
    AddArgument(op, "ratio", layer.dropout_param.dropout_ratio)
    if is_test:
        AddArgument(op, "is_test", 1)
    return op, []


# ---- shapes --------------------------------------------------------------------------------------------


@_register("Concat")
def _concat(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
    param = layer.concat_param
    op = BaseTranslate(layer, "Concat")
    op.output.append(f"_{op.output[0]}_dims")
    AddArgument(op, "order", "NCHW")
    axis = param.axis if param.HasField("axis") else param.concat_dim
    if axis != 1:
        AddArgument(op, "axis", axis)
    return op, []


@_register("Reshape")
def _reshape(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
    if layer.reshape_param.axis != 0 or layer.reshape_param.num_axes != -1:
        raise refused(layer, "only some of the dims get another shape")
    op = BaseTranslate(layer, "Reshape")
    op.output.append(f"_{op.input[0]}_dims")
    AddArgument(op, "shape", list(layer.reshape_param.shape.dim))
    return op, []


@_register("Flatten")
def _flatten(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
    param = layer.flatten_param
    types = {0: "FlattenToVec", 1: "Flatten"}
    if param.end_axis != -1 or param.axis not in types:
        raise refused(layer, f"it flattens the axes from {param.axis} to {param.end_axis}")
    return BaseTranslate(layer, types[param.axis]), []


@_register("Crop")
def _crop(layer: Any, arrays: Sequence[Any], is_test: bool, **context: Any) -> Translated:
    """Part of the first blob, as large as the second one from an axis on."""
    param = layer.crop_param
    if len(param.offset) != 1 or param.axis < 0:
        raise refused(layer, "it has not one offset for all axes from the front")
    shapes = shapes_of(context["net"], context["net_params"], context["input_dims"])
    if layer.bottom[1] not in shapes:
        raise refused(layer, f"the shape of '{layer.bottom[1]}' isn't known: pass input_dims")
    offset, like = int(param.offset[0]), shapes[layer.bottom[1]][param.axis :]
    op = OperatorDef(type="Slice", input=[layer.bottom[0]], output=list(layer.top))
    AddArgument(op, "starts", [0] * param.axis + [offset] * len(like))
    AddArgument(op, "ends", [-1] * param.axis + [offset + size for size in like])
    return op, []


@_register("Reduction")
def _reduction(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
    param = layer.reduction_param
    types = {ReductionParameter.SUM: "ReduceBackSum", ReductionParameter.MEAN: "ReduceBackMean"}
    if param.operation not in types or param.axis > 0 or param.coeff != 1:
        raise refused(layer, "it is no sum or mean without coefficient, of axes counted from behind")
    op = BaseTranslate(layer, types[param.operation])
    AddArgument(op, "num_reduce_dim", -param.axis)
    return op, []


# ---- losses and measures -------------------------------------------------------------------------------


@_register("SoftmaxWithLoss")
def _softmax_with_loss(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
    scores, labels = layer.bottom
    softmax, losses = f"{scores}_translator_autogen_softmax", f"{scores}_translator_autogen_xent"
    return [
        core.CreateOperator("Softmax", [scores], softmax),
        core.CreateOperator("LabelCrossEntropy", [softmax, labels], losses),
        core.CreateOperator("AveragedLoss", losses, layer.top[0]),
    ], []


@_register("Accuracy")
def _accuracy(layer: Any, arrays: Sequence[Any], is_test: bool, **_: Any) -> Translated:
    op = BaseTranslate(layer, "Accuracy")
    if layer.accuracy_param.top_k != 1:
        AddArgument(op, "top_k", layer.accuracy_param.top_k)
    return op, []
