"""Updates of parameters from dense gradients, by methods that tune themselves."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.optimizers import alike, root, scalar
from netgrad.caffe2.lowering.registry import lowers
from netgrad.onnx.builder import Value

_TINY = 1e-12  # what norms are at least


def _total(c: Context, x: Value) -> Value:
    """The sum of all elements, a scalar."""
    return c.b.reduce_sum(x, range(c.rank(x)))


def _squares(c: Context, x: Value) -> Value:
    return _total(c, x * x)


@lowers("Adadelta")
def _adadelta(
    c: Context, parameter: Value, squares: Value, steps: Value, gradient: Value, rate: Value
) -> list[Value]:
    """Write h' = d h + (1 - d) g²; s = sqrt(u + e) / sqrt(h' + e) g; w' = w + r s; u' = d u + (1 - d) s²."""
    gradient = alike(c, gradient, parameter)
    c.same_ranks(parameter, squares, steps)
    decay, epsilon = c.argument("decay", 0.95), c.argument("epsilon", 1e-5)
    after = squares * decay + gradient * gradient * (1.0 - decay)
    step = root(c, steps + epsilon) / root(c, after + epsilon) * gradient
    moved = parameter + step * scalar(c, rate, parameter)
    return [moved, after, steps * decay + step * step * (1.0 - decay)]


@lowers("DecayAdagrad")
def _decay_adagrad(
    c: Context, parameter: Value, first: Value, history: Value, gradient: Value, rate: Value, iteration: Value
) -> list[Value]:
    """Write m' = b m + (1 - b) g; h' = h + g²; w' = w + r (m' / c / (sqrt(h') + epsilon) + d w).

    c is 1 - b^t for t = iter + 1, or 1 without ``bias_correction_first``; d is ``weight_decay``.
    """
    gradient = alike(c, gradient, parameter)
    beta = c.argument("beta1", 0.9)
    moved = first * beta + gradient * (1.0 - beta)
    after = history + gradient * gradient
    step = moved / (root(c, after) + c.argument("epsilon", 1e-5))
    if c.argument("bias_correction_first", True):
        step = step / (1.0 - c.b.binary("Pow", beta, scalar(c, iteration, parameter) + 1.0))
    step = step + parameter * c.argument("weight_decay", 0.0)
    return [parameter + step * scalar(c, rate, parameter), moved, after]


@lowers("Wngrad")
def _wngrad(c: Context, parameter: Value, divisor: Value, gradient: Value, rate: Value) -> list[Value]:
    """Write w' = w + r g / (b + epsilon) and b' = b + |g|² / (b + epsilon), for one number b.

    Outputs 2 and 3: the rate r / (b + epsilon), and the step.
    """
    gradient = alike(c, gradient, parameter)
    shifted = divisor + c.argument("epsilon", 1e-5)
    rates = c.b.reshape_like(scalar(c, rate, divisor), divisor) / shifted
    step = scalar(c, rates, gradient) * gradient
    return [parameter + step, divisor + _squares(c, gradient) / shifted, rates, step][: c.outputs]


@lowers("Storm")
def _storm(
    c: Context, parameter: Value, momentum: Value, squares: Value, gradient: Value, rate: Value
) -> list[Value]:
    """Write s' = s + |g|²; r' = r (beta + s')^(-1/3); m' = g + (1 - momentum r'²) (m - g); w' = w + r' m'."""
    gradient = alike(c, gradient, parameter)
    after = squares + _squares(c, gradient)
    size = scalar(c, after, gradient) + c.argument("beta", 0.1)
    own = scalar(c, rate, gradient) * c.b.binary("Pow", size, -1.0 / 3.0)
    kept = 1.0 - own * own * c.argument("momentum", 10.0)
    moved = gradient + kept * (momentum - gradient)
    return [parameter + own * moved, moved, after]


@lowers("GFtrl")
def _gftrl(
    c: Context, parameter: Value, state: Value, gradient: Value, alpha: Value | None = None
) -> list[Value]:
    """`Ftrl` (see `netgrad.caffe2.lowering.optimizers`) with a threshold for whole columns of the weights.

    A column of z of norm at most lambda1 sqrt(rows) gives zeros, and else each of its weights is
    ``z' (lambda1 sqrt(rows) / |z'| - 1) / ((beta + sqrt(n')) / alpha + lambda2)``.
    """
    b = c.b
    size: Value | float = c.argument("alpha", 0.005) if alpha is None else scalar(c, alpha, gradient)
    axis = c.rank(state) - 1
    counts, sums = (b.squeeze(b.slice(state, axis, k, k + 1), [axis]) for k in (0, 1))
    after = counts + gradient * gradient
    sums = sums + gradient - (root(c, after) - root(c, counts)) / size * parameter
    norms = root(c, b.reduce_sum(sums * sums, [0], keepdims=True))
    rows = scalar(c, b.size_along(sums, [0]), sums)
    low = root(c, rows) * c.argument("lambda1", 0.001)
    large = norms > low
    factor = low / b.where(large, norms, 1.0) - 1.0
    divisor = (root(c, after) + c.argument("beta", 1.0)) / size + c.argument("lambda2", 0.001)
    updated = b.where(large, sums * factor / divisor, 0.0)
    return [updated, b.concat([b.unsqueeze(after, [axis]), b.unsqueeze(sums, [axis])], axis)]


@lowers("LearningRateAdaption")
def _learning_rate_adaption(c: Context, rate: Value, gradient: Value, effective: Value) -> Value:
    """The rate less lr_alpha times the product of gradient and effective gradient.

    With ``normalized_lr_adaption`` both are divided by their norms, and the change is relative to the rate.
    """
    alpha = c.argument("lr_alpha", 0.01)
    along = _total(c, gradient * c.b.reshape_like(effective, gradient))
    if not c.argument("normalized_lr_adaption", True):
        return rate - along * alpha
    norms = [
        c.b.op("Max", root(c, _squares(c, x)), c.b.scalar(_TINY, gradient)) for x in (gradient, effective)
    ]
    return rate * (1.0 - along * alpha / (norms[0] * norms[1]))


@lowers("FP16MomentumSGDUpdate", "FP32MomentumSGDUpdate")
def _half_momentum(
    c: Context, gradient: Value, momentum: Value, rate: Value, parameter: Value
) -> list[Value]:
    """`MomentumSGDUpdate` of g + weight_decay w; with ``fp32_update`` halves are computed in float32."""
    b, given = c.b, (gradient, momentum, parameter)
    wide = c.definition.type == "FP16MomentumSGDUpdate" and c.argument("fp32_update", False)
    if wide:
        gradient, momentum, parameter = (b.cast(x, ir.DataType.FLOAT) for x in given)
    mu = c.argument("momentum", 0.0)
    slope = gradient + parameter * c.argument("weight_decay", 0.0)
    after = momentum * mu + slope * scalar(c, rate, slope)
    step = after * (1.0 + mu) - momentum * mu if c.argument("nesterov", False) else after
    results = [step, after, parameter - step]
    if not wide:
        return results
    half = given[0].dtype
    assert half is not None, "the element type of a blob is known"
    return [b.cast(x, half) for x in results]


@lowers("WeightScale")
def _weight_scale(c: Context, weights: Value, iteration: Value) -> Value:
    """The weights, times ``scale`` at every ``stepsize``-th iteration before ``upper_bound_iter``."""
    largest = 2**63 - 1
    number = c.b.cast(c.b.reshape(iteration, []), ir.DataType.INT64) + 1
    every, end = c.argument("stepsize", largest), c.argument("upper_bound_iter", largest)
    turn = c.b.op("Mod", number, c.b.constant(np.int64(every))).equals(0)
    active = c.b.op("And", turn, number < c.b.constant(np.int64(end)))
    return c.b.where(active, weights * c.argument("scale", 1.0), weights)


@lowers("EnsureClipped")
def _ensure_clipped(c: Context, parameter: Value, *slices: Value) -> Value:
    """The parameter between ``min`` and ``max``; with indices (and a gradient) in these rows only."""
    bounds = [
        c.b.scalar(float(c.single(name)), parameter) if c.has(name) else None for name in ("min", "max")
    ]
    clipped = c.b.op("Clip", parameter, *bounds)
    if not slices:
        return clipped
    rows = c.b.reshape(c.b.cast(slices[0], ir.DataType.INT64), [-1])
    count = c.b.reshape(c.b.size_along(parameter, [0]), [])
    numbers = c.b.op("Range", c.b.constant(np.int64(0)), count, c.b.constant(np.int64(1)))
    same = c.b.unsqueeze(numbers, [1]).equals(c.b.unsqueeze(rows, [0]))
    hits = c.b.op("ReduceMax", c.b.cast(same, ir.DataType.INT32), c.b.ints([1]), keepdims=0) > 0
    return c.b.where(c.b.unsqueeze(hits, range(1, c.rank(parameter))), clipped, parameter)
