"""Operators that call functions of the script."""

from __future__ import annotations

from functools import partial
from typing import Any

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.python.core.operators import CreateOperator
from netgrad.caffe2.running.operators.python_function import register_python_functions


def token_of(
    f: Any,
    grad_f: Any = None,
    python_func_type: Any = None,
    pass_workspace: bool = False,
    per_operator: bool = False,
) -> str:
    """Remember functions under a token, an argument of the operators that call them.

    Args:
        f: Called with inputs and outputs; or a tuple (function that gives it, its arguments, its keywords).
        grad_f: Called with inputs, outputs and output gradients in one list, and input gradients; likewise.
        python_func_type: A class whose instances, made with ``f``, have the methods ``forward`` and
            ``backward``.
        pass_workspace: Whether the functions get the workspace behind them.
        per_operator: Whether tuples give functions anew for each operator that is created in a workspace,
            such as those of the instances of a task, or one for all.
    """
    if python_func_type is not None:
        functions = python_func_type(f)
        return register_python_functions(functions.forward, functions.backward, pass_workspace)
    if per_operator and isinstance(f, tuple):
        assert grad_f is None or isinstance(grad_f, tuple), "both functions are built, or none"
        build_gradient = None if grad_f is None else partial(_built, grad_f)
        return register_python_functions(partial(_built, f), build_gradient, pass_workspace, build=True)
    return register_python_functions(_built(f), None if grad_f is None else _built(grad_f), pass_workspace)


def _built(function: Any) -> Any:
    if isinstance(function, tuple):
        build, arguments, keywords = function
        return build(*arguments, **keywords)
    return function


def CreatePythonOperator(
    f: Any,
    inputs: Any,
    outputs: Any,
    grad_f: Any = None,
    pass_workspace: bool = False,
    python_func_type: Any = None,
    *args: Any,
    **kwargs: Any,
) -> OperatorDef:
    """An operator that calls a function of the script; see `token_of` and `CreateOperator`."""
    token = token_of(f, grad_f, python_func_type, pass_workspace)
    return CreateOperator("Python", inputs, outputs, *args, token=token, **kwargs)
