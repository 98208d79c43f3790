"""Operators that call functions of a script."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from netgrad.caffe2.running.blob import Tensor
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs


@dataclass
class _Functions:
    forward: Callable[..., Any]
    gradient: Callable[..., Any] | None
    pass_workspace: bool
    build: bool


_functions: dict[str, _Functions] = {}


def register_python_functions(
    forward: Callable[..., Any],
    gradient: Callable[..., Any] | None = None,
    pass_workspace: bool = False,
    build: bool = False,
) -> str:
    """Remember the functions of a ``Python`` operator.

    Args:
        forward: Called with the lists of inputs and outputs (`Tensor`) and perhaps the workspace.
        gradient: Called with the inputs, outputs and output gradients in one list, and the input gradients.
        pass_workspace: Whether both get the workspace behind them.
        build: Whether they are called without arguments, once for each operator, and give the functions.

    Returns:
        The token by which operators name them, their argument ``token``.
    """
    token = f"netgrad_python_{len(_functions)}"
    _functions[token] = _Functions(forward, gradient, pass_workspace, build)
    return token


@runs("Python", "PythonDLPack")
def _python(call: Call) -> None:
    _called(call, _found(call).forward)


@runs("PythonGradient", "PythonDLPackGradient")
def _python_gradient(call: Call) -> None:
    gradient = _found(call).gradient
    if gradient is None:
        raise call.error("its Python operator was made without a gradient function (grad_f)")
    _called(call, gradient)


def _found(call: Call) -> _Functions:
    token = call.argument("token", "")
    if token not in _functions:
        raise call.error(f"no Python function was registered for token '{token}' in this process")
    return _functions[token]


def _called(call: Call, function: Callable[..., Any]) -> None:
    for at in range(len(call.definition.input)):
        call.value(at)
    inputs = [Tensor(call.blob(at)) for at in range(len(call.definition.input))]
    outputs = [Tensor(call.workspace.create_blob(name)) for name in call.definition.output]
    found = _found(call)
    if found.build:
        if "function" not in call.memory:
            call.memory["function"] = function()
        function = call.memory["function"]
    more = [call.workspace] if found.pass_workspace else []
    function(inputs, outputs, *more)
