"""Iteration numbers and learning rates."""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.onnx.builder import Value

_LONG = 1e7  # iterations of a warm-up whose length isn't given


@lowers("Iter")
def _iter(c: Context, iteration: Value) -> Value:
    return iteration + 1


class _Policy:
    """A learning rate policy: its arguments, which a composite policy prefixes, and the iteration.

    Attributes:
        c: The operator.
        iteration: The iteration, a float64 scalar.
    """

    def __init__(self, c: Context, iteration: Value, prefix: str = "") -> None:
        self.c = c
        self.iteration = iteration
        self._prefix = prefix

    def number(self, name: str, default: float | None = None) -> float:
        """The value of an argument, which must be there unless there is a default."""
        name = self._prefix + name
        if not self.c.has(name):
            if default is None:
                raise self.c.refused(f"argument '{name}' of the learning rate policy is missing")
            return default
        value = self.c.single(name)
        if isinstance(value, bytes):
            raise self.c.refused(f"argument '{name}' is no number")
        return float(value)

    def period(self, name: str, default: float | None = None) -> float:
        """The value of an argument that must be positive."""
        value = self.number(name, default)
        if value <= 0:
            raise self.c.refused(f"argument '{self._prefix}{name}' is {value}, and must be positive")
        return value

    def floor(self, x: Value) -> Value:
        """Rounded down."""
        return self.c.b.op("Floor", x)

    def power(self, base: Value | float, exponent: Value | float) -> Value:
        """A power, of which one part may be a number."""
        return self.c.b.binary("Pow", base, exponent)


def _constant(p: _Policy, value: float) -> Value:
    return p.c.b.scalar(value, p.iteration)


def _fixed(p: _Policy) -> Value:
    return _constant(p, 1.0)


def _step(p: _Policy) -> Value:
    """Write gamma ^ floor(iter / stepsize)."""
    return p.power(p.number("gamma"), p.floor(p.iteration / p.period("stepsize")))


def _exp(p: _Policy) -> Value:
    """Write gamma ^ iter."""
    return p.power(p.number("gamma"), p.iteration)


def _inverse(p: _Policy, iteration: Value) -> Value:
    return p.power(iteration * p.number("gamma") + 1.0, -p.number("power"))


def _inv(p: _Policy) -> Value:
    """(1 + gamma iter) ^ -power."""
    return _inverse(p, p.iteration)


def _poly(p: _Policy) -> Value:
    """(1 - iter / max_iter) ^ power."""
    return p.power(1.0 - p.iteration / p.period("max_iter"), p.number("power"))


def _alter(p: _Policy) -> Value:
    """1 and 0 in turn."""
    active, inactive = p.number("active_period"), p.number("inactive_period")
    first, second = (active, inactive) if p.number("active_first", 1.0) else (inactive, active)
    place = p.iteration - p.floor(p.iteration / (first + second)) * (first + second)
    values = (1.0, 0.0) if p.number("active_first", 1.0) else (0.0, 1.0)
    return p.c.b.where(place < first, _constant(p, values[0]), values[1])


def _warm(p: _Policy) -> Value:
    start = p.number("start_multiplier", 0.0)
    return p.iteration * ((1.0 - start) / p.period("num_iter")) + start


def _linear_warmup(p: _Policy) -> Value:
    """From start_multiplier to 1 in num_iter iterations."""
    return p.c.b.where(p.iteration >= p.number("num_iter"), _constant(p, 1.0), _warm(p))


def _constant_warmup(p: _Policy) -> Value:
    """A multiplier for num_iter iterations, then 1."""
    started = p.iteration >= p.number("num_iter")
    return p.c.b.where(started, _constant(p, 1.0), p.number("multiplier", 0.5))


def _pieces(p: _Policy) -> Value:
    """One of m1 before n1 iterations, m2 before n2, then m3."""
    first, second, third = (p.number(name, 0.5) for name in ("m1", "m2", "m3"))
    later = p.c.b.where(p.iteration < p.number("n2", 0.0), _constant(p, second), third)
    return p.c.b.where(p.iteration < p.number("n1", 0.0), _constant(p, first), later)


def _constant_then_linear(p: _Policy) -> Value:
    """start_warmup_multiplier, then from it to 1 in a straight line, then 1."""
    start = p.number("start_warmup_multiplier", 0.1)
    constant = p.number("constant_warmup_num_iter", _LONG)
    linear = p.period("linear_warmup_num_iter", _LONG)
    line = (p.iteration - constant) * ((1.0 - start) / linear) + start
    later = p.c.b.where(p.iteration >= constant + linear, _constant(p, 1.0), line)
    return p.c.b.where(p.iteration < constant, _constant(p, start), later)


def _hill(p: _Policy) -> Value:
    """A linear warm-up, then inv from there on, at least end_multiplier."""
    falling = _inverse(p, p.iteration - p.number("num_iter"))
    low = _constant(p, p.number("end_multiplier", 0.0))
    return p.c.b.where(p.iteration < p.number("num_iter"), _warm(p), p.c.b.op("Max", low, falling))


def _gate(p: _Policy) -> Value:
    """multiplier_1 for num_iter iterations, then multiplier_2."""
    first, second = p.number("multiplier_1", 1.0), p.number("multiplier_2", 1.0)
    return p.c.b.where(p.iteration < p.number("num_iter"), _constant(p, first), second)


def _slope(p: _Policy) -> Value:
    """multiplier_1 up to num_iter_1, multiplier_2 from num_iter_2 on, and a straight line in between."""
    first, second = p.number("multiplier_1"), p.number("multiplier_2")
    start, end = p.number("num_iter_1"), p.number("num_iter_2")
    if end <= start:
        raise p.c.refused(f"num_iter_2 is {end}, and must be more than num_iter_1, {start}")
    line = (p.iteration - start) * ((second - first) / (end - start)) + first
    falling = p.c.b.op("Max", _constant(p, second), line)
    return p.c.b.where(p.iteration < start, _constant(p, first), falling)


def _cyclic_from(p: _Policy, iteration: Value, highest: float, size: float, decay: float) -> Value:
    """Up from base_lr to ``highest`` and down in 2 ``size`` steps, with a peak that decays cycle by cycle."""
    ratio = abs(highest) / abs(_base(p.c))
    cycle = p.floor(iteration / (2.0 * size))
    x = p.c.b.op("Abs", iteration / size - 2.0 * cycle - 1.0)
    rise = p.c.b.op("Max", _constant(p, 0.0), 1.0 - x)
    return (ratio - 1.0) * rise * p.power(decay, cycle) + 1.0


def _cyclical(p: _Policy) -> Value:
    """See `_cyclic_from`."""
    return _cyclic_from(
        p, p.iteration, p.number("max_lr", 0.005), p.period("stepsize"), p.number("decay", 1.0)
    )


def _cosine_from(p: _Policy, iteration: Value, prefix: str) -> Value:
    """From max_lr to min_lr along half a cosine, again and again; periods grow and rates shrink each time."""
    highest, lowest = p.number(f"{prefix}max_lr", 0.5), p.number(f"{prefix}min_lr", 0.1)
    period, growth = p.period(f"{prefix}period", 50.0), p.number(f"{prefix}t_mult", 1.0)
    if growth == 1.0:
        count = p.floor(iteration / period)
        length: Value | float = period
        place = iteration - count * period
    else:
        count = p.floor(p.c.b.op("Log", 1.0 - iteration * ((1.0 - growth) / period)) / math.log(growth))
        grown = p.power(growth, count)
        length = grown * period
        place = iteration - (1.0 - grown) * (period / (1.0 - growth))
    # there is no kernel for the cosine of float64
    angle = p.c.b.cast(place / length * math.pi, ir.DataType.FLOAT)
    wave = p.c.b.cast(p.c.b.op("Cos", angle), ir.DataType.DOUBLE)
    shrink = p.power(p.number(f"{prefix}lr_shrink", 0.99), count)
    return shrink * (lowest + 0.5 * (highest - lowest) * (wave + 1.0))


def _cosine(p: _Policy) -> Value:
    """See `_cosine_from`; as every multiplier, it scales base_lr."""
    return _cosine_from(p, p.iteration, "")


def _after_warmup(p: _Policy, later: Callable[[Value], Value]) -> Value:
    """A constant, a straight line, then what ``later`` gives of the iterations since."""
    warm = p.number("constant_warmup_num_iter", _LONG) + p.number("linear_warmup_num_iter", _LONG)
    # what is not chosen is computed all the same, and must not fail before its start
    since = p.c.b.op("Max", _constant(p, 0.0), p.iteration - warm)
    return p.c.b.where(p.iteration < warm, _constant_then_linear(p), later(since))


def _composite_cyclical(p: _Policy) -> Value:
    """A warm-up, then `_cyclic_from`."""
    highest, size = p.number("cyclical_max_lr", 0.05), p.period("cyclical_step_size", 1e6)
    decay = p.number("cyclical_decay", 1.0)
    return _after_warmup(p, lambda since: _cyclic_from(p, since, highest, size, decay))


def _composite_cosine(p: _Policy) -> Value:
    """A warm-up, then `_cosine_from`."""
    return _after_warmup(p, lambda since: _cosine_from(p, since, "cosine_"))


def _composite(p: _Policy) -> Value:
    """Policies one after the other, each for a number of iterations from 1 on; the last one stays."""
    counts = p.c.numbers("sub_policy_num_iters")
    if not counts:
        raise p.c.refused("a composite learning rate needs the argument sub_policy_num_iters")
    rate: Value | None = None
    start = 1
    for index, count in enumerate(counts):
        prefix = f"sub_policy_{index}_"
        name = p.c.argument(f"{prefix}policy", "")
        if name not in _POLICIES or name == "composite":
            raise p.c.refused(f"'{name}' is no policy within a composite learning rate")
        own = _Policy(p.c, p.iteration, prefix)
        found = _POLICIES[name](own) * own.number("lr_scale", 1.0)
        rate = found if rate is None else p.c.b.where(p.iteration >= float(start), found, rate)
        start += int(count)
    assert rate is not None, "there is at least one policy"
    return rate


_POLICIES: dict[str, Callable[[_Policy], Value]] = {
    "fixed": _fixed,
    "step": _step,
    "exp": _exp,
    "inv": _inv,
    "poly": _poly,
    "alter": _alter,
    "linearWarmup": _linear_warmup,
    "constantWarmup": _constant_warmup,
    "constantThenLinearWarmup": _constant_then_linear,
    "hill": _hill,
    "gate": _gate,
    "slope": _slope,
    "pieceWarmup": _pieces,
    "cyclical": _cyclical,
    "cyclic": _cyclical,  # what the original's own documentation calls it
    "cosine": _cosine,
    "compositeCyclical": _composite_cyclical,
    "compositeCosine": _composite_cosine,
    "composite": _composite,
}


def _base(c: Context) -> float:
    if not c.has("base_lr"):
        raise c.refused("the argument 'base_lr' is missing")
    return float(c.single("base_lr"))


@lowers("LearningRate")
def _learning_rate(c: Context, iteration: Value) -> Value:
    """``base_lr`` times the policy's multiplier, a float32 scalar; computed in float64."""
    policy = c.argument("policy", "")
    if policy not in _POLICIES:
        raise c.refused(f"there is no learning rate policy '{policy}' (policies: {', '.join(_POLICIES)})")
    number = c.b.cast(c.b.reshape(iteration, []), ir.DataType.DOUBLE)
    own = _Policy(c, number)
    scale = _base(c) * (own.number("lr_scale", 1.0) if policy != "composite" else 1.0)
    return c.b.cast(_POLICIES[policy](own) * scale, ir.DataType.FLOAT)
