"""Updates of parameters from dense gradients."""

from __future__ import annotations

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.onnx.builder import Value


def scalar(c: Context, x: Value, like: Value) -> Value:
    """A tensor of one element as a scalar of the element type of ``like``."""
    assert like.dtype is not None, "the element type of a blob is known"
    return c.b.cast(c.b.reshape(x, []), like.dtype)


def as_state(c: Context, x: Value, like: Value) -> Value:
    """What an optimizer keeps, as floats: scripts start some of it with whole zeros."""
    assert like.dtype is not None, "the element type of a blob is known"
    return x if x.is_floating else c.b.cast(x, like.dtype)


def alike(c: Context, gradient: Value, parameter: Value) -> Value:
    """A gradient in the shape of its parameter; it may have its elements in other dims."""
    if c.rank(gradient) == c.rank(parameter):
        return gradient
    return c.b.reshape_like(gradient, parameter)


def root(c: Context, x: Value) -> Value:
    """The square root."""
    return c.b.op("Sqrt", x)


@lowers("MomentumSGD", "MomentumSGDUpdate")
def _momentum_sgd(
    c: Context, gradient: Value, momentum: Value, rate: Value, parameter: Value | None = None
) -> list[Value]:
    """Write m' = mu m + r g; the step is m', or (1 + mu) m' - mu m with ``nesterov``; w' = w - step."""
    if c.definition.type == "MomentumSGDUpdate" and parameter is None:
        raise c.refused("it updates a parameter, its fourth input, which is missing")
    mu, gradient = c.argument("momentum", 0.0), alike(c, gradient, momentum)
    c.same_ranks(momentum, *([] if parameter is None else [parameter]))
    after = momentum * mu + gradient * scalar(c, rate, gradient)
    step = after * (1.0 + mu) - momentum * mu if c.argument("nesterov", False) else after
    return [step, after] if parameter is None else [step, after, parameter - step]


def adam_correction(c: Context, iteration: Value, like: Value) -> Value:
    """What makes up for the start of both moments: sqrt(1 - beta2^t) / (1 - beta1^t), where t = iter + 1."""
    time = scalar(c, iteration, like) + 1.0
    first = 1.0 - c.b.binary("Pow", c.argument("beta1", 0.9), time)
    second = 1.0 - c.b.binary("Pow", c.argument("beta2", 0.999), time)
    return root(c, second) / first


@lowers("Adam")
def _adam(
    c: Context, parameter: Value, first: Value, second: Value, gradient: Value, rate: Value, iteration: Value
) -> list[Value]:
    """Write m' = b1 m + (1 - b1) g; v' = b2 v + (1 - b2) g²; s = c m' / (sqrt(v') + epsilon); w' = w + r s.

    c is `adam_correction`; output 3 is s.
    """
    beta1, beta2 = c.argument("beta1", 0.9), c.argument("beta2", 0.999)
    gradient = alike(c, gradient, parameter)
    c.same_ranks(parameter, first, second)
    first = first * beta1 + gradient * (1.0 - beta1)
    second = second * beta2 + gradient * gradient * (1.0 - beta2)
    step = first / (root(c, second) + c.argument("epsilon", 1e-5))
    step = step * adam_correction(c, iteration, parameter)
    return [parameter + step * scalar(c, rate, parameter), first, second, step][: c.outputs]


@lowers("Adagrad")
def _adagrad(c: Context, parameter: Value, history: Value, gradient: Value, rate: Value) -> list[Value]:
    """Write h' = decay h + g²; w' = w + r g / (sqrt(h') + epsilon). Outputs 3 and 4: rates and steps.

    With ``weight_decay`` g is the gradient plus weight_decay w.
    """
    gradient = alike(c, gradient, parameter)
    c.same_ranks(parameter, history)
    gradient = gradient + parameter * c.argument("weight_decay", 0.0) if c.has("weight_decay") else gradient
    history = as_state(c, history, parameter) * c.argument("decay", 1.0) + gradient * gradient
    rates = scalar(c, rate, gradient) / (root(c, history) + c.argument("epsilon", 1e-5))
    step = rates * gradient
    return [parameter + step, history, rates, step][: c.outputs]


@lowers("RmsProp")
def _rms_prop(c: Context, gradient: Value, squares: Value, momentum: Value, rate: Value) -> list[Value]:
    """Write s' = s + (1 - decay) (g² - s); p' = mu p + r g / sqrt(s' + epsilon), the new gradient."""
    gradient = alike(c, gradient, squares)
    c.same_ranks(squares, momentum)
    squares = squares + (gradient * gradient - squares) * (1.0 - c.argument("decay", 0.9))
    step = scalar(c, rate, gradient) * gradient / root(c, squares + c.argument("epsilon", 1e-5))
    momentum = momentum * c.argument("momentum", 0.0) + step
    return [momentum, squares, momentum]


@lowers("Ftrl")
def _ftrl(
    c: Context, parameter: Value, state: Value, gradient: Value, alpha: Value | None = None
) -> list[Value]:
    """Write n' = n + g²; z' = z + g - (sqrt(n') - sqrt(n)) / alpha w; w' from z' by soft thresholding.

    w' is 0 where ``|z'| <= lambda1``, else
    ``(lambda1 sign(z') - z') / ((beta + sqrt(n')) / alpha + lambda2)``. The last dim of the state holds n, z.
    """
    b = c.b
    size: Value | float = c.argument("alpha", 0.005) if alpha is None else scalar(c, alpha, gradient)
    axis = c.rank(state) - 1
    counts, sums = (b.squeeze(b.slice(state, axis, k, k + 1), [axis]) for k in (0, 1))
    gradient = alike(c, gradient, parameter)
    after = counts + gradient * gradient
    sums = sums + gradient - (root(c, after) - root(c, counts)) / size * parameter
    low = c.argument("lambda1", 0.001)
    numerator = b.op("Sign", sums) * low - sums
    moved = numerator / ((root(c, after) + c.argument("beta", 1.0)) / size + c.argument("lambda2", 0.001))
    updated = b.where(b.op("Abs", sums) > low, moved, 0.0)
    return [updated, b.concat([b.unsqueeze(after, [axis]), b.unsqueeze(sums, [axis])], axis)]


@lowers("Lars")
def _lars(c: Context, parameter: Value, gradient: Value, *limits: Value) -> Value:
    """What a learning rate is multiplied by: trust / (|g| / |w| + decay + offset), or 1 where w is 0.

    In the form of two inputs trust is 1 and decay 0; that of five, with weight decay, trust and largest rate,
    lies between ``lr_min`` and the largest rate.
    """
    if len(limits) not in (0, 3):
        raise c.refused("it has two inputs, or with a weight decay, a trust and a largest rate five")
    axes = range(c.rank(parameter))
    weight = root(c, c.b.reduce_sum(parameter * parameter, axes))
    steepness = root(c, c.b.reduce_sum(gradient * gradient, axes))
    is_zero = weight.equals(0.0)
    divisor = steepness / c.b.where(is_zero, 1.0, weight) + c.argument("offset", 0.5)
    if not limits:
        return c.b.reshape(c.b.where(is_zero, 1.0, 1.0 / divisor), [1])
    decay, trust, highest = (scalar(c, limit, parameter) for limit in limits)
    factor = c.b.where(is_zero, 1.0, trust / (divisor + decay))
    lowest = c.b.scalar(c.argument("lr_min", 0.02), factor)
    return c.b.reshape(c.b.op("Max", c.b.op("Min", factor, highest), lowest), [1])
