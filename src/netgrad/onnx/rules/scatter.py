"""Gradient rules of ScatterElements and ScatterND, with all their reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.index_tuples import row_view
from netgrad.onnx.rules.placing import count_up, length, numbering
from netgrad.onnx.rules.precision import widened
from netgrad.onnx.view import Dim


@dataclass(frozen=True)
class _Scatter:
    """Y = X, where U is put at (or reduced into) its places along an axis; ``places`` has the shape of U.

    Attributes:
        distinct: Whether no two updates go to one place; None where that is known only at run time.
    """

    b: Builder
    x: Value
    places: Value
    updates: Value
    y: Value
    dy: Value
    axis: int
    distinct: bool | None

    def scatter(self, onto: Value, updates: Value, reduction: str) -> Value:
        result = self.b.op("ScatterElements", onto, self.places, updates, axis=self.axis, reduction=reduction)
        return self.b.assume_like(result, onto)

    def gather(self, source: Value) -> Value:
        result = self.b.op("GatherElements", source, self.places, axis=self.axis)
        return self.b.assume_like(result, self.updates)


@rule("ScatterElements", attributes=("axis", "reduction"), not_differentiable=(1,))
def scatter_elements(op: RuleContext, dy: Value) -> Sequence[Value | None]:
    """Y = X, then Y[I[i, j], j] = U[i, j], or f(Y[..], U[i, j]) with a reduction f (axis 0).

    - none: dX = dY, with 0 where an update went; dU[i, j] = dY[I[i, j], j]. The standard asks for distinct
      places; where constant indices repeat one, the update that the runtime lets win gets the gradient.
    - add: dX = dY, dU[i, j] = dY[I[i, j], j].
    - mul: dX = dY times the updates of its place; dU = dY times X and the other updates of its place, with no
      division by 0. Up to the third derivative that holds for any number of zeros at one place.
    - max, min: dX and dU = dY where they are the result.

    Kink: of equal maxima or minima at one place each gets the same share of dY.
    """
    axis = op.attribute("axis")
    x, places, updates = op.required(0), op.required(1), op.required(2)
    distinct = _distinct_elements(x, places, axis)
    step = _Scatter(op.builder, x, places, updates, op.output, dy, axis, distinct)
    reduction = op.attribute("reduction")
    if reduction == "none":
        return _replaced(op, step)
    return _reduced(op, reduction, step)


@rule("ScatterND", attributes=("reduction",), not_differentiable=(1,))
def scatter_nd(op: RuleContext, dy: Value) -> Sequence[Value | None]:
    """Y = X, then Y[I[i..], c..] = U[i.., c..], or f(Y[..], U[..]) with a reduction f.

    As ScatterElements, on X as a matrix with a row for each place that a tuple I[i..] can name.

    Kink: of equal maxima or minima at one place each gets the same share of dY.
    """
    b, x, indices, updates = op.builder, op.required(0), op.required(1), op.required(2)
    reduction = op.attribute("reduction")
    distinct = _distinct_tuples(x, indices)
    if reduction == "none" and distinct is not False:
        dx = b.op("ScatterND", dy, indices, b.zeros_like(updates)) if op.wants(0) else None
        return dx, None, b.op("GatherND", dy, indices) if op.wants(2) else None
    if reduction == "add":
        return dy, None, b.op("GatherND", dy, indices) if op.wants(2) else None
    view = row_view(op, x, indices, updates)
    rows = view.entries(b, updates)
    places = b.op("Expand", b.reshape(view.numbers, [-1, 1]), b.shape_of(rows))
    step = _Scatter(
        b,
        view.matrix(b, x),
        places,
        rows,
        view.matrix(b, op.output),
        view.matrix(b, dy),
        0,
        distinct,
    )
    dx, _, du = _replaced(op, step) if reduction == "none" else _reduced(op, reduction, step)
    return (
        None if dx is None else b.reshape_like(dx, x),
        None,
        None if du is None else b.reshape_like(du, updates),
    )


@rule("TensorScatter", attributes=("axis", "mode"), not_differentiable=(2,))
def tensor_scatter(op: RuleContext, dy: Value) -> Sequence[Value | None]:
    """Y = X, then Y[n, .., W[n] + s, ..] = U[n, .., s, ..] along an axis; in mode circular modulo its size.

    dX = dY, with 0 where an update went; dU[n, .., s, ..] = dY[n, .., W[n] + s, ..].
    """
    b, update, start = op.builder, op.required(1), op.optional(2)
    axis, mode, rank = op.attribute("axis"), op.attribute("mode"), op.rank(update)
    axis %= rank
    dx = b.op("TensorScatter", dy, b.zeros_like(update), start, axis=axis, mode=mode) if op.wants(0) else None
    gradients: list[Value | None] = [dx, None, None]
    if op.wants(1) and start is None:
        size = update.dim(axis)
        gradients[1] = b.slice(dy, axis, 0, size if isinstance(size, int) else length(b, update, axis))
    elif op.wants(1) and start is not None:
        steps = b.reshape(count_up(b, length(b, update, axis)), [-1] + [1] * (rank - 1 - axis))
        places = b.reshape(b.cast(start, ir.DataType.INT64), [-1] + [1] * (rank - 1)) + steps
        if mode == "circular":
            places = b.op("Mod", places, length(b, dy, axis))
        gradients[1] = b.op("GatherElements", dy, b.expand_like(places, update), axis=axis)
    return gradients[: len(op.inputs)]


# ---- replacing ---------------------------------------------------------------------------------------


def _replaced(op: RuleContext, step: _Scatter) -> tuple[Value | None, None, Value | None]:
    b = step.b
    dx = step.scatter(step.dy, b.zeros_like(step.updates), "none") if op.wants(0) else None
    if not op.wants(2):
        return dx, None, None
    du = step.gather(step.dy)
    if step.distinct is False:
        # Scattering the updates' own numbers the same way shows which of them are left in the result.
        number = numbering(b, step.updates)
        nothing = b.op(
            "ConstantOfShape", b.shape_of(step.x), value=ir.tensor(np.asarray([-1], dtype=np.int64))
        )
        left = step.scatter(b.assume_like(nothing, step.x), number, "none")
        du = b.where(step.gather(left).equals(number), du, 0.0)
    return dx, None, du


# ---- reductions --------------------------------------------------------------------------------------


def _reduced(op: RuleContext, reduction: str, step: _Scatter) -> tuple[Value | None, None, Value | None]:
    forms: dict[str, Callable[[RuleContext, _Scatter], tuple[Value | None, Value | None]]] = {
        "add": _added,
        "mul": _multiplied,
        "max": _selected,
        "min": _selected,
    }
    if reduction not in forms:
        raise op.refuse(f"reduction {reduction!r} is none of 'none', {', '.join(map(repr, forms))}")
    dx, du = forms[reduction](op, step)
    return dx, None, du


def _added(op: RuleContext, step: _Scatter) -> tuple[Value, Value | None]:
    return step.dy, step.gather(step.dy) if op.wants(2) else None


def _multiplied(op: RuleContext, step: _Scatter) -> tuple[Value | None, Value | None]:
    """The product of all other factors of a place, exact also where some of them are 0."""
    b, step = step.b, _widened(step)
    dx = du = None
    if op.wants(0):
        dx = step.dy * step.scatter(b.full_like(step.x, 1.0), step.updates, "mul")
    if op.wants(2) and step.distinct:
        du = step.gather(step.dy * step.x)
    elif op.wants(2):
        # With each 0 replaced by 1 and counted apart, the others' product is a quotient, unless one is 0.
        is_zero = step.updates.equals(0.0)
        factors = b.where(is_zero, 1.0, step.updates)
        product = step.scatter(step.x, factors, "mul")
        marks = b.assume_like(b.cast(is_zero, _dtype(step.x)), step.updates)
        zeros = step.scatter(b.zeros_like(step.x), marks, "add")
        other_zeros = step.gather(zeros) - marks
        du = step.gather(step.dy * product) / factors
        # Other zeros are factors of value 0, by which higher derivatives are: a single one is the sum s of
        # the others; of two, a b = (s^2 - (a^2 + b^2)) / 2. With three, the fourth derivative would count.
        nothing = b.where(is_zero, step.updates, 0.0)
        single = _sum_of_others(step, nothing)
        pair = (single * single - _sum_of_others(step, nothing * nothing)) * 0.5
        several = b.where(other_zeros > 2.5, 0.0, du * pair)
        du = b.where(other_zeros > 1.5, several, b.where(other_zeros > 0.5, du * single, du))
    return dx, du


def _sum_of_others(step: _Scatter, terms: Value) -> Value:
    """For each update, the sum of the terms of the other ones at its place."""
    return step.gather(step.scatter(step.b.zeros_like(step.x), terms, "add")) - terms


def _selected(op: RuleContext, step: _Scatter) -> tuple[Value | None, Value | None]:
    """Maxima or minima: the result says who won; equal winners share."""
    b, y, step = step.b, step.y, _widened(step)
    if step.y is not y:  # x and y may differ in a rounding (see `RuleContext.comparable`)
        step = replace(step, y=step.scatter(step.x, step.updates, op.attribute("reduction")))
    stays, wins = step.x.equals(step.y), step.updates.equals(step.gather(step.y))
    dtype = _dtype(step.x)
    winners = step.scatter(
        b.assume_like(b.cast(stays, dtype), step.x), b.assume_like(b.cast(wins, dtype), step.updates), "add"
    )
    share = step.dy / winners
    dx = b.where(stays, share, 0.0) if op.wants(0) else None
    du = b.where(wins, step.gather(share), 0.0) if op.wants(2) else None
    return dx, du


# ---- helpers -----------------------------------------------------------------------------------------


def _dtype(x: Value) -> ir.DataType:
    assert x.dtype is not None, f"the element type of {x.name} is unknown"
    return x.dtype


def _widened(step: _Scatter) -> _Scatter:
    """The same in float32 for the half types: ONNX Runtime has no kernel that reduces them."""
    b = step.b
    return replace(
        step,
        x=widened(b, step.x),
        updates=widened(b, step.updates),
        y=widened(b, step.y),
        dy=widened(b, step.dy),
    )


def _distinct_elements(x: Value, places: Value, axis: int) -> bool | None:
    """Whether no two indices of ScatterElements name one element; None where that is not known."""
    if places.constant is None:
        return None
    coordinates = np.indices(places.constant.shape)
    coordinates[axis] = places.constant
    sizes: list[Dim] = list(places.constant.shape)
    sizes[axis] = x.dim(axis)
    return _distinct(coordinates.reshape(len(sizes), -1), sizes)


def _distinct_tuples(x: Value, indices: Value) -> bool | None:
    """Whether no two tuples of ScatterND name one place; None where that is not known."""
    if indices.constant is None:
        return None
    coordinates = np.moveaxis(indices.constant, -1, 0)
    sizes: list[Dim] = [x.dim(axis) for axis in range(len(coordinates))]
    return _distinct(coordinates.reshape(len(sizes), -1), sizes)


def _distinct(coordinates: np.ndarray, sizes: Sequence[Dim]) -> bool:
    """Whether all columns differ, for all that is known of the sizes from which negative indices count."""
    rows = []
    for row, size in zip(coordinates, sizes, strict=True):
        if isinstance(size, int):
            rows.append(row % max(size, 1))
        elif (row < 0).any() and (row >= 0).any():
            return False
        else:
            rows.append(row)
    return bool(np.unique(rows, axis=1).shape[1] == coordinates.shape[1])
