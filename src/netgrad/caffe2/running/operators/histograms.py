"""Histograms that grow from run to run."""

from __future__ import annotations

import numpy as np

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
