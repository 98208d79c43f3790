"""What layers have in common: their parameters, and the engine that they name."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.modeling.initializers import update_initializer

XAVIER = ("XavierFill", dict[str, Any]())
ZERO = ("ConstantFill", dict[str, Any]())


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


def engine(use_cudnn: bool) -> str | None:
    """The name of the engine that an operator gets."""
    return "CUDNN" if use_cudnn else None
