"""Percentiles of values by known distributions: a share for some values of each column, lines in between."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from netgrad.caffe2.running.blob import Array
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs


def _parts(call: Call, values: Array, lengths: Sequence[int], total: int) -> list[slice]:
    """The distribution of each column of a matrix."""
    if values.ndim != 2 or values.shape[1] != len(lengths):
        raise call.error(f"there are {len(lengths)} distributions for values of shape {list(values.shape)}")
    if sum(lengths) != total or min(lengths, default=1) < 1:
        raise call.error(f"the lengths {list(lengths)} of distributions don't make up the {total} pairs")
    ends = np.cumsum([0, *lengths])
    return [slice(start, end) for start, end in pairwise(ends.tolist())]


@runs("Percentile")
def _percentile(call: Call) -> None:
    """Values by pairs of value and share, sorted by value; 0 before the first pair, 1 behind the last."""
    values, pairs = call.array(0), call.array(1)
    found = np.empty_like(values)
    parts = _parts(call, values, call.array(2).reshape(-1).tolist(), len(pairs))
    for column, part in enumerate(parts):
        known, shares = pairs[part, 0], pairs[part, 1]
        found[:, column] = np.interp(values[:, column], known, shares, left=0, right=1)
    call.write(0, found)


@runs("BisectPercentile")
def _bisect_percentile(call: Call) -> None:
    """The same for distributions in arguments, which jump at each known value.

    There they have the share ``percentile_mapping``; before it they come up to ``percentile_lower``, and
    behind it they go on from ``percentile_upper``.
    """
    values = call.array(0)
    names = ("percentile_raw", "percentile_mapping", "percentile_lower", "percentile_upper")
    given = [np.asarray(call.argument(name, ()), values.dtype).reshape(-1) for name in names]
    if len({one.size for one in given}) != 1:
        raise call.error(f"{', '.join(names)} have {', '.join(str(one.size) for one in given)} elements")
    lengths = [int(number) for number in np.asarray(call.argument("lengths", ())).reshape(-1)]
    found = np.empty_like(values)
    for column, part in enumerate(_parts(call, values, lengths, given[0].size)):
        own = values[:, column]
        known, shares, lower, upper = (one[part] for one in given)
        at = np.clip(np.searchsorted(known, own), 0, len(known) - 1)
        before = np.maximum(at - 1, 0)
        steps = np.where(at == before, 1, known[at] - known[before])
        between = upper[before] + (lower[at] - upper[before]) / steps * (own - known[before])
        inside = np.where(known[at] == own, shares[at], between)
        found[:, column] = np.where(own < known[0], 0, np.where(own > known[-1], 1, inside))
    call.write(0, found)
