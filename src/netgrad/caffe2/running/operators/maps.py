"""Maps of integers, made of tensors and taken apart again."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import TensorProto
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs
from netgrad.caffe2.stored import IntegerMap

_TYPES: dict[int, np.dtype[Any]] = {
    TensorProto.INT32: np.dtype(np.int32),
    TensorProto.INT64: np.dtype(np.int64),
}


@runs("CreateMap")
def _create_map(call: Call) -> None:
    """A map without entries; keys and values are int32 where nothing is said."""
    numbers = [call.argument(name, TensorProto.INT32) for name in ("key_dtype", "value_dtype")]
    if not all(number in _TYPES for number in numbers):
        raise call.error(f"keys and values of maps are int32 or int64, not of the types {numbers}")
    call.put(0, IntegerMap(_TYPES[numbers[0]], _TYPES[numbers[1]], {}))


@runs("KeyValueToMap")
def _key_value_to_map(call: Call) -> None:
    """The map of two vectors; of a key that stands twice the first value."""
    keys, values = call.array(0), call.array(1)
    if keys.ndim != 1 or keys.shape != values.shape:
        raise call.error(f"keys and values are vectors of one length, not {keys.shape} and {values.shape}")
    if keys.dtype not in _TYPES.values() or values.dtype not in _TYPES.values():
        raise call.error(f"keys and values of maps are int32 or int64, not {keys.dtype} and {values.dtype}")
    entries: dict[int, int] = {}
    for key, value in zip(keys.tolist(), values.tolist(), strict=True):
        entries.setdefault(key, value)
    call.put(0, IntegerMap(keys.dtype, values.dtype, entries))


@runs("MapToKeyValue")
def _map_to_key_value(call: Call) -> None:
    """The keys of a map and their values, in the order in which they came."""
    found = call.value(0)
    if not isinstance(found, IntegerMap):
        raise call.error(f"input '{call.definition.input[0]}' is no map")
    call.write(0, np.array(list(found.entries), found.key_dtype))
    call.write(1, np.array(list(found.entries.values()), found.value_dtype))
