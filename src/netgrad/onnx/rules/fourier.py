"""Gradient rules of Fourier transforms.

A complex tensor has its real and imaginary parts along a last axis of 2. As a map of such pairs the transform
F has the transpose conj(F conj(.)), as its matrix exp(-2 pi i k n / L) is symmetric.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.placing import count_up, length, pad_axes, scatter_along

_AXIS_INPUT = 20  # the opset from which DFT takes its axis as an input


@rule("DFT", attributes=("axis", "inverse", "onesided"), not_differentiable=(1, 2))
def dft(op: RuleContext, dy: Value) -> list[Value | None]:
    """Y = F X along an axis, or F* X / L; dX = F* dY, or F dY / L, cut or padded to the length of X.

    X is cut or padded with zeros to L = dft_length. A real X takes the real part; a onesided Y lacks the
    upper half of the frequencies, which counts as zero in dY. A onesided inverse makes a real Y of the lower
    half, of which each frequency but 0 and L / 2 counts twice.

    Source: https://onnx.ai/onnx/operators/onnx__DFT.html.
    """
    b, x = op.builder, op.input
    inverse, onesided = bool(op.attribute("inverse")), bool(op.attribute("onesided"))
    axis = _axis(op)
    total = _transform_length(op, axis, halved=inverse and onesided)
    if inverse and onesided:
        dx = _transform(b, dy, total, axis, onesided=True) * _half_weights(b, dy, total, axis)
    elif inverse:
        dx = _transform(b, dy, total, axis) / _as_number(b, total, op.floating(dy))
    else:
        dx = _conjugate(b, _transform(b, _conjugate(b, dy), total, axis))
    dx = _of_length(b, dx, x, axis)
    return [b.assume_like(_parts_of(b, dx, x), x), *[None] * (len(op.inputs) - 1)]


def _axis(op: RuleContext) -> int | Value:
    """The transformed axis, a number where it is known, else a run-time int64 tensor of shape (1,)."""
    b, rank = op.builder, op.input.rank
    given = None if b.opset < _AXIS_INPUT else op.optional(2)
    if given is None or given.constant is not None:
        default = int(op.attribute("axis", 1)) if b.opset < _AXIS_INPUT else -2
        axis = default if given is None or given.constant is None else int(given.constant.item())
        if rank is None and b.opset < _AXIS_INPUT and axis >= 0:
            return axis
        if rank is None and b.opset >= _AXIS_INPUT:
            return b.ints([axis])
        return axis % op.rank(op.input)
    return b.reshape(b.cast(given, ir.DataType.INT64), [1])


def _length(b: Builder, x: Value, axis: int | Value) -> Value:
    """Size of ``x`` along the axis, int64 of shape (1,)."""
    return length(b, x, axis) if isinstance(axis, int) else b.op("Gather", b.op("Shape", x), axis)


def _transform_length(op: RuleContext, axis: int | Value, *, halved: bool) -> Value:
    b, given = op.builder, op.optional(1)
    if given is not None:
        if given.constant is not None:
            return b.ints([int(given.constant.item())])
        return b.reshape(b.cast(given, ir.DataType.INT64), [1])
    size = _length(b, op.input, axis)
    if not halved:
        return size
    if size.constant is not None:
        return b.ints([2 * (int(size.constant[0]) - 1)])
    return (size - b.ints([1])) * b.ints([2])


def _transform(b: Builder, x: Value, total: Value, axis: int | Value, *, onesided: bool = False) -> Value:
    """F X of length ``total``."""
    scalar = b.constant(total.constant[0]) if total.constant is not None else b.squeeze(total, [0])
    flag = 1 if onesided else None
    if b.opset < _AXIS_INPUT:
        return b.op("DFT", x, scalar, axis=axis, onesided=flag)
    place = b.constant(axis) if isinstance(axis, int) else b.squeeze(axis, [0])
    return b.op("DFT", x, scalar, place, onesided=flag)


def _conjugate(b: Builder, x: Value) -> Value:
    assert x.dtype is not None, "a cotangent's type is known"
    return x * b.constant(np.array([1, -1]), x.dtype)


def _as_number(b: Builder, total: Value, dtype: ir.DataType) -> Value:
    return b.cast(total, dtype) if total.constant is None else b.constant(total.constant, dtype)


def _half_weights(b: Builder, dy: Value, total: Value, axis: int | Value) -> Value:
    """How often each frequency from 0 to L / 2 counts, divided by L, along the axis."""
    assert dy.dtype is not None, "a cotangent's type is known"
    zero, one, two = b.ints([0]), b.ints([1]), b.ints([2])
    number = count_up(b, total / two + one)
    alone = b.op("Or", number.equals(zero), (number * two).equals(total))
    counts = b.cast(b.where(alone, one, two), dy.dtype) / _as_number(b, total, dy.dtype)
    if isinstance(axis, int) and dy.rank is not None:
        return b.reshape(counts, [-1, *[1] * (dy.rank - 1 - axis)])
    place = b.ints([axis]) if isinstance(axis, int) else axis
    ones = b.op("ConstantOfShape", b.op("Shape", b.op("Shape", dy)), value=ir.tensor(np.array([1])))
    behind = b.op("ScatterElements", ones, b.op("Mod", place, b.op("Size", b.op("Shape", dy))), b.ints([-1]))
    return b.op("Reshape", counts, behind)


def _of_length(b: Builder, dx: Value, x: Value, axis: int | Value) -> Value:
    """``dx`` cut off, or continued with zeros, along the axis, to the size that ``x`` has there."""
    have, want = _length(b, dx, axis), _length(b, x, axis)
    axes = b.ints([axis]) if isinstance(axis, int) else axis
    if have.constant is not None and want.constant is not None:
        surplus = int(have.constant[0] - want.constant[0])
        if surplus == 0:
            return dx
        if surplus > 0:
            return b.op("Slice", dx, b.ints([0]), want, axes)
    if isinstance(axis, int):
        return pad_axes(b, dx, {axis: (b.ints([0]), want - have)})
    return b.op("Pad", dx, b.concat([b.ints([0]), want - have], axis=0), None, axes)


def _parts_of(b: Builder, dx: Value, x: Value) -> Value:
    """Both parts, or the real one alone where ``x`` is real."""
    parts = x.dim(-1)
    if parts == dx.dim(-1) and isinstance(parts, int):
        return dx
    return b.op("Slice", dx, b.ints([0]), length(b, x, -1), b.ints([-1]))


@rule("STFT", attributes=("onesided",), not_differentiable=(1, 3))
def stft(op: RuleContext, dy: Value) -> list[Value | None]:
    """Y[b, t] = F (w X[b, t s : t s + L]); with U = F* dY, dX = w U added frame by frame, dw = sum of X U.

    X is (B, n, 1 or 2), w the window (ones where it is left out) of length L, and s the frame step.

    Source: https://onnx.ai/onnx/operators/onnx__STFT.html.
    """
    b, x, window = op.builder, op.input, op.optional(2)
    total, frames = _frame_length(op), length(b, op.output, 1)
    places = _frame_places(op, total, frames)
    inner = _conjugate(b, _transform(b, _conjugate(b, dy), total, 2))
    inner = _parts_of(b, inner, x)
    column = None if window is None else b.unsqueeze(window, [1])
    dx = dwindow = None
    if op.wants(0):
        spread = inner if column is None else inner * column
        shape = b.concat([length(b, x, 0), b.ints([-1]), length(b, x, 2)], axis=0)
        flat = b.reshape(places, [-1])
        dx = scatter_along(
            b, b.assume_shape(b.op("Reshape", spread, shape), (None,) * 3), 1, flat, b.shape_of(x)
        )
    if op.wants(2):
        dwindow = b.reduce_sum(b.op("Gather", x, places, axis=1) * inner, [0, 1, 3])
    return [dx, None, dwindow, None][: len(op.inputs)]


def _frame_length(op: RuleContext) -> Value:
    """L, int64 of shape (1,)."""
    b, given, window = op.builder, op.optional(3), op.optional(2)
    if given is not None and given.constant is not None:
        return b.ints([int(given.constant.item())])
    if window is not None:
        return length(b, window, 0)
    if given is not None:
        return b.reshape(b.cast(given, ir.DataType.INT64), [1])
    return length(b, op.input, 1)


def _frame_places(op: RuleContext, total: Value, frames: Value) -> Value:
    """Places of the elements of all frames along the signal: (frames, L)."""
    b, step = op.builder, op.required(1)
    if total.constant is not None and frames.constant is not None and step.constant is not None:
        starts = np.arange(int(frames.constant[0]))[:, None] * int(step.constant.item())
        return b.constant((starts + np.arange(int(total.constant[0]))).astype(np.int64))
    first = count_up(b, frames) * b.reshape(b.cast(step, ir.DataType.INT64), [1])
    return b.reshape(first, [-1, 1]) + count_up(b, total)
