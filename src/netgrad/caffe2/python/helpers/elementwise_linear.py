"""A scale and a shift for each column."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python.helpers.parameters import ZERO, parameter
from netgrad.caffe2.python.modeling.parameter_info import ParameterTags


def elementwise_linear(model: Any, blob_in: Any, blob_out: Any, dim: int, **kwargs: Any) -> Any:
    """A scale ``<out>_w`` and a shift ``<out>_b`` for each column."""
    ones = ("ConstantFill", {"value": 1.0})
    weight = parameter(
        model, f"{blob_out}_w", [dim], kwargs.pop("weight_init", None), None, ones, ParameterTags.WEIGHT
    )
    bias = parameter(
        model, f"{blob_out}_b", [dim], kwargs.pop("bias_init", None), None, ZERO, ParameterTags.BIAS
    )
    return model.net.ElementwiseLinear([blob_in, weight, bias], blob_out, **kwargs)
