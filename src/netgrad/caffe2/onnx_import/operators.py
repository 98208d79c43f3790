"""A list of ONNX's operators, written one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from netgrad.caffe2.onnx_import.node import Node, Target
from netgrad.caffe2.onnx_import.own import DOMAIN, write_own
from netgrad.caffe2.onnx_import.registry import WRITERS
from netgrad.core import Operator, UnsupportedOperatorError
from netgrad.core.errors import MissingRule


def write_operators(
    operators: Sequence[Operator], opset: int, target: Target, outputs: Iterable[str]
) -> None:
    """Write operators of ONNX in Caffe2's.

    Args:
        operators: The operators in order.
        opset: The version of the operator set that they are of.
        target: The net that is written.
        outputs: What is read of them besides what they read themselves.

    Raises:
        UnsupportedOperatorError: Caffe2 can't express some of them; all of them are named.
    """
    read = {name for op in operators for name in op.inputs} | set(outputs)
    unread = frozenset(name for op in operators for name in op.outputs) - read
    refused: list[UnsupportedOperatorError] = []
    for index, op in enumerate(operators):
        writer = write_own if op.domain == DOMAIN else WRITERS.get(op.type) if not op.domain else None
        node = Node(op, opset, target, unread)
        try:
            if writer is None:
                raise node.refused("Caffe2 has no operator for it")
            writer(node)
        except UnsupportedOperatorError as error:
            missing = [MissingRule(one.operator, index, one.reason) for one in error.operators]
            refused.append(UnsupportedOperatorError(error.message, missing, hint=error.hint))
    if refused:
        raise combined(refused)


def combined(errors: Sequence[UnsupportedOperatorError]) -> UnsupportedOperatorError:
    """One error that says what several say."""
    if len(errors) == 1:
        return errors[0]
    return UnsupportedOperatorError(
        "\n  ".join(dict.fromkeys(error.message for error in errors)),
        [one for error in errors for one in error.operators],
        hint=next((error.hint for error in errors if error.hint), None),
    )
