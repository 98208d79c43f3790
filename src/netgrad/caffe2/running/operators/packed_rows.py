"""Tables whose rows are quantized to a few bits, several numbers in a byte, rounded at random.

A row has its bits per number, how many numbers the last bytes lack, its smallest and largest element, and
then bytes: of n bytes the k-th holds the numbers k, k + n, k + 2n, ..., the first one in the lowest bits.
"""

from __future__ import annotations

import numpy as np

from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs

_BITS = (1, 2, 4, 8)
_HEAD = 10
_TINY = 1e-8


@runs("FloatToFusedRandRowwiseQuantized")
def _pack(call: Call) -> None:
    x, bits = call.array(0), call.argument("bitwidth", 8)
    if x.ndim != 2 or x.dtype != np.float32 or not x.size:
        raise call.error(f"a matrix of float32 is needed, not {x.dtype} of shape {list(x.shape)}")
    if bits not in _BITS:
        raise call.error(f"argument 'bitwidth' is {bits}, and must be 1, 2, 4 or 8")
    in_byte = 8 // bits
    count = -(-x.shape[1] // in_byte)
    lacking = count * in_byte - x.shape[1]
    low, high = x.min(1, keepdims=True), x.max(1, keepdims=True)
    steps = (x - low) / ((high - low) / np.float32(2**bits - 1) + np.float32(_TINY))
    rounding = call.random().random(x.shape) if call.argument("random", 1) else 0.5
    numbers = np.minimum(np.floor(steps + rounding), 2**bits - 1).astype(np.uint8)
    parts = np.pad(numbers, ((0, 0), (0, lacking))).reshape(len(x), in_byte, count)
    packed = np.zeros((len(x), count), np.uint8)
    for place in range(in_byte):
        packed |= parts[:, place] << np.uint8(place * bits)
    bounds = np.ascontiguousarray(np.concatenate([low, high], 1)).view(np.uint8)
    head = np.tile(np.array([bits, lacking], np.uint8), (len(x), 1))
    call.write(0, np.concatenate([head, bounds, packed], 1))


@runs("FusedRandRowwiseQuantizedToFloat")
def _unpack(call: Call) -> None:
    rows = call.array(0)
    if rows.ndim != 2 or rows.dtype != np.uint8 or not len(rows) or rows.shape[1] <= _HEAD:
        raise call.error(f"packed rows of uint8 are needed, not {rows.dtype} of shape {list(rows.shape)}")
    bits, lacking = int(rows[0, 0]), int(rows[0, 1])
    if bits not in _BITS or lacking >= 8 // bits:
        raise call.error(f"{bits} bits a number and {lacking} numbers that lack are no head of packed rows")
    bounds = np.ascontiguousarray(rows[:, 2:_HEAD]).view(np.float32)
    places = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    numbers = (rows[:, None, _HEAD:] >> places[:, None]) & np.uint8(2**bits - 1)
    numbers = numbers.reshape(len(rows), -1)[:, : (rows.shape[1] - _HEAD) * (8 // bits) - lacking]
    step = (bounds[:, 1:] - bounds[:, :1]) / np.float32(2**bits - 1) + np.float32(_TINY)
    call.write(0, bounds[:, :1] + numbers * step)
