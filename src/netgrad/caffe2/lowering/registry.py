"""The registry of lowerings by operator type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError

from netgrad.caffe2.lowering.context import Context
from netgrad.core import InvalidArgumentError
from netgrad.onnx.builder import Value

Lowering: TypeAlias = "Callable[..., Value | Sequence[Value | None]]"
"""A function of the context and the operator's inputs (None where left out) that gives its outputs."""

LOWERINGS: dict[str, Lowering] = {}


def lowers(*types: str) -> Callable[[Lowering], Lowering]:
    """Register the lowering of operator types."""

    def register(function: Lowering) -> Lowering:
        for type_ in types:
            if type_ in LOWERINGS:
                raise InvalidArgumentError(f"there are two lowerings of {type_}")
            LOWERINGS[type_] = function
        return function

    return register


def lower(context: Context, inputs: Sequence[Value | None]) -> list[Value | None]:
    """Write one operator.

    Raises:
        UnsupportedOperatorError: It has no lowering, or not in this form.
    """
    function = LOWERINGS.get(context.definition.type)
    if function is None:
        raise context.refused("there is no lowering for it")
    try:
        found: Any = function(context, *inputs)
    except (ValidationError, InferenceError) as error:  # its operands are of a type that ONNX doesn't allow
        raise context.refused(str(error).splitlines()[0]) from error
    except AssertionError as error:  # what a builder says of a value in between
        if "element type" not in str(error):
            raise
        raise context.refused(_no_result(inputs)) from error
    written = [found] if isinstance(found, Value) else list(found)
    if any(value is not None and value.is_tensor and value.dtype is None for value in written):
        raise context.refused(_no_result(inputs))
    return written


def _no_result(inputs: Sequence[Value | None]) -> str:
    shapes = ", ".join(str(value.shape) for value in inputs if value is not None)
    return f"ONNX has no result for inputs of the shapes {shapes}"
