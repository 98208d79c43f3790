"""The best path through the classes of a sequence, and scores that agree with it."""

from __future__ import annotations

import numpy as np

from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs


@runs("ViterbiPath")
def _viterbi_path(call: Call) -> None:
    """The classes whose scores and transitions have the largest sum: one for each row; the first of equals.

    Scores are (T, K), and ``transitions[i, j]`` is for class j behind class i.
    """
    scores, transitions = call.array(0), call.array(1)
    if scores.ndim != 2 or not len(scores) or transitions.shape != (scores.shape[1],) * 2:
        raise call.error(f"scores {scores.shape} and transitions {transitions.shape} don't fit")
    best = scores[0]
    before = []
    for row in scores[1:]:
        sums = best[:, None] + transitions
        before.append(sums.argmax(0))
        best = sums.max(0) + row
    path = [int(best.argmax())]
    for places in reversed(before):
        path.append(int(places[path[-1]]))
    call.write(0, np.array(path[::-1], np.int32))


@runs("SwapBestPath")
def _swap_best_path(call: Call) -> None:
    """In each row of scores, the largest one and that of the row's class on a path change places."""
    scores, path = call.array(0), call.array(1).reshape(-1)
    if scores.ndim != 2 or path.shape != (len(scores),):
        raise call.error(f"scores {scores.shape} and the path {path.shape} don't fit")
    found, rows = scores.copy(), np.arange(len(scores))
    largest = scores.argmax(1)
    found[rows, path], found[rows, largest] = scores[rows, largest], scores[rows, path]
    call.write(0, found)
