"""Features of examples merged into one list of keys and values per example, and the gradients of that.

A feature of an example is a run of values: one for scalars, any number for lists and maps. Merging orders the
runs by example, then by where they come from. The values' gradients are the same runs, taken apart again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netgrad.caffe2.running.blob import Array
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs


@dataclass(frozen=True)
class _Source:
    """Where features come from.

    Attributes:
        counts: How many features each example has.
        keys: The key of each feature.
        sizes: The number of values of each feature.
    """

    counts: Array
    keys: Array
    sizes: Array

    @staticmethod
    def single(present: Array, key: int, sizes: Array | None) -> _Source:
        """One feature that an example has or hasn't, of a size per example."""
        counts = present.reshape(-1).astype(np.int32)
        number = int(counts.sum())
        each = np.ones(number, np.int32) if sizes is None else sizes.reshape(-1)[counts > 0]
        return _Source(counts, np.full(number, key, np.int64), each)

    @staticmethod
    def multi(counts: Array, keys: Array | None, sizes: Array | None) -> _Source:
        """Several features per example."""
        number = int(counts.sum())
        each = np.ones(number, np.int32) if sizes is None else sizes
        return _Source(counts, np.zeros(number, np.int64) if keys is None else keys, each)


@dataclass(frozen=True)
class _Merged:
    """The order of the merged features.

    Attributes:
        counts: How many features each example has.
        features: Source and number of each feature.
        runs: Source, start and end of each run of values.
    """

    counts: Array
    features: list[tuple[int, int]]
    runs: list[tuple[int, int, int]]

    @staticmethod
    def of(sources: Sequence[_Source]) -> _Merged:
        features, runs_ = [], []
        starts = [np.concatenate([[0], np.cumsum(source.sizes)]) for source in sources]
        done = [0] * len(sources)
        for example in range(len(sources[0].counts)):
            for at, source in enumerate(sources):
                for number in range(done[at], done[at] + int(source.counts[example])):
                    features.append((at, number))
                    runs_.append((at, int(starts[at][number]), int(starts[at][number + 1])))
                done[at] += int(source.counts[example])
        counts = np.sum([source.counts for source in sources], axis=0).astype(np.int32)
        return _Merged(counts, features, runs_)

    def values(self, arrays: Sequence[Array]) -> Array:
        """The values of all features; ``arrays`` are those of the sources."""
        parts = [arrays[at][start:end] for at, start, end in self.runs]
        return np.concatenate(parts) if parts else arrays[0][:0]

    def apart(self, merged: Array, totals: Sequence[int]) -> list[Array]:
        """The opposite: an array of ``totals[k]`` values for source k."""
        found: list[Any] = [np.zeros(total, merged.dtype) for total in totals]
        at = 0
        for source, start, end in self.runs:
            found[source][start:end] = merged[at : at + end - start]
            at += end - start
        return found


def _groups(call: Call, size: int, without: int = 0) -> list[list[Array]]:
    """The inputs in groups of ``size``, but for some last ones."""
    count = len(call.definition.input) - without
    if count % size or not count:
        raise call.error(f"its inputs come in groups of {size}, and there are {count}")
    arrays = [call.array(at) for at in range(count)]
    return [arrays[at : at + size] for at in range(0, count, size)]


def _write(call: Call, sources: Sequence[_Source], columns: Sequence[Sequence[Array]], sized: bool) -> None:
    """Write counts, keys, sizes if wanted, and each kind of values."""
    merged = _Merged.of(sources)
    keys = np.array([sources[at].keys[number] for at, number in merged.features], np.int64)
    sizes = np.array([sources[at].sizes[number] for at, number in merged.features], np.int32)
    results = [merged.counts, keys, *([sizes] if sized else []), *(merged.values(one) for one in columns)]
    for at, result in enumerate(results):
        call.write(at, result)


def _keys(call: Call, groups: Sequence[Any]) -> tuple[int, ...]:
    keys: tuple[int, ...] = call.argument("feature_ids", ())
    if len(keys) != len(groups):
        raise call.error(f"there are {len(keys)} feature_ids for {len(groups)} features")
    return keys


@runs("MergeSingleScalarFeatureTensors")
def _single_scalars(call: Call) -> None:
    """Values and presence for each feature; absent values are left out."""
    groups = _groups(call, 2)
    sources = [
        _Source.single(present, key, None)
        for key, (_, present) in zip(_keys(call, groups), groups, strict=True)
    ]
    _write(call, sources, [[values[present.reshape(-1)] for values, present in groups]], sized=False)


@runs("MergeSingleScalarFeatureTensorsGradient")
def _single_scalars_gradient(call: Call) -> None:
    """Zeros, or empty texts, where a value was absent."""
    present = [group[0].reshape(-1) for group in _groups(call, 1, without=1)]
    merged = _Merged.of([_Source.single(one, 0, None) for one in present])
    slopes = call.array(len(present))
    for at, slope in enumerate(merged.apart(slopes, [int(one.sum()) for one in present])):
        absent: Any = b"" if slopes.dtype == object else 0  # values may be texts
        result = np.full(present[at].shape, absent, slopes.dtype)
        result[present[at]] = slope
        call.write(at, result)


def _single(call: Call, size: int) -> None:
    groups = _groups(call, size)
    sources = [
        _Source.single(group[-1], key, group[0])
        for key, group in zip(_keys(call, groups), groups, strict=True)
    ]
    # values of absent features are not there
    columns = [[group[kind] for group in groups] for kind in range(1, size - 1)]
    _write(call, sources, columns, sized=True)


@runs("MergeSingleListFeatureTensors")
def _single_lists(call: Call) -> None:
    """Lengths, values and presence for each feature."""
    _single(call, 3)


@runs("MergeSingleMapFeatureTensors")
def _single_maps(call: Call) -> None:
    """Lengths, keys, values and presence for each feature."""
    _single(call, 4)


@runs("MergeSingleListFeatureTensorsGradient", "MergeSingleMapFeatureTensorsGradient")
def _single_gradient(call: Call) -> None:
    groups = _groups(call, 2, without=1)
    sources = [_Source.single(present, 0, sizes) for sizes, present in groups]
    _write_apart(call, sources, call.array(2 * len(groups)))


def _write_apart(call: Call, sources: Sequence[_Source], slopes: Array) -> None:
    totals = [int(source.sizes.sum()) for source in sources]
    for at, slope in enumerate(_Merged.of(sources).apart(slopes, totals)):
        call.write(at, slope)


@runs("MergeMultiScalarFeatureTensors")
def _multi_scalars(call: Call) -> None:
    """Counts, keys and values for each tensor of features."""
    groups = _groups(call, 3)
    sources = [_Source.multi(counts, keys, None) for counts, keys, _ in groups]
    _write(call, sources, [[group[2] for group in groups]], sized=False)


@runs("MergeMultiScalarFeatureTensorsGradient")
def _multi_scalars_gradient(call: Call) -> None:
    sources = [_Source.multi(group[0], None, None) for group in _groups(call, 1, without=1)]
    _write_apart(call, sources, call.array(len(sources)))


def _multi(call: Call, size: int) -> None:
    groups = _groups(call, size)
    sources = [_Source.multi(*group[:3]) for group in groups]
    columns = [[group[kind] for group in groups] for kind in range(3, size)]
    _write(call, sources, columns, sized=True)


@runs("MergeMultiListFeatureTensors")
def _multi_lists(call: Call) -> None:
    """Counts, keys, lengths and values for each tensor of features."""
    _multi(call, 4)


@runs("MergeMultiMapFeatureTensors")
def _multi_maps(call: Call) -> None:
    """Counts, keys, lengths, map keys and map values for each tensor of features."""
    _multi(call, 5)


@runs("MergeMultiListFeatureTensorsGradient", "MergeMultiMapFeatureTensorsGradient")
def _multi_gradient(call: Call) -> None:
    groups = _groups(call, 2, without=1)
    sources = [_Source.multi(counts, None, sizes) for counts, sizes in groups]
    _write_apart(call, sources, call.array(2 * len(groups)))
