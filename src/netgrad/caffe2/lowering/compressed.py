"""Layers whose weights are compressed: the product of two factors, pruned, or sparse; and packed ones.

They are Caffe2's experimental variants of ``FC``.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.segments import segment_ids, whole
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.placing import length


def _rows(c: Context, b: Builder, x: Value) -> Value:
    """``x`` as a matrix with a row per sample; a vector is one sample."""
    return x if c.rank(x) == 2 else b.op("Flatten", x, axis=0 if c.rank(x) == 1 else 1)


def _as_given(c: Context, b: Builder, x: Value, rows: Value) -> Value:
    return b.squeeze(rows, [0]) if c.rank(x) == 1 else rows


def _matrix(c: Context, b: Builder, x: Value) -> Value:
    return x if c.rank(x) == 2 else b.op("Flatten", x, axis=1)


def _product(c: Context, b: Builder, given: Sequence[Value]) -> Value:
    x, u, v = given
    within = _rows(c, b, x) @ _matrix(c, b, v)
    return _as_given(c, b, x, b.op("Gemm", within, _matrix(c, b, u), transB=1))


@lowers("FC_Decomp")
def _decomposed(c: Context, x: Value, u: Value, v: Value, bias: Value) -> Value:
    """Y = X V U^T + b for X (M, K), U (N, r) and V (K, r): an ``FC`` with the weights U V^T."""
    return _product(c, c.b, [x, u, v]) + bias


@lowers("FCGradient_Decomp")
def _decomposed_gradient(c: Context, x: Value, u: Value, v: Value, dy: Value) -> list[Value]:
    """The gradients of U, V, b, and X if there is a fourth output.

    That of V is X^T dY U. The original wrote dY^T X V there, which only has V's shape if K = N, and isn't its
    gradient then.
    """
    d_bias = dy if c.rank(dy) == 1 else c.b.reduce_sum(dy, [0])
    if c.outputs < 4:
        du, dv = gradients(c.b, lambda b, given: [_product(c, b, [x, *given])], [u, v], [dy])
        return [du, dv, d_bias]
    dx, du, dv = gradients(c.b, lambda b, given: [_product(c, b, given)], [x, u, v], [dy])
    return [du, dv, d_bias, dx]


@lowers("FC_Prune")
def _pruned(c: Context, x: Value, w: Value, mask: Value, bias: Value, *_: Value) -> list[Value]:
    """Y = X W^T + b, and as a second output the share of weights that are left: the mean of the mask.

    The mask isn't applied: the gradient operator sets weights to zero when it prunes them.
    """
    product = c.b.op("Gemm", _rows(c, c.b, x), _matrix(c, c.b, w), transB=1)
    y = _as_given(c, c.b, x, product) + bias
    if c.outputs < 2:
        return [y]
    return [y, c.b.op("ReduceMean", mask, keepdims=0)]


@lowers("FC_Sparse")
def _sparse(c: Context, x: Value, values: Value, starts: Value, columns: Value, bias: Value) -> Value:
    """Y = W X + b with a column per sample in X (K, M) and Y (N, M).

    W (N, K) is given by rows: its values, where each row starts in them (N + 1 numbers, the last of which is
    the number of values), and the column of each value.
    """
    b = c.b
    ends, begins = (b.slice(whole(b, starts), 0, at, to) for at, to in ((1, 2**62), (0, -1)))
    rows = segment_ids(b, ends - begins, length(b, values, 0))
    terms = b.unsqueeze(values, [1]) * b.op("Gather", x, whole(b, columns), axis=0)
    shape = b.concat([length(b, bias, 0), length(b, x, 1)], 0)
    zeros = b.op("Expand", b.cast(b.scalar(0.0, x), x.dtype or ir.DataType.FLOAT), shape)
    summed = b.op("ScatterND", zeros, b.unsqueeze(rows, [1]), terms, reduction="add")
    return summed + b.unsqueeze(bias, [1])
