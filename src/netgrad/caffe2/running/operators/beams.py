"""The decoder of connectionist temporal classification by beam search."""

from __future__ import annotations

import numpy as np

from netgrad.caffe2.running.blob import Array
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs

_LEAST = 1e-3  # classes that are less likely at a step are left out

Prefix = tuple[int, ...]
Parts = dict[Prefix, tuple[float, float]]
"""Of each sequence the probability of the ways that end in the blank (class 0), and of the others."""


def _longer(
    prefix: Prefix, own: tuple[float, float], step: Array, before: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Both parts of a sequence with one class more, for each class.

    A class that follows itself lengthens the sequence only behind a blank. ``before`` is what the longer
    sequences had at the step before, where they were dropped.
    """
    reach = np.full(len(step), own[0] + own[1])
    if prefix:
        reach[prefix[-1]] = own[0]
    others = step * (reach + before[1])
    blanks = float(step[0]) * (before[0] + before[1])
    left_out = step <= _LEAST
    left_out[0] = True
    others[left_out] = blanks[left_out] = 0.0
    return blanks, others


def _decoded(shares: Array, width: int) -> list[tuple[Prefix, float]]:
    """The best sequences of classes with their probabilities, best first, from those of each step."""
    best: Parts = {(): (1.0, 0.0)}
    longer_before: dict[Prefix, tuple[Array, Array]] = {}
    for step in shares:
        blank = float(step[0]) if step[0] > _LEAST else 0.0
        own = {}
        for prefix, parts in best.items():
            again = float(step[prefix[-1]]) if prefix and step[prefix[-1]] > _LEAST else 0.0
            own[prefix] = (blank * (parts[0] + parts[1]), again * parts[1])
        longer = {}
        for prefix, parts in best.items():
            zeros = np.zeros(len(step)), np.zeros(len(step))
            longer[prefix] = _longer(prefix, parts, step, longer_before.get(prefix, zeros))
        # a sequence that was kept has one place only, and gathers there what a shorter one becomes
        for prefix in own:
            if prefix and prefix[:-1] in longer:
                blanks, others = longer[prefix[:-1]]
                last = prefix[-1]
                parts = best[prefix[:-1]]
                if step[last] > _LEAST:
                    reach = parts[0] if prefix[-2:-1] == (last,) else parts[0] + parts[1]
                    own[prefix] = (own[prefix][0], own[prefix][1] + float(step[last]) * reach)
                blanks[last] = others[last] = 0.0
        longer_before = longer
        best = _kept(own, longer, width)
        for prefix, parts in own.items():  # what is dropped now may come back from the shorter one
            if prefix and prefix not in best and prefix[:-1] in best:
                places = longer.setdefault(prefix[:-1], (np.zeros(len(step)), np.zeros(len(step))))
                places[0][prefix[-1]], places[1][prefix[-1]] = parts
        for prefix in best:
            if prefix and prefix not in own:
                places = longer[prefix[:-1]]
                places[0][prefix[-1]] = places[1][prefix[-1]] = 0.0
    return [(prefix, sum(parts)) for prefix, parts in best.items()]


def _kept(own: Parts, longer: dict[Prefix, tuple[Array, Array]], width: int) -> Parts:
    """The likeliest sequences, best first: those that stay as they are, and those with one class more."""
    found = [(sum(parts), prefix, parts) for prefix, parts in own.items()]
    for prefix, (blanks, others) in longer.items():
        total = blanks + others
        likely = np.argsort(-total, kind="stable")[:width]
        found += [(float(total[k]), (*prefix, int(k)), (float(blanks[k]), float(others[k]))) for k in likely]
    found.sort(key=lambda one: -one[0])
    return {prefix: parts for chance, prefix, parts in found[:width] if chance > 0}


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
