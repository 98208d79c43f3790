"""Gradients of the operators that hold nets, as scripts ask for them; the makers are netgrad's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.python import core


def gen_do_gradient(op: OperatorDef, g_output: Sequence[Any]) -> tuple[list[OperatorDef], list[Any]]:
    """The gradient operators of a ``Do``, and the gradients of its inputs; see `GetGradientForOp`."""
    return core.GradientRegistry.GetGradientForOp(op, g_output)


def gen_if_gradient(op: OperatorDef, g_output: Sequence[Any]) -> tuple[list[OperatorDef], list[Any]]:
    """The gradient operators of an ``If``, and the gradients of its inputs; see `GetGradientForOp`."""
    return core.GradientRegistry.GetGradientForOp(op, g_output)


def gen_while_gradient(op: OperatorDef, g_output: Sequence[Any]) -> tuple[list[OperatorDef], list[Any]]:
    """The gradient operators of a ``While``, and the gradients of its inputs; see `GetGradientForOp`."""
    return core.GradientRegistry.GetGradientForOp(op, g_output)


def disambiguate_grad_if_op_output(grad_op: OperatorDef, idx: int, new_grad_output: str) -> None:
    """Give an output of an ``If`` another name, also in its nets.

    Args:
        grad_op: The operator, which is changed.
        idx: The index of the output.
        new_grad_output: Its new name.
    """
    old = grad_op.output[idx]
    for argument in grad_op.arg:
        if argument.name in ("then_net", "else_net"):
            for op in argument.n.op:
                renamed = [new_grad_output if name == old else name for name in op.output]
                del op.output[:]
                op.output.extend(renamed)
    grad_op.output[idx] = new_grad_output
