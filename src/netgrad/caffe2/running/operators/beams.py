"""The decoder of connectionist temporal classification by beam search."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from netgrad.caffe2.running.blob import Array
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs

_LEAST = 1e-3  # classes that are less likely at a step are left out

Prefix = tuple[int, ...]


def _decoded(shares: Array, width: int) -> list[tuple[Prefix, float]]:
    """The best sequences of classes with their probabilities, best first, from those of each step.

    A sequence's probability is kept in two parts: of the ways that end in the blank (class 0), and of the
    others. A class that follows itself lengthens the sequence only behind a blank.
    """
    blank: dict[Prefix, float] = {(): 1.0}
    other: dict[Prefix, float] = {}
    best: list[Prefix] = [()]
    for step in shares:
        likely = [int(number) for number in np.flatnonzero(step > _LEAST)]
        next_blank: dict[Prefix, float] = defaultdict(float)
        next_other: dict[Prefix, float] = defaultdict(float)
        for prefix in best:
            own_blank, own_other = blank.get(prefix, 0.0), other.get(prefix, 0.0)
            for number in likely:
                share = float(step[number])
                if number == 0:
                    next_blank[prefix] += share * (own_blank + own_other)
                    continue
                longer = (*prefix, number)
                if prefix and number == prefix[-1]:
                    next_other[longer] += share * own_blank
                    next_other[prefix] += share * own_other
                else:
                    next_other[longer] += share * (own_blank + own_other)
                if longer not in best:  # it was dropped, but may have had a probability
                    next_blank[longer] += float(step[0]) * (blank.get(longer, 0.0) + other.get(longer, 0.0))
                    next_other[longer] += share * other.get(longer, 0.0)
        blank, other = next_blank, next_other
        total = {prefix: blank.get(prefix, 0.0) + other.get(prefix, 0.0) for prefix in [*blank, *other]}
        best = sorted((one for one in total if total[one] > 0), key=lambda one: -total[one])[:width]
    return [(prefix, blank.get(prefix, 0.0) + other.get(prefix, 0.0)) for prefix in best]


@runs("CTCBeamSearchDecoder")
def _beam_search(call: Call) -> None:
    """The ``num_candidates`` best sequences of each sample: their lengths, their classes, and probabilities.

    Probabilities come in the shape (steps, batch, classes); the second input says how many steps count.
    """
    shares = call.array(0)
    steps, batch = shares.shape[:2]
    width, count = call.argument("beam_width", 10), call.argument("num_candidates", 1)
    if not 1 <= count <= width:
        raise call.error(f"num_candidates is {count}, and must lie between 1 and the beam_width, {width}")
    sizes = call.array(1).reshape(-1) if len(call.definition.input) > 1 else np.full(batch, steps)
    if len(sizes) != batch or (batch and sizes.max() > steps):
        raise call.error(f"the lengths {sizes.tolist()} don't fit a batch of {batch} with {steps} steps")
    lengths = np.zeros(batch * count, np.int32)
    chances = np.zeros(batch * count, np.float32)
    values: list[int] = []
    for sample in range(batch):
        found = _decoded(shares[: sizes[sample], sample].astype(np.float64), width)[:count]
        for place, (prefix, chance) in enumerate(found, sample * count):
            lengths[place], chances[place] = len(prefix), chance
            values += prefix
    results = (lengths, np.array(values, np.int32), chances)
    for at in range(len(call.definition.output)):
        call.write(at, results[at])
