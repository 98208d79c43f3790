"""Tables whose rows are quantized to eight bits: scale times number plus bias, by row.

The two of a row stand in a table of their own, or behind the row (fused), as floats or as halves.
"""

from __future__ import annotations

import math

import numpy as np

from netgrad.caffe2.running.blob import Array
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs

_TINY = 1e-8


def _quantized(x: Array) -> tuple[Array, Array, Array]:
    """The numbers, scales and biases of rows."""
    rows = _matrix(x).astype(np.float32)
    low = rows.min(1, keepdims=True)
    span = rows.max(1, keepdims=True) - low
    numbers = np.rint((rows - low) * (np.float32(255) / (span + np.float32(_TINY))))
    return numbers.astype(np.uint8), span / np.float32(255), low


def _matrix(x: Array) -> Array:
    return x.reshape(len(x), math.prod(x.shape[1:]))


def _fused(x: Array) -> tuple[Array, Array, Array]:
    """The same of a fused table."""
    parts = np.ascontiguousarray(x[:, -8:]).view(np.float32)
    return x[:, :-8], parts[:, :1], parts[:, 1:]


def _floats(numbers: Array, scale: Array, bias: Array) -> Array:
    return numbers.astype(np.float32) * scale + bias


@runs("FloatToRowwiseQuantized8Bits")
def _quantize(call: Call) -> None:
    """Numbers are told with the scale, and rounded away from 0; those of a fused table with the span."""
    x = call.array(0)
    _, scale, bias = _quantized(x)
    scale = np.where(scale == 0, np.float32(1), scale)
    steps = (_matrix(x) - bias) * (np.float32(1) / scale)
    call.write(0, np.floor(steps + np.float32(0.5)).astype(np.uint8).reshape(x.shape))
    call.write(1, np.concatenate([scale, bias], 1))


@runs("Rowwise8BitQuantizedToFloat")
def _dequantize(call: Call) -> None:
    x, pair = call.array(0), call.array(1)
    call.write(0, _floats(_matrix(x), pair[:, :1], pair[:, 1:]).reshape(x.shape))


@runs("FloatToFused8BitRowwiseQuantized", "HalfFloatToFused8BitRowwiseQuantized")
def _fuse(call: Call) -> None:
    x = call.array(0)
    numbers, scale, bias = _quantized(_by_last(x))
    pair = np.ascontiguousarray(np.concatenate([scale, bias], 1), np.float32).view(np.uint8)
    call.write(0, _with_last(np.concatenate([numbers, pair], 1), x))


@runs("Fused8BitRowwiseQuantizedToFloat", "Fused8BitRowwiseQuantizedToHalfFloat")
def _unfuse(call: Call) -> None:
    x = call.array(0)
    call.write(0, _with_last(_floats(*_fused(_by_last(x))).astype(_wanted(call)), x))


def _by_last(x: Array) -> Array:
    """A matrix whose rows are those along the last axis."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _with_last(rows: Array, like: Array) -> Array:
    """The rows with the dims of ``like`` before its last one."""
    return rows.reshape(*like.shape[:-1], rows.shape[-1])


def _wanted(call: Call) -> type:
    return np.float16 if call.definition.type.endswith("ToHalfFloat") else np.float32


@runs(
    "FloatToFused8BitRowwiseQuantizedHalfScaleBias",
    "HalfFloatToFused8BitRowwiseQuantizedHalfScaleBias",
)
def _fuse_halves(call: Call) -> None:
    """The bias is rounded to a half first, and the scale reaches from there to the largest element."""
    rows = call.array(0).astype(np.float32)
    bias = rows.min(1, keepdims=True).astype(np.float16)
    span = rows.max(1, keepdims=True) - bias.astype(np.float32)
    scale = (span / np.float32(255)).astype(np.float16)
    steps = (rows - bias.astype(np.float32)) / np.where(scale == 0, 1, scale).astype(np.float32)
    numbers = np.clip(np.rint(steps), 0, 255).astype(np.uint8)
    pair = np.ascontiguousarray(np.concatenate([scale, bias], 1)).view(np.uint8)
    call.write(0, np.concatenate([numbers, pair], 1))


@runs(
    "Fused8BitRowwiseQuantizedHalfScaleBiasToFloat",
    "Fused8BitRowwiseQuantizedHalfScaleBiasToHalfFloat",
)
def _unfuse_halves(call: Call) -> None:
    rows = call.array(0)
    pair = np.ascontiguousarray(rows[:, -4:]).view(np.float16).astype(np.float32)
    call.write(0, _floats(rows[:, :-4], pair[:, :1], pair[:, 1:]).astype(_wanted(call)))


@runs("GatherFused8BitRowwise")
def _gather(call: Call) -> None:
    indices = call.array(1)
    rows = _floats(*_fused(call.rows(0, indices.reshape(-1))))
    call.write(0, rows.reshape(*indices.shape, rows.shape[1]))


@runs(
    "SparseLengthsMean8BitsRowwise",
    "SparseLengthsMeanFused8BitRowwise",
    "SparseLengthsSum8BitsRowwise",
    "SparseLengthsSumFused8BitRowwise",
    "SparseLengthsWeightedMean8BitsRowwise",
    "SparseLengthsWeightedSum8BitsRowwise",
    "SparseLengthsWeightedSumFused8BitRowwise",
)
def _reduce(call: Call) -> None:
    """Sums or means of segments of rows, perhaps weighted; a weighted mean is the sum over the length."""
    type_ = call.definition.type
    weighted = "Weighted" in type_
    indices, sizes = call.array(1 + weighted).reshape(-1), call.array(2 + weighted)
    numbers = call.rows(0, indices)
    if "Fused" in type_:
        rows = _floats(*_fused(numbers))
    else:
        pair = call.rows(3 + weighted, indices)
        rows = _floats(numbers.reshape(indices.size, math.prod(numbers.shape[1:])), pair[:, :1], pair[:, 1:])
    if weighted:
        rows = rows * call.array(1).reshape(-1, 1)
    call.write(0, reduced(call, rows, sizes, mean="Mean" in type_))


def reduced(call: Call, rows: Array, sizes: Array, *, mean: bool) -> Array:
    """The sum or mean of each segment of rows; zeros for an empty one."""
    if sizes.sum() != len(rows):
        raise call.error(f"the lengths add up to {sizes.sum()}, and there are {len(rows)} indices")
    sums = np.zeros((len(sizes), rows.shape[1]), np.float32)
    np.add.at(sums, np.repeat(np.arange(len(sizes)), sizes), rows)
    return sums / np.maximum(sizes, 1)[:, None].astype(np.float32) if mean else sums


def unfused(rows: Array) -> Array:
    """The rows of a fused table as floats."""
    return _floats(*_fused(rows))
