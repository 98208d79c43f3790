"""YellowFin: momentum whose rate and decay are measured (Zhang and Mitliagkas, arXiv:1706.03471)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.optimizers import root, scalar
from netgrad.caffe2.lowering.registry import lowers
from netgrad.onnx.builder import Value

# Places of the running averages in the operator's memory of five numbers.
_NORM, _SQUARE, _LOWEST, _HIGHEST, _DISTANCE = range(5)


@dataclass(frozen=True)
class _Averages:
    """Running averages that start at zero: a' = beta a + (1 - beta) x.

    Attributes:
        beta: How much of the average stays.
        correction: What an average is multiplied by to make up for its start.
    """

    beta: float
    correction: Value

    def next(self, average: Value, x: Value) -> tuple[Value, Value]:
        """The new average, and the same corrected."""
        after = average * self.beta + x * (1.0 - self.beta)
        return after, after * self.correction


@lowers("YellowFin")
def _yellow_fin(
    c: Context,
    parameter: Value,
    momentum: Value,
    rate: Value,
    decay: Value,
    window: Value,
    mean: Value,
    mean_square: Value,
    memory: Value,
    gradient: Value,
    iteration: Value,
) -> list[Value]:
    """A step with the last rate and decay, then the measures, then from the second iteration on both anew."""
    b, epsilon = c.b, c.argument("epsilon", 1e-6)
    time = b.cast(b.reshape(iteration, []), ir.DataType.INT64)
    beta = c.argument("beta", 0.999)
    unbiased = 1.0 / (1.0 - b.binary("Pow", beta, scalar(c, time, gradient)))
    averages = _Averages(beta, unbiased if c.argument("zero_debias", True) else b.scalar(1.0, gradient))
    least = b.scalar(epsilon, gradient)

    mu, r = scalar(c, decay, gradient), scalar(c, rate, gradient)
    moved = mu * momentum + r * gradient
    step = moved * (mu + 1.0) - momentum * mu if c.argument("nesterov", False) else moved

    mean, mean_now = averages.next(mean, gradient)
    mean_square, _ = averages.next(mean_square, gradient * gradient)
    stored = [scalar(c, b.slice(memory, 0, k, k + 1), gradient) for k in range(5)]
    axes = range(c.rank(gradient))
    square = b.op("Max", b.reduce_sum(gradient * gradient, axes), least)
    stored[_SQUARE], square_now = averages.next(stored[_SQUARE], square)
    stored[_NORM], _ = averages.next(stored[_NORM], root(c, square))

    width = c.argument("curv_win_width", 20)
    number = b.constant(np.arange(width))
    place = number.equals(b.op("Mod", time - 1, b.constant(np.int64(width))))
    window = b.where(place, b.op("Log", square), window)
    filled = number < time
    stored[_LOWEST], low = averages.next(
        stored[_LOWEST], b.op("ReduceMin", b.where(filled, window, np.inf), keepdims=0)
    )
    stored[_HIGHEST], high = averages.next(
        stored[_HIGHEST], b.op("ReduceMax", b.where(filled, window, -np.inf), keepdims=0)
    )
    low, high = (b.op("Max", b.op("Exp", x), least) for x in (low, high))
    variance = b.op("Max", square_now - b.reduce_sum(mean_now * mean_now, axes), least)
    stored[_DISTANCE], distance = averages.next(stored[_DISTANCE], stored[_NORM] / stored[_SQUARE])

    new_mu, new_rate = _tuned(c, low, high, variance, distance)
    later = time > 1
    return [
        parameter - step,
        moved,
        b.where(later, averages.next(rate, new_rate)[0], rate),
        b.where(later, averages.next(decay, new_mu)[0], decay),
        window,
        mean,
        mean_square,
        b.concat([b.reshape(x, [1]) for x in stored], 0),
    ]


def _tuned(c: Context, low: Value, high: Value, variance: Value, distance: Value) -> tuple[Value, Value]:
    """The decay and the rate: the root of a cubic, but at least what the range of curvatures asks for."""
    b = c.b
    ratio = root(c, high / low)
    limit = (ratio - 1.0) / (ratio + 1.0)
    p = distance * low * (distance * low) / (variance * 2.0)
    negative = (root(c, p * p + p * p * p * (4.0 / 27.0)) + p) / 2.0
    w = -b.binary("Pow", negative, 1.0 / 3.0)
    y = w - p / 3.0 / w + 1.0
    mu = b.op("Max", y * y, limit * limit)
    gap = 1.0 - root(c, mu)
    return mu, gap * gap / low
