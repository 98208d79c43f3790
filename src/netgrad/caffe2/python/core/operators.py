"""Creating operator definitions."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable
from typing import Any

from netgrad.caffe2.arguments import make_argument
from netgrad.caffe2.caffe2_pb2 import Argument, DeviceOption, OperatorDef
from netgrad.caffe2.makers.types import is_operator
from netgrad.caffe2.python import scope
from netgrad.caffe2.python.core.blob_reference import references

when_created: list[Callable[[OperatorDef], object]] = []
"""Called with each operator that is created, such as by immediate mode."""


_WITH_ENGINES = {"Ftrl": ("SIMD",), "GFtrl": ("SIMD",), "SparseFtrl": ("SIMD",)}


def IsOperator(op_type: str) -> bool:
    """Whether the operator type is known; ``<type>_ENGINE_<engine>`` asks for one of an engine."""
    type_, _, engine = op_type.partition("_ENGINE_")
    return IsOperatorWithEngine(type_, engine) if engine else is_operator(op_type)


def IsOperatorWithEngine(op_type: str, engine: str) -> bool:
    """Whether the operator is known under an engine. Each runs in the same way, whatever its engine."""
    return is_operator(op_type) and engine in ("", "DEFAULT", *_WITH_ENGINES.get(op_type, ()))


def CreateOperator(
    operator_type: str,
    inputs: Any,
    outputs: Any,
    name: str = "",
    control_input: Any = None,
    device_option: DeviceOption | None = None,
    arg: Iterable[Argument] | None = None,
    engine: str | None = None,
    debug_info: str | None = None,
    **kwargs: Any,
) -> OperatorDef:
    """An operator definition; the type need not be known.

    Args:
        operator_type: Its type.
        inputs: A name, a reference, or a list or tuple of them; raw names get the name scope.
        outputs: Likewise.
        name: Name of this instance.
        control_input: Blobs that must be there before it runs; like ``inputs``.
        device_option: Where it runs; otherwise where the current device scope says.
        arg: Ready arguments.
        engine: Choice of implementation.
        debug_info: Free text.
        **kwargs: Further arguments by name, see `netgrad.caffe2.arguments.make_argument`; those that are None
            are left out. ``random_seed`` goes into the device option.

    Raises:
        TypeError: Operands are no blobs.
        ValueError: An argument's value can't be held.
    """
    operator = OperatorDef(type=operator_type, name=name)
    if os.environ.get("CAFFE2_DEBUG"):
        operator.debug_info = "".join(traceback.format_stack())
    operator.input.extend(str(blob) for blob in references(inputs))
    operator.output.extend(str(blob) for blob in references(outputs))
    if control_input:
        operator.control_input.extend(str(blob) for blob in references(control_input))
    device = device_option if device_option is not None else scope.CurrentDeviceScope()
    if device is not None:
        operator.device_option.CopyFrom(device)
    if engine is not None:
        operator.engine = engine
    if debug_info is not None:
        operator.debug_info = debug_info
    if "random_seed" in kwargs:
        operator.device_option.random_seed = kwargs.pop("random_seed")
    if arg is not None:
        operator.arg.extend(arg)
    operator.arg.extend(make_argument(key, value) for key, value in kwargs.items() if value is not None)
    for call in when_created:
        call(operator)
    return operator
