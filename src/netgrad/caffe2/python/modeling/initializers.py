"""What writes a parameter before training."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python.core import DataType
from netgrad.caffe2.python.modeling.parameter_info import ParameterInfo


class Initializer:
    """A fill operator with its arguments."""

    def __init__(self, operator_name: str | None = None, **kwargs: Any) -> None:
        self.operator_name = operator_name
        self.operator_kwargs = kwargs

    def update(self, operator_name: str, kwargs: dict[str, Any]) -> None:
        """Set the operator once.

        Raises:
            Exception: It has been set.
        """
        if self.operator_name is not None:
            raise Exception("Operator name overwrites are not allowed")
        self.operator_name = operator_name
        self.operator_kwargs = kwargs

    def create_param(self, param_name: Any, init_net: Any, shape: Any) -> ParameterInfo:
        """Add the fill to ``init_net``."""
        fill = getattr(init_net, str(self.operator_name))
        param = fill([], param_name, shape=shape, **self.operator_kwargs)
        return ParameterInfo(param_id=None, param=param, shape=shape)


class ExternalInitializer:
    """No operator: the blob comes from elsewhere."""

    def create_param(self, param_name: Any, init_net: Any, shape: Any) -> ParameterInfo:
        """Make the blob an external input of ``init_net``."""
        if init_net.BlobIsDefined(str(param_name)):
            param = init_net.GetBlobRef(str(param_name))
        else:
            param = init_net.AddExternalInput(param_name)
        return ParameterInfo(param_id=None, param=param, shape=shape)


class PseudoFP16Initializer(Initializer):
    """A float parameter ``<p>_fp32`` and its half-precision copy, which is the parameter."""

    def create_param(self, param_name: Any, init_net: Any, shape: Any) -> ParameterInfo:
        """Add the fill and the conversion."""
        wide = getattr(init_net, str(self.operator_name))(
            [], f"{param_name}_fp32", shape=shape, **self.operator_kwargs
        )
        param = init_net.FloatToHalf(wide, param_name)
        return ParameterInfo(param_id=None, param=param, shape=shape, blob_copy={DataType.FLOAT: wide})


class ReversePseudoFP16Initializer(Initializer):
    """A float parameter, and its half-precision copy ``<p>_fp16``."""

    def create_param(self, param_name: Any, init_net: Any, shape: Any) -> ParameterInfo:
        """Add the fill and the conversion."""
        fill = getattr(init_net, str(self.operator_name))
        param = fill([], param_name, shape=shape, **self.operator_kwargs)
        half = init_net.FloatToHalf(param, f"{param_name}_fp16")
        return ParameterInfo(param_id=None, param=param, shape=shape, blob_copy={DataType.FLOAT16: half})


def update_initializer(
    initializer_class: Any,
    operator_name_and_kwargs: tuple[str, dict[str, Any]] | None,
    default_operator_name_and_kwargs: tuple[str, dict[str, Any]],
) -> Any:
    """An initializer from a class or a pair of operator and arguments, or the default pair.

    Raises:
        AssertionError: Both say what the operator is.
    """
    kind = initializer_class or Initializer
    name_and_kwargs = operator_name_and_kwargs or default_operator_name_and_kwargs
    if isinstance(kind, type):
        made = kind()
        if not isinstance(made, ExternalInitializer) and made.operator_name is None:
            made.update(name_and_kwargs[0], dict(name_and_kwargs[1]))
        return made
    if callable(kind) and not hasattr(kind, "create_param"):
        return kind(name_and_kwargs[0], **name_and_kwargs[1])
    assert operator_name_and_kwargs is None, "an initializer that is made already takes no operator"
    return kind
