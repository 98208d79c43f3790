"""Rows divided by their keys, and lists of ids, ranges and blocks."""

from __future__ import annotations

import numpy as np

from netgrad.caffe2.running.blob import Array
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs

# ---- by remainders of keys -------------------------------------------------------------------------------


def _shards(call: Call, keys: Array) -> tuple[int, Array]:
    """How many shards there are, and that of each key: the remainder of a division by their number."""
    inputs, outputs = len(call.definition.input), len(call.definition.output)
    if not inputs or outputs % inputs:
        raise call.error(f"its {outputs} outputs are no multiple of its {inputs} inputs")
    return outputs // inputs, keys.reshape(-1) % (outputs // inputs)


def _divide(call: Call, main: int) -> tuple[int, Array]:
    """Write the rows of each input from ``main`` on, shard by shard, and give shards and shard numbers."""
    keys = call.array(main)
    count, owner = _shards(call, keys)
    inputs = len(call.definition.input)
    for at in range(main, inputs):
        array = call.array(at)
        if array.shape[: keys.ndim] != keys.shape:
            raise call.error(f"input '{call.definition.input[at]}' has other rows than the keys")
        rows = array.reshape(keys.size, *array.shape[keys.ndim :])
        for shard in range(count):
            own = rows[owner == shard]
            packed = at == main and call.argument("pack_first_input", 0)
            call.write(at + shard * inputs, own // count if packed else own)
    return count, owner


@runs("Partition")
def _partition(call: Call) -> None:
    """Outputs are those of shard 0, then those of shard 1 ...; with ``pack_first_input`` keys are divided."""
    _divide(call, 0)


@runs("LengthsPartition")
def _lengths_partition(call: Call) -> None:
    """`Partition` by the second input of rows in segments; the first has the lengths of these."""
    count, owner = _divide(call, 1)
    sizes, inputs = call.array(0), len(call.definition.input)
    segments = np.repeat(np.arange(sizes.size), sizes.reshape(-1))
    if segments.size != owner.size:
        raise call.error(f"the lengths add up to {segments.size}, and there are {owner.size} keys")
    for shard in range(count):
        own = np.bincount(segments[owner == shard], minlength=sizes.size).astype(np.int32)
        call.write(shard * inputs, own)


@runs("KeySplit")
def _key_split(call: Call) -> None:
    """For each output, where its number stands in a vector."""
    keys, outputs = call.array(0).reshape(-1), len(call.definition.output)
    if call.argument("categorical_limit", 0) != outputs:
        raise call.error(f"argument 'categorical_limit' is the number of outputs, {outputs}")
    if keys.size and not (keys.min() >= 0 and keys.max() < outputs):
        raise call.error(f"keys lie between {keys.min()} and {keys.max()}, and there are {outputs} outputs")
    for at in range(outputs):
        call.write(at, np.flatnonzero(keys == at).astype(np.int32))


@runs("GatherByKey")
def _gather_by_key(call: Call) -> None:
    """The opposite of ``Partition``: for each key the next row of its shard."""
    keys = call.array(0)
    shards = [call.array(at) for at in range(1, len(call.definition.input))]
    owner = keys.reshape(-1) % len(shards)
    rows = np.zeros((keys.size, *shards[0].shape[1:]), shards[0].dtype)
    for number, shard in enumerate(shards):
        if (owner == number).sum() != len(shard):
            raise call.error(
                f"{(owner == number).sum()} keys are of shard {number}, which has {len(shard)} rows"
            )
        rows[owner == number] = shard
    call.write(0, rows.reshape(*keys.shape, *rows.shape[1:]))


# ---- ids -------------------------------------------------------------------------------------------------


@runs("MergeIdLists")
def _merge_id_lists(call: Call) -> None:
    """For each example the different ids of all lists, ascending; inputs are lengths and ids in turn."""
    lists = [(call.array(at), call.array(at + 1)) for at in range(0, len(call.definition.input), 2)]
    ends = [np.concatenate([[0], np.cumsum(sizes)]) for sizes, _ in lists]
    merged = [
        np.unique(
            np.concatenate([ids[end[k] : end[k + 1]] for (_, ids), end in zip(lists, ends, strict=True)])
        )
        for k in range(len(lists[0][0]))
    ]
    call.write(0, np.array([len(one) for one in merged], np.int32))
    call.write(1, np.concatenate(merged) if merged else lists[0][1][:0])


@runs("FindDuplicateElements")
def _find_duplicates(call: Call) -> None:
    """The places of elements that have come before."""
    array = call.array(0)
    if array.ndim != 1:
        raise call.error("a vector is needed")
    seen: set[object] = set()
    places = []
    for at, element in enumerate(array.tolist()):
        if element in seen:
            places.append(at)
        seen.add(element)
    call.write(0, np.array(places, np.int64))


@runs("IndexHash")
def _index_hash(call: Call) -> None:
    """Each id's bytes, as signed numbers, in a polynomial of 65537 that overflows; the rest by ``modulo``."""
    ids = call.array(0)
    if "modulo" not in {argument.name for argument in call.definition.arg}:
        raise call.error("the argument 'modulo' is missing")
    modulo = call.argument("modulo", 0)
    if modulo <= 0:
        raise call.error(f"the modulo is {modulo}, and must be positive")
    bits = ids.dtype.itemsize * 8
    start = call.argument("seed", 0) * 0xDEADBEEF
    hashed = []
    for parts in ids.reshape(-1, 1).view(np.int8).tolist():
        value = start
        for part in parts:
            value = value * 65537 + part
        value %= 2**bits
        value -= 2**bits if value >= 2 ** (bits - 1) else 0
        hashed.append(value % modulo)
    call.write(0, np.array(hashed, ids.dtype).reshape(ids.shape))


# ---- ranges and blocks -----------------------------------------------------------------------------------


def _ranges(call: Call) -> tuple[Array, Array]:
    data, ranges = call.array(0), call.array(1)
    if ranges.ndim != 3 or ranges.shape[2] != 2:
        raise call.error(f"ranges have a start and a length each, and are of shape {ranges.shape}")
    if ranges.size and (ranges.sum(2).max() > len(data) or ranges.min() < 0):
        raise call.error(f"a range ends behind the data, which are {len(data)}")
    return data, ranges


@runs("GatherRanges")
def _gather_ranges(call: Call) -> None:
    """The data of all ranges, one after the other, and how many each example has."""
    data, ranges = _ranges(call)
    parts = [data[start : start + size] for example in ranges for start, size in example]
    call.write(0, np.concatenate(parts) if parts else data[:0])
    call.write(1, ranges[:, :, 1].sum(1).astype(np.int32))


@runs("GatherRangesToDense")
def _gather_ranges_to_dense(call: Call) -> None:
    """A matrix per range of an example; zeros where a range is empty or not as long as ``lengths`` says.

    With keys, the third input, the data of a range come in the order of their keys. Of all that a net has
    seen, and of ``min_observation`` at least, a share of ``max_mismatched_ratio`` may have another length,
    and one of ``max_empty_ratio`` may be empty.
    """
    data, ranges = _ranges(call)
    sizes = call.argument("lengths", ())
    if len(sizes) != ranges.shape[1] or len(sizes) != len(call.definition.output):
        raise call.error(f"there are {len(sizes)} lengths for {ranges.shape[1]} ranges of an example")
    keys = call.array(2) if len(call.definition.input) > 2 else None
    for number, size in enumerate(sizes):
        dense = np.zeros((len(ranges), size), data.dtype)
        for example, (start, length) in enumerate(ranges[:, number]):
            if length == size:
                part = data[start : start + length]
                order = slice(None) if keys is None else np.argsort(keys[start : start + length])
                dense[example] = part[order]
        call.write(number, dense)
    _count_odd_ranges(call, ranges[:, :, 1], np.array(sizes))


def _count_odd_ranges(call: Call, lengths: Array, sizes: Array) -> None:
    """Add to what the net has seen, and refuse what is too much."""
    seen = call.memory["seen"] = call.memory.get("seen", 0) + len(lengths)
    kinds = {
        "empty": (lengths == 0, call.argument("max_empty_ratio", 1.0)),
        "of another length": (
            (lengths != 0) & (lengths != sizes),
            call.argument("max_mismatched_ratio", 0.01),
        ),
    }
    for kind, (odd, ratio) in kinds.items():
        count = call.memory[kind] = call.memory.get(kind, 0) + odd.sum(0)
        allowed = max(seen, call.argument("min_observation", 10000)) * ratio
        for number in np.flatnonzero(count > allowed):
            times = f"{count[number]} times of {seen}"
            raise call.error(f"range {number} should have {sizes[number]} data; {times} it was {kind}")


@runs("RemoveDataBlocks")
def _remove_data_blocks(call: Call) -> None:
    """The rows but for those that are named."""
    numbers = call.array(1).reshape(-1)
    if (numbers < 0).any():
        raise call.error("the numbers of rows count from the front, and one is negative")
    call.write(0, np.delete(call.array(0), numbers, axis=0))


@runs("PadEmptySamples")
def _pad_empty_samples(call: Call) -> None:
    """A row of zeros for each empty segment."""
    sizes = call.array(0)
    places = np.cumsum(sizes)[sizes == 0]
    call.write(0, np.maximum(sizes, 1))
    for at in range(1, len(call.definition.input)):
        call.write(at, np.insert(call.array(at), places, 0, axis=0))


def _middle(bounds: Array, values: Array) -> Array:
    """Half way between the first and the last place where each value may be put among sorted bounds."""
    ends = np.searchsorted(bounds, values) + np.searchsorted(bounds, values, side="right")
    return np.asarray(ends // 2)


@runs("BatchBucketOneHot")
def _batch_bucket_one_hot(call: Call) -> None:
    """For each column which bucket an element lies in; a bucket has its upper bound in it.

    An element that equals several bounds lies in the middle one of the buckets that they end, or before it.
    """
    x, sizes, bounds = call.array(0), call.array(1), call.array(2)
    parts = np.split(bounds, np.cumsum(sizes)[:-1])
    if len(parts) != x.shape[1] or sum(map(len, parts)) != bounds.size:
        raise call.error(f"{x.shape[1]} columns have bounds of lengths {sizes.tolist()}: {bounds.size}")
    columns = [
        _middle(part, column)[:, None] == np.arange(len(part) + 1)
        for part, column in zip(parts, x.T, strict=True)
    ]
    call.write(0, np.concatenate(columns, 1).astype(np.float32))
