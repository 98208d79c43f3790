"""Updates of some rows of parameters. Each occurrence of a row counts on its own, in order, as in a loop."""

from __future__ import annotations

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.occurrences import Occurrences
from netgrad.caffe2.lowering.optimizers import adam_correction, as_state, root, scalar
from netgrad.caffe2.lowering.registry import lowers
from netgrad.onnx.builder import Value


@lowers("ScatterWeightedSum")
def _scatter_weighted_sum(c: Context, x: Value, weight: Value, indices: Value, *operands: Value) -> Value:
    """Rows of ``x``, scaled once per occurrence, plus weighted rows of the others."""
    at = Occurrences.of(c, indices)
    total = sum(
        (
            at.matrix(rows) * scalar(c, own, x)
            for rows, own in zip(operands[2::2], operands[3::2], strict=True)
        ),
        start=at.matrix(operands[0]) * scalar(c, operands[1], x),
    )
    assert isinstance(total, Value), "a sum of values is one"
    assert x.dtype is not None, "the element type of a blob is known"
    scales = c.b.op("Pow", scalar(c, weight, x), c.b.cast(at.earlier + 1, x.dtype))
    return at.put(x, at.of_rows(x) * scales + at.sums(total))


@lowers("SparseMomentumSGDUpdate")
def _sparse_momentum(
    c: Context, gradient: Value, momentum: Value, rate: Value, parameter: Value, indices: Value
) -> list[Value]:
    """`MomentumSGDUpdate` of the rows that ``indices`` names."""
    mu = c.argument("momentum", 0.0)
    at = Occurrences.of(c, indices)
    before, after = at.gathered(at.of_rows(momentum), at.matrix(gradient) * scalar(c, rate, gradient), mu)
    step = after * (1.0 + mu) - before * mu if c.argument("nesterov", False) else after
    return [at.as_given(step, gradient), at.put(momentum, after), at.add(parameter, -step)]


@lowers("SparseAdagrad")
def _sparse_adagrad(
    c: Context, parameter: Value, history: Value, indices: Value, gradient: Value, rate: Value
) -> list[Value]:
    """`Adagrad` of the rows that ``indices`` names."""
    return _adagrad(c, parameter, history, indices, gradient, rate, by_rows=False)


@lowers("RowWiseSparseAdagrad")
def _row_wise_sparse_adagrad(
    c: Context,
    parameter: Value,
    history: Value,
    indices: Value,
    gradient: Value,
    rate: Value,
    counts: Value | None = None,
) -> list[Value]:
    """`SparseAdagrad` with one history per row, of the mean of g²; counts matter to weight decay alone."""
    return _adagrad(c, parameter, history, indices, gradient, rate, by_rows=True)


def _adagrad(
    c: Context,
    parameter: Value,
    history: Value,
    indices: Value,
    gradient: Value,
    rate: Value,
    *,
    by_rows: bool,
) -> list[Value]:
    if c.argument("weight_decay", 0.0):
        raise c.refused("with a weight decay each occurrence of a row needs the one before: use a workspace")
    at = Occurrences.of(c, indices)
    rows = at.matrix(gradient)
    squares = c.b.reduce_mean(rows * rows, [1], keepdims=True) if by_rows else rows * rows
    history = as_state(c, history, parameter)
    _, after = at.gathered(at.of_rows(history), squares, 1.0)
    divisor = root(c, after) + c.argument("epsilon", 1e-5)
    step = rows * scalar(c, rate, gradient) / divisor
    return [at.add(parameter, step), at.put(history, after)]


@lowers("SparseAdam")
def _sparse_adam(
    c: Context,
    parameter: Value,
    first: Value,
    second: Value,
    indices: Value,
    gradient: Value,
    rate: Value,
    iteration: Value,
) -> list[Value]:
    """`Adam` of the rows that ``indices`` names."""
    return _adam(c, parameter, first, second, indices, gradient, (rate, iteration), by_rows=False)


@lowers("RowWiseSparseAdam")
def _row_wise_sparse_adam(
    c: Context,
    parameter: Value,
    first: Value,
    second: Value,
    indices: Value,
    gradient: Value,
    rate: Value,
    iteration: Value,
) -> list[Value]:
    """`SparseAdam` with one second moment per row, of the mean of g²."""
    return _adam(c, parameter, first, second, indices, gradient, (rate, iteration), by_rows=True)


def _adam(
    c: Context,
    parameter: Value,
    first: Value,
    second: Value,
    indices: Value,
    gradient: Value,
    rate: tuple[Value, Value],
    *,
    by_rows: bool,
) -> list[Value]:
    beta1, beta2 = c.argument("beta1", 0.9), c.argument("beta2", 0.999)
    at = Occurrences.of(c, indices)
    rows = at.matrix(gradient)
    squares = c.b.reduce_mean(rows * rows, [1], keepdims=True) if by_rows else rows * rows
    _, after1 = at.gathered(at.of_rows(first), rows * (1.0 - beta1), beta1)
    _, after2 = at.gathered(at.of_rows(second), squares * (1.0 - beta2), beta2)
    divisor = root(c, after2) + c.argument("epsilon", 1e-5)
    step = after1 / divisor * adam_correction(c, rate[1], parameter)
    if c.argument("enableRAdam", False):
        step = _rectified(c, step, after1, rate[1])
    moved = at.add(parameter, step * scalar(c, rate[0], parameter))
    results = [moved, at.put(first, after1), at.put(second, after2)]
    return [*results, at.as_given(step, gradient)][: c.outputs]


def _rectified(c: Context, step: Value, first: Value, iteration: Value) -> Value:
    """Adam's step rectified for the variance of its rate, or while that is unknown the first moment alone.

    RAdam (Liu et al., arXiv:1908.03265), which takes the variance as known from a length of 5 on.
    """
    b, beta2 = c.b, c.argument("beta2", 0.999)
    time = scalar(c, iteration, step) + 1.0
    power = b.binary("Pow", beta2, time)
    longest = 2.0 / (1.0 - beta2) - 1.0
    length = longest - 2.0 * time * power / (1.0 - power)
    known = length >= 5.0
    safe = b.where(known, length, 5.0)
    scale = longest / ((longest - 4.0) * (longest - 2.0)) if longest >= 5.0 else 0.0
    factor = root(c, (safe - 4.0) * (safe - 2.0) / safe * scale)
    plain = first / (1.0 - b.binary("Pow", c.argument("beta1", 0.9), time))
    return b.where(known, step * factor, plain)
