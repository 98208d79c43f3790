"""Learning-rate schedules: functions from the number of steps done to the learning rate of the next step.

The learning rate is an input of the training step, so a schedule is any Python function; these are the
usual ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from netgrad.core.errors import InvalidArgumentError

Schedule: TypeAlias = Callable[[int], float]
"""From the number of steps done, 0 before the first, to a learning rate."""


def constant(rate: float) -> Schedule:
    """The same ``rate`` at every step."""
    return lambda step: rate


def cosine(rate: float, steps: int, *, final: float = 0.0) -> Schedule:
    """From ``rate`` down to ``final`` along half a cosine, then ``final`` (Loshchilov and Hutter 2017).

    ``final + (rate - final) * (1 + cos(pi * step / steps)) / 2``, arXiv:1608.03983 without restarts.

    Args:
        rate: The first learning rate.
        steps: Number of steps until ``final`` is reached.
        final: The last learning rate.

    Raises:
        InvalidArgumentError: ``steps`` is below 1.
    """
    _at_least_one("steps", steps)
    return lambda step: final + (rate - final) * (1 + math.cos(math.pi * min(step / steps, 1.0))) / 2


def step_decay(rate: float, every: int, *, factor: float = 0.1) -> Schedule:
    """``rate`` times ``factor`` to the power of how often ``every`` steps have passed.

    Raises:
        InvalidArgumentError: ``every`` is below 1.
    """
    _at_least_one("every", every)
    return lambda step: rate * factor ** (step // every)


def warmup(steps: int, schedule: Schedule | float) -> Schedule:
    """A linear rise to the first rate of ``schedule`` within ``steps`` steps, and ``schedule`` from there.

    Step k of the rise, from 0, has ``(k + 1) / steps`` of that rate; the schedule begins with its step 0.

    Raises:
        InvalidArgumentError: ``steps`` is below 1.
    """
    _at_least_one("steps", steps)
    after = schedule if callable(schedule) else constant(float(schedule))
    return lambda step: after(0) * (step + 1) / steps if step < steps else after(step - steps)


def _at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise InvalidArgumentError(f"`{name}` is {value}; it is at least 1")
