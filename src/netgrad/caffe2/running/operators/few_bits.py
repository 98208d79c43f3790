"""Tables whose rows are quantized to two or four bits, and lookups in tables from which rows were left out.

A row has its numbers, neighbours in one byte and the first in the lowest bits, then scale and bias as halves.
"""

from __future__ import annotations

import numpy as np

from netgrad.caffe2.running.blob import Array
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.operators.bit_ranges import least_loss_ranges, scaled
from netgrad.caffe2.running.operators.quantized import reduced, unfused
from netgrad.caffe2.running.registry import runs

_BITS = (2, 4)


def _bits(call: Call) -> int:
    return 2 if "2Bit" in call.definition.type else 4


def _quantized(call: Call, multiple: int) -> tuple[Array, Array, Array]:
    """The numbers, scales and biases of rows, both rounded to halves before numbers are told.

    With the engine ``GREEDY`` the range of a row is the one that loses least.
    """
    rows, bits = call.array(0).astype(np.float32), _bits(call)
    if rows.ndim != 2 or not rows.shape[1] or rows.shape[1] % multiple:
        raise call.error(
            f"a matrix is needed whose number of columns is a multiple of {multiple}, not {list(rows.shape)}"
        )
    low, high = rows.min(1, keepdims=True), rows.max(1, keepdims=True)
    if call.definition.engine == "GREEDY":
        low, high = least_loss_ranges(rows, bits)
    numbers, scale, bias = scaled(rows, low, high, bits)
    return numbers.astype(np.uint8), scale, bias


@runs(*(f"{kind}ToFused{bits}BitRowwiseQuantized" for kind in ("Float", "Half") for bits in _BITS))
def _pack(call: Call) -> None:
    bits = _bits(call)
    numbers, scale, bias = _quantized(call, 8 // bits)
    parts = numbers.reshape(len(numbers), numbers.shape[1] * bits // 8, 8 // bits)
    packed = np.zeros(parts.shape[:2], np.uint8)
    for place in range(8 // bits):
        packed |= parts[:, :, place] << np.uint8(place * bits)
    pair = np.concatenate([scale, bias], 1).astype(np.float16)
    call.write(0, np.concatenate([packed, np.ascontiguousarray(pair).view(np.uint8)], 1))


@runs(*(f"{kind}ToFused{bits}BitFakeRowwiseQuantized" for kind in ("Float", "Half") for bits in _BITS))
def _pack_in_bytes(call: Call) -> None:
    """The same numbers in a table of eight bits, with scale and bias as floats."""
    numbers, scale, bias = _quantized(call, 1)
    pair = np.ascontiguousarray(np.concatenate([scale, bias], 1), np.float32).view(np.uint8)
    call.write(0, np.concatenate([numbers, pair], 1))


def _unpacked(rows: Array, bits: int) -> Array:
    places = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    numbers = (rows[:, :-4, None] >> places) & np.uint8(2**bits - 1)
    pair = np.ascontiguousarray(rows[:, -4:]).view(np.float16).astype(np.float32)
    wide = numbers.reshape(len(rows), (rows.shape[1] - 4) * (8 // bits)).astype(np.float32)
    result: Array = wide * pair[:, :1] + pair[:, 1:]
    return result


@runs(*(f"Fused{bits}BitRowwiseQuantizedTo{kind}" for kind in ("Float", "Half") for bits in _BITS))
def _unpack(call: Call) -> None:
    wanted = np.float16 if call.definition.type.endswith("Half") else np.float32
    call.write(0, _unpacked(call.array(0), _bits(call)).astype(wanted))


_KINDS = ("Sum", "Mean", "WeightedSum")


@runs(
    *(f"SparseLengths{kind}Fused{bits}BitRowwise" for kind in _KINDS for bits in _BITS),
    *(f"SparseLengths{kind}{bits}BitRowwiseSparse" for kind in _KINDS for bits in (*_BITS, 8)),
)
def _reduce(call: Call) -> None:
    """Sums or means of segments of rows.

    In the sparse forms a last input tells which row of the table that is left an index means, or -1: none,
    which counts as zeros; if it has one element, no row was left out.
    """
    type_ = call.definition.type
    weighted = "Weighted" in type_
    table, indices = call.array(0), call.array(1 + weighted).reshape(-1)
    there = np.ones(indices.size, bool)
    if type_.endswith("Sparse"):
        left = call.array(3 + weighted)
        if left.size > 1:
            _check(call, indices, left.size)
            indices = left[indices]
            there = indices >= 0
    _check(call, indices[there], len(table))
    found = table[indices[there]]
    values = unfused(found) if "8Bit" in type_ else _unpacked(found, _bits(call))
    rows = np.zeros((indices.size, values.shape[1]), np.float32)
    rows[there] = values
    if weighted:
        rows = rows * call.array(1).reshape(-1, 1)
    call.write(0, reduced(call, rows, call.array(2 + weighted), mean="Mean" in type_))


def _check(call: Call, indices: Array, count: int) -> None:
    if indices.size and not (indices.min() >= 0 and indices.max() < count):
        raise call.error(f"the indices lie in {indices.min()}..{indices.max()}, of {count} rows")
