"""Gradient rules of matrix products.

The products of a gradient are written as Gemm wherever both operands are matrices: its transpositions are
free, where MatMul would need a Transpose before it.
"""

from __future__ import annotations

from netgrad.onnx.broadcast import unbroadcast
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.unranked import matrices, sizes, transposed


@rule("MatMul", broadcasts=True)
def matmul(op: RuleContext, dy: Value) -> tuple[Value | None, Value | None]:
    """Y[.., m, n] = sum_k A[.., m, k] B[.., k, n]; dA = dY B^T, dB = A^T dY.

    A vector on the left is a row, one on the right a column, and that axis is missing in Y. Where B is one
    matrix for the whole batch, dB is a single product over all rows of the batch, with no partial gradient
    per batch entry.
    """
    if op.required(1).rank == 1:
        return _by_vector(op, dy)
    if op.required(1).rank == 2:
        return _by_matrix(op, dy)
    return _by_batch(op, dy)


def _by_matrix(op: RuleContext, dy: Value) -> tuple[Value | None, Value | None]:
    """B is a matrix, A of any rank (even unknown)."""
    build, a, b = op.builder, op.required(0), op.required(1)
    da = db = None
    if op.wants(0):
        matrices = a.rank == 2
        da = build.op("Gemm", dy, b, transB=1) if matrices else dy @ build.transpose(b, (1, 0))
        build.assume_like(da, a)
    if op.wants(1):
        db = build.assume_like(build.op("Gemm", rows(build, a), rows(build, dy), transA=1), b)
    return da, db


def _by_vector(op: RuleContext, dy: Value) -> tuple[Value | None, Value | None]:
    """Y[.., m] = sum_k A[.., m, k] b[k]; dA = dY b^T, an outer product; db = sum over rows of dY A."""
    build, a, b = op.builder, op.required(0), op.required(1)
    da = db = None
    if op.wants(0):
        da = build.assume_like(build.unsqueeze(dy, [-1]) * b, a)
    if op.wants(1):
        db = build.assume_like(build.reshape(dy, [-1]) @ rows(build, a), b)
    return da, db


def _by_batch(op: RuleContext, dy: Value) -> tuple[Value | None, Value | None]:
    """B has batch axes; those of either operand may be broadcast."""
    build, a, b = op.builder, op.required(0), op.required(1)
    if a.rank is None or b.rank is None:
        return _of_unknown_rank(op, dy)
    da = db = None
    if a.rank == 1:
        if op.wants(0):
            da = build.squeeze(b @ build.unsqueeze(dy, [-1]), [-1])
        if op.wants(1):
            db = build.assume_like(build.unsqueeze(a, [-1]) * build.unsqueeze(dy, [-2]), b)
        return da, db
    if op.wants(0):
        da = dy @ swap_last_axes(build, b)
    if op.wants(1):
        db = swap_last_axes(build, a) @ dy
    return da, db


def _of_unknown_rank(op: RuleContext, dy: Value) -> tuple[Value | None, Value | None]:
    """Either operand may be a vector, or have batch axes: vectors are made matrices, and dY too."""
    build, a, b = op.builder, op.required(0), op.required(1)
    left, left_added = matrices(build, a, row=True)
    right, right_added = matrices(build, b, row=False)
    given = build.op("Shape", dy)
    last = build.ints([2]) - left_added - right_added  # axes of dY that are no batch axes
    batch = build.op("Slice", given, build.ints([0]), build.op("Shape", given) - last, build.ints([0]))
    shape = build.concat([batch, sizes(build, left, -2, -1), sizes(build, right, -1)], axis=0)
    dy = build.op("Reshape", dy, shape, allowzero=1)
    da = db = None
    if op.wants(0):
        da = build.reshape_like(unbroadcast(build, dy @ transposed(build, right), left), a)
    if op.wants(1):
        db = build.reshape_like(unbroadcast(build, transposed(build, left) @ dy, right), b)
    return da, db


@rule("Gemm", attributes=("alpha", "beta", "transA", "transB"), broadcasts=True)
def gemm(op: RuleContext, dy: Value) -> list[Value | None]:
    """Y = alpha A' B' + beta C; dA' = alpha dY B'^T, dB' = alpha A'^T dY, dC = beta dY.

    A' is A or its transpose, B' likewise. A transposed operand's gradient is computed as the transposed
    product, so that every product is one Gemm.
    """
    build, a, b = op.builder, op.required(0), op.required(1)
    alpha = op.attribute("alpha")
    trans_a, trans_b = bool(op.attribute("transA")), bool(op.attribute("transB"))

    def product(left: Value, right: Value, trans_left: bool, trans_right: bool, like: Value) -> Value:
        result = build.op(
            "Gemm",
            left,
            right,
            alpha=None if alpha == 1.0 else alpha,
            transA=int(trans_left) or None,
            transB=int(trans_right) or None,
        )
        return build.assume_like(result, like)

    contributions: list[Value | None] = [None] * len(op.inputs)
    if op.wants(0):
        contributions[0] = (
            product(b, dy, trans_b, True, a) if trans_a else product(dy, b, False, not trans_b, a)
        )
    if op.wants(1):
        contributions[1] = (
            product(dy, a, True, trans_a, b) if trans_b else product(a, dy, not trans_a, False, b)
        )
    if op.optional(2) is not None and op.wants(2):
        beta = op.attribute("beta")
        contributions[2] = dy if beta == 1.0 else dy * beta
    return contributions


# ---- helpers -----------------------------------------------------------------------------------------


def rows(build: Builder, x: Value) -> Value:
    """``x`` as a matrix of its last-axis rows: shape (product of the leading dims, last dim)."""
    return x if x.rank == 2 else build.op("Flatten", x, axis=-1)


def swap_last_axes(build: Builder, x: Value) -> Value:
    """``x`` with its last two axes exchanged; its rank is known and at least 2."""
    assert x.rank is not None, "the caller has asked for the rank"
    axes = list(range(x.rank))
    return build.transpose(x, [*axes[:-2], axes[-1], axes[-2]])
