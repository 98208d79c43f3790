"""Layers for models: ``brew.fc(model, "x", "y", 4, 3)``.

What a layer isn't told in the call it takes from `arg_scope`, and else from the model.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from netgrad.caffe2.python.helpers.arg_scope import arg_scope as arg_scope
from netgrad.caffe2.python.helpers.arg_scope import get_current_scope as get_current_scope
from netgrad.caffe2.python.model_helper import ModelHelper

# The modules of `netgrad.caffe2.python.helpers`, and their layers. Not imported by name: some have a layer's.
_FAMILIES = {
    "algebra": "sum transpose batch_mat_mul",
    "array_helpers": "concat depth_concat",
    "control_ops": "cond loop",
    "conv": "conv conv_nd conv_transpose group_conv group_conv_deprecated",
    "db_input": "db_input",
    "dropout": "dropout",
    "elementwise_linear": "elementwise_linear",
    "fc": "fc packed_fc fc_decomp fc_prune fc_sparse",
    "nonlinearity": "relu tanh prelu",
    "normalization": "softmax lrn spatial_bn spatial_gn instance_norm layer_norm moments_with_running_stats",
    "pooling": "max_pool average_pool max_pool_with_index",
    "quantization": "fused_8bit_rowwise_quantized_to_float",
    "tools": "image_input video_input",
    "train": "accuracy iter add_weight_decay",
}

_HELPERS: dict[str, Callable[..., Any]] = {
    name: getattr(importlib.import_module(f"netgrad.caffe2.python.helpers.{family}"), name)
    for family, names in _FAMILIES.items()
    for name in names.split()
}


def Register(helper: Callable[..., Any]) -> None:
    """Add a layer under the name of its function.

    Raises:
        AttributeError: There is one of that name.
    """
    name = helper.__name__
    if name in _HELPERS:
        raise AttributeError(f"there is a layer {name} already")
    _HELPERS[name] = helper


def has_helper(helper_or_helper_name: Any) -> bool:
    """Whether there is a layer of that name or function."""
    given = helper_or_helper_name
    return (given if isinstance(given, str) else given.__name__) in _HELPERS


def _bound(name: str) -> Callable[..., Any]:
    helper = _HELPERS[name]

    def call(*args: Any, **kwargs: Any) -> Any:
        model, rest = _model_of(args, kwargs)
        parameters = inspect.signature(helper).parameters
        takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
        defaults = {**model.arg_scope, **get_current_scope().get(name, {})}
        if not takes_all:
            defaults = {key: value for key, value in defaults.items() if key in parameters}
        return helper(model, *rest, **{**defaults, **kwargs})

    call.__name__ = name
    call.__doc__ = helper.__doc__
    return call


def _model_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    if "model" in kwargs:
        return kwargs.pop("model"), args
    if args and isinstance(args[0], ModelHelper):
        return args[0], args[1:]
    raise RuntimeError("the first argument of a layer is the model")


def __getattr__(name: str) -> Any:
    if name in _HELPERS:
        return _bound(name)
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(f"there is no layer {name}; there are {', '.join(sorted(_HELPERS))}")
