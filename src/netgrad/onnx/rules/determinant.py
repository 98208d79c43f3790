"""Gradient rule of Det."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.placing import joined, length


@rule("Det")
def det(op: RuleContext, dy: Value) -> Value:
    """Y = det X; dX[i, j] = dY times the cofactor: det of X with row i replaced by the unit vector e_j.

    Cofactors exist where the inverse does not, so singular matrices have their exact gradient: not zero for
    a rank of n - 1. It takes n^2 determinants of n by n matrices, which are in memory at once; Det is there
    for transformations of a few coordinates.
    """
    b, x = op.builder, op.input
    dtype = op.floating(x)
    size = x.dim(-1) if isinstance(x.dim(-1), int) else x.dim(-2)
    if isinstance(size, int):
        identity = b.constant(np.eye(size), dtype)
    else:
        side = length(b, x, -1)
        identity = b.op("EyeLike", b.fill(joined(b, [side, side]), 0.0, dtype))
    # Axes i, j, row, column behind the batch.
    row_i = b.unsqueeze(b.cast(identity, ir.DataType.BOOL), [1, 3])
    unit_j = b.unsqueeze(identity, [0, 2])
    replaced = b.where(row_i, unit_j, b.unsqueeze(x, [-4, -3]))
    cofactors = b.op("Det", replaced)
    return b.assume_like(cofactors * b.unsqueeze(dy, [-2, -1]), x)
