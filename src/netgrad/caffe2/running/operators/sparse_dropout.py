"""Lists of ids of which some are replaced at random."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from netgrad.caffe2.running.blob import Array
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs


@runs("SparseDropoutWithReplacement")
def _of_lists(call: Call) -> None:
    """Whole lists are replaced by one replacement value, each with a probability of ``ratio``."""
    ids, sizes, ratio, value = _given(call)
    ends = np.cumsum([0, *sizes.tolist()])
    drop = call.random().random(len(sizes)) < ratio
    instead = np.array([value], np.int64)
    parts = [instead if gone else ids[a:b] for gone, (a, b) in zip(drop, pairwise(ends), strict=True)]
    call.write(0, np.concatenate([ids[:0], *parts]))
    call.write(1, np.where(drop, 1, sizes).astype(np.int32))


@runs("SparseItemwiseDropoutWithReplacement")
def _of_items(call: Call) -> None:
    """Single ids are replaced, each with a probability of ``ratio``."""
    ids, sizes, ratio, value = _given(call)
    call.write(0, np.where(call.random().random(len(ids)) < ratio, np.int64(value), ids))
    call.write(1, sizes)


def _given(call: Call) -> tuple[Array, Array, float, int]:
    ids, sizes, ratio = call.array(0), call.array(1), call.argument("ratio", 0.0)
    if ids.dtype != np.int64 or ids.ndim != 1 or sizes.ndim != 1:
        raise call.error(f"a vector of int64 and lengths are needed, not {ids.dtype} of {ids.ndim} dims")
    if sizes.sum() != len(ids):
        raise call.error(f"the lengths add up to {sizes.sum()}, and there are {len(ids)} ids")
    if not 0.0 <= ratio <= 1.0:
        raise call.error(f"argument 'ratio' is {ratio}, and must lie between 0 and 1")
    return ids, sizes, ratio, call.argument("replacement_value", 0)
