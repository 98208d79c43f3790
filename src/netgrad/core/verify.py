"""Checks of operator lists, for use before and after the backward pass."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from netgrad.core.errors import InvalidModelError
from netgrad.core.operator import Operator


def check_reads(operators: Iterable[Operator], given: Iterable[str]) -> set[str]:
    """Check that every blob is there before it is read.

    Args:
        operators: Operators in order.
        given: Blobs that exist before the first operator runs.

    Returns:
        All blobs that exist after the last operator.

    Raises:
        InvalidModelError: An operator reads a blob that nothing wrote before.
    """
    known = set(given)
    for op in operators:
        for blob in op.inputs:
            if blob and blob not in known:
                raise _unwritten(blob, op)
        known.update(blob for blob in op.outputs if blob)
    return known


def check_single_assignment(operators: Iterable[Operator], given: Iterable[str]) -> None:
    """Check that the list is in single assignment: written once, and written before it is read.

    Args:
        operators: Operators in order.
        given: Blobs that exist before the first operator runs.

    Raises:
        InvalidModelError: A blob is written twice, or read before it is written.
    """
    writers: dict[str, Operator | None] = dict.fromkeys(given)
    for op in operators:
        for blob in op.inputs:
            if blob and blob not in writers:
                raise _unwritten(blob, op)
        for blob in op.outputs:
            if blob and blob in writers:
                first = writers[blob]
                before = f"by {first}" if first else "by the caller"
                raise InvalidModelError(f"blob '{blob}' is written {before} and again by {op}")
            if blob:
                writers[blob] = op


def _unwritten(blob: str, op: Operator) -> InvalidModelError:
    return InvalidModelError(f"nothing writes blob '{blob}' before {op} reads it")


def check_untouched(operators: Iterable[Operator], blobs: Collection[str]) -> None:
    """Check that no operator writes one of ``blobs``.

    Raises:
        InvalidModelError: An operator does.
    """
    for op in operators:
        for blob in op.outputs:
            if blob in blobs:
                raise InvalidModelError(f"{op} overwrites '{blob}'")


def check_cuts(operators: Sequence[Operator], types: Collection[tuple[str, str]]) -> None:
    """Check that operators which cut the gradient are in its way.

    Args:
        operators: The forward operators.
        types: (domain, type) of the operators that cut.

    Raises:
        InvalidModelError: Nobody reads the first output of such an operator.
    """
    cuts = [op for op in operators if (op.domain, op.type) in types] if types else []
    if not cuts:
        return
    read = {blob for op in operators for blob in op.inputs}
    for op in cuts:
        if not op.outputs or op.outputs[0] not in read:
            raise InvalidModelError(
                f"nothing reads '{op.outputs[0] if op.outputs else ''}', the output of {op}, which therefore "
                f"stops no gradient",
                hint=f"let it write its own input, {op.type}({op.inputs[0]}) -> ({op.inputs[0]}), "
                f"or let the later operators read its output"
                if op.inputs
                else None,
            )
