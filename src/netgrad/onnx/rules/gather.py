"""Gradient rules of operators that pick elements by index: Gather and its kin, TopK, OneHot."""

from __future__ import annotations

import onnx_ir as ir

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.index_tuples import row_view
from netgrad.onnx.rules.placing import (
    collect,
    collect_distinct,
    collect_neighbours,
    elements,
    joined,
    length,
    lengths,
    scatter_add,
    scatter_along,
    scatter_flat,
)
from netgrad.onnx.rules.unranked import AxisView


@rule("Gather", attributes=("axis",), not_differentiable=(1,))
def gather(op: RuleContext, dy: Value) -> Value:
    """Y[a.., i.., c..] = X[a.., I[i..], c..]; dX[a.., k, c..] = sum of dY[a.., i.., c..] over I[i..] = k.

    Negative indices count from the end; a row that is picked repeatedly collects all its cotangents, in
    float32 for the half types. With constant indices `collect` chooses the form, else it is ScatterElements.

    Measured, in ms on 2 threads, for 1280 rows of 32 of a table of 1000 rows: 0.45, against 0.05 of
    ScatterND (wrong with threads, see `netgrad.onnx.rules.placing`), 1.0 of adding equal rows first, and
    2.5 of a product with the one-hot matrix. The product is faster for tables of a few rows (2 rows of
    256, 512 of them: 0.06 against 0.84), but makes NaN of every row if a single cotangent is infinite.
    """
    b, x, indices = op.builder, op.input, op.required(1)
    if x.rank is None or (indices.rank is None and dy.rank is None):
        view, count = AxisView(b, x, op.attribute("axis")), elements(b, indices)
        picked = b.reshape(indices, [-1])
        return b.reshape_like(scatter_along(b, view.of(dy, count), 1, picked, view.shape()), x)
    axis = op.attribute("axis") % x.rank
    flat = _one_index_axis(b, dy, x, indices, axis)
    size = x.dim(axis)
    if indices.constant is not None:
        places = indices.constant.ravel()
        if isinstance(size, int):
            return collect(b, flat, axis, places % max(size, 1), size)
        padded = collect_neighbours(b, flat, axis, places, length(b, x, axis))
        if padded is not None:
            return padded
    return scatter_along(b, flat, axis, indices, b.shape_of(x))


def _one_index_axis(b: Builder, dy: Value, x: Value, indices: Value, axis: int) -> Value:
    """``dy`` with the axes of ``indices`` made one, so that it has the rank of ``x``."""
    assert x.shape is not None, "the caller knows the rank"
    if indices.rank == 1:
        return dy
    if indices.rank == 0:
        return b.unsqueeze(dy, [axis])
    count = elements(b, indices)
    shape = joined(b, [lengths(b, x, 0, axis), count, lengths(b, x, axis + 1, len(x.shape))])
    known = None if count.constant is None else int(count.constant[0])
    dims = [n if isinstance(n, int) else -1 for n in (*x.shape[:axis], known, *x.shape[axis + 1 :])]
    if dims.count(-1) == 1 and 0 not in dims:  # the only unknown one need not be asked for
        return b.reshape(dy, dims)
    return b.op("Reshape", dy, shape, allowzero=1)


@rule("GatherElements", attributes=("axis",), not_differentiable=(1,))
def gather_elements(op: RuleContext, dy: Value) -> Value:
    """Y[i, j] = X[I[i, j], j] (axis 0); dX[k, j] = sum of dY[i, j] over I[i, j] = k."""
    b = op.builder
    return scatter_add(b, dy, op.attribute("axis"), op.required(1), b.shape_of(op.input))


@rule("GatherND", attributes=("batch_dims",), not_differentiable=(1,))
def gather_nd(op: RuleContext, dy: Value) -> Value:
    """Y[n.., i.., c..] = X[n.., I[n.., i..], c..]; dX = the sum of dY over the tuples that name a place.

    With X as a matrix of P places by the elements of one c.., each tuple names a row.
    """
    b, x = op.builder, op.input
    view = row_view(op, x, op.required(1), dy, op.attribute("batch_dims"))
    updates, numbers = view.entries(b, dy), view.numbers
    if numbers.constant is not None and view.rows.constant is not None:
        count = int(view.rows.constant[0])
        rows = collect(b, updates, 0, numbers.constant.ravel() % max(count, 1), count)
    else:
        rows = scatter_along(b, updates, 0, numbers, joined(b, [view.rows, view.width]))
    return b.reshape_like(rows, x)


@rule("TopK", attributes=("axis", "largest", "sorted"), not_differentiable=(1,), needs_outputs=2)
def top_k(op: RuleContext, dy: Value, indices_grad: Value | None = None) -> Value:
    """Y = the k largest (or smallest) of X along an axis, at places I; dX = dY at these places, 0 elsewhere.

    Kink: among equal values the ones that the forward pass picked get the gradient.
    """
    b = op.builder
    indices = op.optional_output(1)
    assert indices is not None, "needs_outputs=2"
    return scatter_add(b, dy, op.attribute("axis"), indices, b.shape_of(op.input))


@rule("Unique", attributes=("axis", "sorted"), needs_outputs=2)
def unique(op: RuleContext, dy: Value, *others: Value | None) -> Value:
    """Y = the different entries of X along an axis (or of X flattened), first seen at I; dX = dY at I.

    Kink: of equal entries the first gets the gradient, so that the total is right.
    """
    b, x, axis, first_seen = op.builder, op.input, op.attribute("axis"), op.outputs[1]
    assert first_seen is not None, "needs_outputs=2"
    if axis is None:
        return scatter_flat(b, dy, first_seen, x)
    if x.rank is None:
        view = AxisView(b, x, axis)
        seen = view.of(dy, elements(b, first_seen))
        return b.reshape_like(collect_distinct(b, seen, 1, first_seen, view.size), x)
    axis %= x.rank
    return collect_distinct(b, dy, axis, first_seen, length(b, x, axis))


@rule("OneHot", attributes=("axis",), not_differentiable=(0, 1))
def one_hot(op: RuleContext, dy: Value) -> Value:
    """Y = V[1] where the position along the new axis is the index, else V[0]; dV = dY summed over either."""
    b = op.builder
    # ONNX Runtime has a kernel for int64 in all three places, and few others.
    indices, depth = (b.cast(op.required(k), ir.DataType.INT64) for k in (0, 1))
    hot = b.op("OneHot", indices, depth, b.ints([0, 1]), axis=op.attribute("axis"))
    picked = b.cast(hot, ir.DataType.BOOL)
    on = b.op("ReduceSum", b.where(picked, dy, 0.0), keepdims=0)
    off = b.op("ReduceSum", b.where(picked, 0.0, dy), keepdims=0)
    return b.concat([b.unsqueeze(off, [0]), b.unsqueeze(on, [0])], axis=0)
