"""Lookups in tables from which rows were left out."""

from __future__ import annotations

import numpy as np

from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs


@runs("SparseLengthsSumSparseLookup")
def _sparse_lookup(call: Call) -> None:
    """Indices of a whole table as those of the table that is left; the third input says which, -1: none.

    Indices of rows that were left out go, with their weights (the fourth input), and lengths are less.
    """
    indices, lengths, left = call.array(0), call.array(1), call.array(2)
    if lengths.sum() != len(indices):
        raise call.error(f"the lengths add up to {lengths.sum()}, and there are {len(indices)} indices")
    if len(indices) and not (indices.min() >= 0 and indices.max() < len(left)):
        raise call.error(f"the indices lie in {indices.min()}..{indices.max()}, of {len(left)} rows")
    places = left[indices]
    stays = places >= 0
    before = np.concatenate([[0], np.cumsum(stays)])
    ends = np.cumsum(lengths)
    call.write(0, places[stays].astype(indices.dtype))
    call.write(1, (before[ends] - before[ends - lengths]).astype(lengths.dtype))
    if len(call.definition.input) > 3:
        call.write(2, call.array(3)[stays])
