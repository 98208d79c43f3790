"""Reading an image at computed positions: what the gradients of sampling operators share.

A sample at a position between pixels is a weighted sum of the pixels around it, its taps. Along each axis the
weights of the taps are polynomials of the distance from the pixel below; a tap of the image is one tap along
each axis, and its weight the product of theirs. The derivative of a sample by its position takes the slope of
one weight in place of the weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.placing import joined, length, product, scatter_along


@dataclass(frozen=True)
class Kernel:
    """Weights of the taps along one axis.

    Attributes:
        first: The first tap, counted from the pixel at or below the position.
        weights: Coefficients of each tap's weight, (power of the distance, tap).
        rounding: Operator that finds the pixel below a position; Round for the nearest pixel.
    """

    first: int
    weights: np.ndarray
    rounding: str = "Floor"

    @property
    def taps(self) -> int:
        """Number of taps."""
        return int(self.weights.shape[1])


LINEAR = Kernel(0, np.array([[1.0, 0.0], [-1.0, 1.0]]))
NEAREST = Kernel(0, np.array([[1.0]]), "Round")


def cubic(a: float) -> Kernel:
    """Keys' cubic convolution with the parameter ``a``, as polynomials of the distance t from tap 1.

    Source: R. Keys, "Cubic convolution interpolation for digital image processing", 1981, equation 4.
    """
    near = np.array([1.0, 0.0, -(a + 3), a + 2])  # of a distance up to 1
    far = np.array([-4 * a, 8 * a, -5 * a, a])  # of a distance from 1 to 2
    columns = [_substituted(far, 1, 1), near, _substituted(near, 1, -1), _substituted(far, 2, -1)]
    return Kernel(-1, np.stack(columns, axis=1))


def _substituted(polynomial: np.ndarray, constant: float, factor: float) -> np.ndarray:
    """The polynomial of (constant + factor t) as a polynomial of t."""
    result, power = np.zeros(len(polynomial)), np.array([1.0])
    for coefficient in polynomial:
        result[: len(power)] += coefficient * power
        power = np.convolve(power, [constant, factor])
    return result


@dataclass(frozen=True)
class AxisTaps:
    """The taps along one axis, on a last axis of their own.

    Attributes:
        places: Pixels, int64.
        weights: Their weights.
        slopes: Derivatives of the weights by the position.
    """

    places: Value
    weights: Value
    slopes: Value


def axis_taps(
    b: Builder, position: Value, kernel: Kernel, place: Callable[[Value], tuple[Value, Value | None]]
) -> AxisTaps:
    """The taps of positions along one axis.

    Args:
        b: Writes the operators.
        position: Positions in pixels, of any shape.
        kernel: Weights by the distance from the pixel below.
        place: Brings the numbers of pixels, int64, into the image; its second result says which of them
            count, or is None if all do.
    """
    dtype = position.dtype
    assert dtype is not None, "a floating-point input's type is known"
    below = b.op(kernel.rounding, position)
    distance = b.unsqueeze(position - below, [-1])
    numbers = b.unsqueeze(b.cast(below, ir.DataType.INT64), [-1])
    numbers = numbers + b.ints(range(kernel.first, kernel.first + kernel.taps))
    weights, slopes = _polynomial(b, kernel.weights, distance), _slopes(b, kernel.weights, distance)
    places, counts = place(numbers)
    if counts is not None:
        inside = b.cast(counts, dtype)
        weights, slopes = weights * inside, slopes * inside
    return AxisTaps(places, weights, slopes)


def _polynomial(b: Builder, coefficients: np.ndarray, x: Value) -> Value:
    """One polynomial per column of ``coefficients``, along the last axis, which has size 1 in ``x``."""
    result = b.constant(coefficients[-1], x.dtype)
    if len(coefficients) == 1:
        return b.full_like(x, 1.0) * result
    for row in coefficients[-2::-1]:
        result = result * x + b.constant(row, x.dtype)
    return result


def _slopes(b: Builder, coefficients: np.ndarray, x: Value) -> Value:
    """The derivatives of the same polynomials."""
    if len(coefficients) == 1:
        return b.zeros_like(x)
    return _polynomial(b, coefficients[1:] * np.arange(1, len(coefficients))[:, None], x)


def nearest_inside(b: Builder, numbers: Value, size: Value) -> Value:
    """The pixel nearest to each number, along an axis of ``size``, int64 of shape (1,)."""
    last = size - b.ints([1]) if size.constant is None else b.ints([int(size.constant[0]) - 1])
    return b.op("Min", b.op("Max", numbers, b.ints([0])), last)


def zero_outside(b: Builder, numbers: Value, *, size: Value) -> tuple[Value, Value]:
    """How pixels outside of the image count as zero, for `axis_taps`."""
    inside = nearest_inside(b, numbers, size)
    return inside, inside.equals(numbers)


def times(b: Builder, first: Value, second: Value) -> Value:
    """The product of two int64 tensors: a constant where both are."""
    if first.constant is None or second.constant is None:
        return first * second
    return b.constant(first.constant * second.constant)


@dataclass(frozen=True)
class Taps:
    """The taps of the image, on a last axis of their own.

    Attributes:
        places: Numbers of the pixels in row-major order, int64.
        weights: Their weights.
        slopes: Derivatives of the weights by the position, per axis.
    """

    places: Value
    weights: Value
    slopes: tuple[Value, ...]


def image_taps(
    b: Builder, axes: Sequence[AxisTaps], sizes: Sequence[Value], kernel: Kernel, rank: int
) -> Taps:
    """The taps along each axis joined to taps of the image.

    Args:
        b: Writes the operators.
        axes: The taps per axis; their shapes before the last axis broadcast to a shape of ``rank`` axes.
        sizes: Sizes of the image, int64 of shape (1,) each.
        kernel: The kernel of all axes.
        rank: See ``axes``.
    """
    count = len(axes)

    def apart(value: Value, axis: int) -> Value:
        """The last axis at its place among one axis of taps for each axis of the image."""
        return b.unsqueeze(value, [k - count for k in range(count) if k != axis])

    def flat(value: Value) -> Value:
        return b.reshape(value, [*[0] * rank, kernel.taps**count])

    places = apart(axes[0].places, 0)
    for axis in range(1, count):
        places = places * sizes[axis] + apart(axes[axis].places, axis)

    def outer(factors: Sequence[Value]) -> Value:
        result = apart(factors[0], 0)
        for axis in range(1, count):
            result = result * apart(factors[axis], axis)
        return flat(result)

    weights = [taps.weights for taps in axes]
    slopes = [[*weights[:axis], axes[axis].slopes, *weights[axis + 1 :]] for axis in range(count)]
    return Taps(flat(places), outer(weights), tuple(outer(factors) for factors in slopes))


@dataclass(frozen=True)
class Pixels:
    """An image batch X (N, C, D..) as a matrix with a row of C channels per pixel.

    Attributes:
        x: The batch.
        groups: The channels fall into so many groups, each of which is a batch entry of its own.
    """

    x: Value
    groups: int = 1

    @property
    def rank(self) -> int:
        """Number of spatial axes."""
        assert self.x.rank is not None, "the caller knows the rank"
        return self.x.rank - 2

    def sizes(self, b: Builder) -> list[Value]:
        """Size of each spatial axis, int64 of shape (1,)."""
        return [length(b, self.x, 2 + axis) for axis in range(self.rank)]

    def area(self, b: Builder) -> Value:
        """Pixels of one image, int64 of shape (1,)."""
        return product(b, self.x, 2, 2 + self.rank)

    def channels(self, b: Builder) -> Value:
        """Channels of one group, int64 of shape (1,)."""
        size = self.x.dim(1)
        if isinstance(size, int):
            return b.ints([size // self.groups])
        return length(b, self.x, 1) if self.groups == 1 else length(b, self.x, 1) / b.ints([self.groups])

    def batch(self, b: Builder) -> Value:
        """Batch entries times groups, int64 of shape (1,)."""
        size = self.x.dim(0)
        if isinstance(size, int):
            return b.ints([size * self.groups])
        return length(b, self.x, 0) if self.groups == 1 else length(b, self.x, 0) * b.ints([self.groups])

    def rows(self, b: Builder) -> Value:
        """The matrix (N groups pixels, C)."""
        three = joined(b, [self.batch(b), self.channels(b), self.area(b)])
        last = b.transpose(b.op("Reshape", self.x, three, allowzero=1), [0, 2, 1])
        return b.op("Reshape", last, self._matrix(b), allowzero=1)

    def collected(self, b: Builder, updates: Value, places: Value) -> Value:
        """Each row of ``updates`` (.., C) added at the row that ``places`` says; of the shape of X."""
        many = b.op("Reshape", updates, joined(b, [self._count(b, places), self.channels(b)]), allowzero=1)
        matrix = scatter_along(b, many, 0, b.reshape(places, [-1]), self._matrix(b))
        three = joined(b, [self.batch(b), self.area(b), self.channels(b)])
        last = b.transpose(b.op("Reshape", matrix, three, allowzero=1), [0, 2, 1])
        return b.reshape_like(last, self.x)

    def _matrix(self, b: Builder) -> Value:
        rows = times(b, self.batch(b), self.area(b))
        return joined(b, [rows, self.channels(b)])

    def _count(self, b: Builder, places: Value) -> Value:
        static = places.static_shape
        return b.ints([math.prod(static)]) if static is not None else b.reshape(b.op("Size", places), [1])
