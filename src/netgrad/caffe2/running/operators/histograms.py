"""Histograms: that grow from run to run, over given bins, and over bins that they make themselves."""

from __future__ import annotations

import numpy as np

from netgrad.caffe2.running.blob import Array
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs


@runs("AccumulateHistogram")
def _accumulate_histogram(call: Call) -> None:
    """Counts of this run, and of all runs of the net: below the range, in equal buckets of it, and above."""
    name, values = call.definition.input[0], call.array(0).reshape(-1)
    buckets = call.argument("num_buckets", 1)
    lower, upper = float(call.argument("lower_bound", 0.0)), float(call.argument("upper_bound", 1.0))
    if buckets < 1 or not lower < upper:
        raise call.error(f"it needs a bucket and a range, and has {buckets} from {lower} to {upper}")
    if values.dtype not in (np.float32, np.float64):
        raise call.error(f"it counts floating-point numbers, and '{name}' is {values.dtype}")
    if np.isnan(values).any():
        raise call.error(f"'{name}' has elements that are no numbers (NaN), which no bucket is for")
    steps = (np.clip(values, lower, upper) - lower) / ((upper - lower) / buckets)
    inside = np.minimum(steps.astype(np.int64) + 1, buckets)
    places = np.where(values < lower, 0, np.where(values >= upper, buckets + 1, inside))
    counts = np.bincount(places, minlength=buckets + 2).astype(np.int64)
    call.memory["counts"] = call.memory.get("counts", 0) + counts
    call.write(0, counts)
    call.write(1, call.memory["counts"])


@runs("Histogram")
def _histogram(call: Call) -> None:
    """How many elements of all inputs lie in each bin, which has its lower edge in it; others don't count."""
    edges = np.asarray(call.argument("bin_edges", ()), np.float32).reshape(-1)
    if edges.size < 2:
        raise call.error("Number of bin edges must be greater than or equal to 2")
    if (np.diff(edges) <= 0).any():
        raise call.error("bin_edges must be a strictly increasing sequence of values")
    values = _values(call)
    places = np.searchsorted(edges.astype(values.dtype), values, side="right")
    counts = np.bincount(places[~np.isnan(values)], minlength=edges.size + 1)
    call.write(0, counts[1 : edges.size].astype(np.int64))


@runs("SelfBinningHistogram")
def _self_binning_histogram(call: Call) -> None:
    """Bins between the smallest and largest element of all inputs: their edges, and counts from each edge on.

    Above the last edge, a ten-thousandth of the range behind the largest element, there is nothing. Edges are
    at equal distances, or with ``bin_spacing`` logarithmic in equal proportions, from ``logspacing_start`` on
    if elements are smaller than that.
    """
    bins, spacing = call.argument("num_bins", 0), call.argument("bin_spacing", "linear")
    start = call.argument("logspacing_start", 1e-24)
    if bins < 1:
        raise call.error(f"Number of bins must be greater than or equal to 1, and is {bins}")
    if spacing not in ("linear", "logarithmic"):
        raise call.error("Bin spacing can be one of 'linear' or 'logarithmic'")
    if start <= 0:
        raise call.error("logspacing_start must be greater than 0")
    values = _values(call)
    values = np.abs(values) if call.argument("abs", 0) else values
    edges, counts = np.zeros(bins + 1, values.dtype), np.zeros(bins + 1, np.int64)
    if values.size:
        low, high = values.min(), values.max()
        if spacing == "logarithmic":
            low, high = (np.maximum(bound, values.dtype.type(start)) for bound in (low, high))
        top = high + (high - low) * values.dtype.type(1e-4)
        share = np.arange(bins + 1, dtype=values.dtype) / values.dtype.type(bins)
        if spacing == "linear":
            edges = low + share * (top - low)
        else:
            edges = low * np.exp((np.log(top) - np.log(low)) * share)
        if edges[-1] <= high:  # all elements are equal, or so near that the edges are
            counts[0] = values.size
        else:
            places = np.maximum(np.searchsorted(edges, values, side="right") - 1, 0)
            counts = np.bincount(places, minlength=bins + 1).astype(np.int64)
    call.write(0, edges)
    call.write(1, counts)


def _values(call: Call) -> Array:
    """The elements of all inputs, float32 or float64."""
    arrays = [call.array(at) for at in range(len(call.definition.input))]
    kinds = {array.dtype for array in arrays}
    if len(kinds) != 1 or not kinds <= {np.dtype(np.float32), np.dtype(np.float64)}:
        raise call.error(
            f"its inputs are all float32 or all float64, and are {', '.join(sorted(map(str, kinds)))}"
        )
    return np.concatenate([array.reshape(-1) for array in arrays])


@runs("Quantile")
def _quantile(call: Call) -> None:
    """A value that at least a share of the elements of all inputs are not larger than.

    By halving: from the smallest and largest element until they are as near as ``tol`` says, or exactly the
    share lies below. With ``abs``, which is the default, the sizes of the elements count.
    """
    share, tolerance = call.argument("quantile", -1.0), call.argument("tol", 1e-3)
    if not 0.0 <= share <= 1.0:
        raise call.error(f"argument 'quantile' is {share}, and must lie between 0 and 1")
    if tolerance <= 0:
        raise call.error(f"argument 'tol' is {tolerance}, and must be positive")
    values = _values(call)
    values = np.sort(np.abs(values) if call.argument("abs", 1) else values)
    if not values.size:
        raise call.error("its inputs have no elements")
    low, high = values[0], values[-1]
    wanted = int(np.ceil(values.size * share))

    def count(bound: float) -> int:
        return int(np.searchsorted(values, bound, side="right"))

    if count(low) >= wanted:
        high = low
    while high - low > tolerance * (abs(high) + abs(low)):
        middle = low + (high - low) / 2
        if middle in (low, high):  # there is no number between
            break
        below = count(middle)
        if below == wanted:
            high = middle
            break
        low, high = (low, middle) if below > wanted else (middle, high)
    call.write(0, np.array([high], values.dtype))
