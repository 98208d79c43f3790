"""The original's flags that make floating point exceptions of operators errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from netgrad.caffe2.definitions import to_operator
from netgrad.caffe2.running.blob import as_array, is_tensor
from netgrad.caffe2.running.errors import RunError

if TYPE_CHECKING:
    from netgrad.caffe2.running.parts import Part
    from netgrad.caffe2.running.workspace import Workspace

_FLAG = re.compile(r"--caffe2_operator_throw_if_fp(?:_overflow)?_exceptions(?:=(\w+))?")
_OFF = ("0", "false", "no")


class _Setting:
    """What `read_flags` has found last, for the whole process."""

    are_errors = False


def read_flags(arguments: Sequence[str]) -> None:
    """Note whether the flags of a program make floating point exceptions errors; without a flag it stays."""
    found = [match for match in map(_FLAG.fullmatch, arguments) if match]
    if found:
        _Setting.are_errors = any((match[1] or "1").lower() not in _OFF for match in found)


def are_errors() -> bool:
    """Whether floating point exceptions are errors, so that nets run operator by operator."""
    return _Setting.are_errors


def run_checked(part: Part, workspace: Workspace) -> None:
    """Run one operator, which must not make what is not finite out of what is.

    A result is looked at, and not the processor's flags: a division by zero and an overflow both give
    infinity, and either flag finds both.

    Raises:
        RunError: It did.
    """
    (definition,) = part.definitions
    clean = bool(definition.input) and _are_finite(definition.input, workspace)
    part.run(workspace)
    if clean and not _are_finite(definition.output, workspace):
        raise RunError(
            f"{to_operator(definition)} met a floating point exception: a division by zero, an overflow or "
            "an invalid operation, since its operands are finite and its results are not"
        )


def _are_finite(blobs: Iterable[str], workspace: Workspace) -> bool:
    for name in blobs:
        blob = workspace.find(name)
        if blob is None or not is_tensor(blob.value):
            continue
        array = as_array(blob.value)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return False
    return True
