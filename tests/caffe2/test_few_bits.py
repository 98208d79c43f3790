"""Tables of two and four bits, and lookups in tables from which rows were left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, workspace

X = np.random.default_rng(1).normal(size=(5, 8)).astype(np.float32)
INDICES, LENGTHS = np.array([0, 4, 4], np.int32), np.array([2, 0, 1], np.int32)
WEIGHTS = np.array([1.0, -2.0, 0.5], np.float32)
LEFT = np.array([0, -1, -1, 1, -1, 2, 3, 4], np.int32)  # of eight rows five are left


def _run(type_: str, *inputs: Any, **arguments: Any) -> Any:
    names = [f"x{at}" for at in range(len(inputs))]
    for name, array in zip(names, inputs, strict=True):
        workspace.FeedBlob(name, array)
    workspace.RunOperatorOnce(core.CreateOperator(type_, names, ["y"], **arguments))
    return workspace.FetchBlob("y")


@pytest.mark.parametrize("bits", [2, 4])
def test_rows_come_back_to_half_a_step(bits: int) -> None:
    packed = _run(f"FloatToFused{bits}BitRowwiseQuantized", X)
    assert packed.shape == (5, bits + 4)
    step = (X.max(1) - X.min(1))[:, None] / (2**bits - 1)
    found = _run(f"Fused{bits}BitRowwiseQuantizedToFloat", packed)
    assert (np.abs(found - X) <= 0.5 * step + 4e-3).all()
    half = _run(f"Fused{bits}BitRowwiseQuantizedToHalf", packed)
    np.testing.assert_array_equal(half, found.astype(np.float16))
    in_bytes = _run(f"FloatToFused{bits}BitFakeRowwiseQuantized", X)
    np.testing.assert_allclose(_run("Fused8BitRowwiseQuantizedToFloat", in_bytes), found, rtol=1e-6)


@pytest.mark.parametrize("bits", [2, 4])
def test_rows_in_bytes_have_any_number_of_columns(bits: int) -> None:
    table = _run(f"FloatToFused{bits}BitFakeRowwiseQuantized", X[:, :5])
    assert table.shape == (5, 5 + 8)
    step = (X[:, :5].max(1) - X[:, :5].min(1))[:, None] / (2**bits - 1)
    assert (np.abs(_run("Fused8BitRowwiseQuantizedToFloat", table) - X[:, :5]) <= 0.5 * step + 4e-3).all()


@pytest.mark.parametrize("bits", [2, 4])
def test_a_greedy_range_loses_less(bits: int) -> None:
    """Of rows with one end far out the range becomes narrower, and of others it loses nothing."""
    random = np.random.default_rng(2)
    rows = random.normal(size=(50, 44)).astype(np.float32)
    rows[:25, 0] = 1.1 * rows[:25].max(1)

    def loss(**arguments: Any) -> Any:
        packed = _run(f"FloatToFused{bits}BitRowwiseQuantized", rows, **arguments)
        return np.linalg.norm(_run(f"Fused{bits}BitRowwiseQuantizedToFloat", packed) - rows, axis=1)

    whole, greedy = loss(), loss(engine="GREEDY")
    assert (greedy <= 1.001 * whole).all()
    assert (greedy[:25] < 0.97 * whole[:25]).any()
    levels = np.tile(np.arange(2**bits, dtype=np.float32), (1, 4))
    packed = _run(f"FloatToFused{bits}BitRowwiseQuantized", levels, engine="GREEDY")
    np.testing.assert_array_equal(_run(f"Fused{bits}BitRowwiseQuantizedToFloat", packed), levels)


@pytest.mark.parametrize("bits", [2, 4])
def test_the_first_number_is_in_the_lowest_bits(bits: int) -> None:
    row = np.arange(2**bits, dtype=np.float32)[None]
    packed = _run(f"HalfToFused{bits}BitRowwiseQuantized", row.astype(np.float16))
    numbers = [number for byte in packed[0, :-4].tolist() for number in _numbers(byte, bits)]
    assert numbers == list(range(2**bits))
    np.testing.assert_array_equal(packed[0, -4:].copy().view(np.float16), [1, 0])


def _numbers(byte: int, bits: int) -> list[int]:
    return [byte >> (bits * place) & (2**bits - 1) for place in range(8 // bits)]


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("kind", ["Sum", "Mean", "WeightedSum"])
def test_sums_of_rows(bits: int, kind: str) -> None:
    packed = _run(f"FloatToFused{bits}BitRowwiseQuantized", X)
    rows = _run(f"Fused{bits}BitRowwiseQuantizedToFloat", packed)[INDICES]
    weights = [WEIGHTS] if kind == "WeightedSum" else []
    rows = rows * WEIGHTS[:, None] if weights else rows
    total = np.stack([rows[:2].sum(0), np.zeros(8), rows[2]])
    expected = total / np.array([[2], [1], [1]]) if kind == "Mean" else total
    found = _run(f"SparseLengths{kind}Fused{bits}BitRowwise", packed, *weights, INDICES, LENGTHS)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    whole = np.flatnonzero(LEFT >= 0)[INDICES].astype(np.int32)
    found = _run(f"SparseLengths{kind}{bits}BitRowwiseSparse", packed, *weights, whole, LENGTHS, LEFT)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_rows_that_were_left_out_are_zeros() -> None:
    packed = _run("FloatToFused4BitRowwiseQuantized", X)
    gone, both = np.array([1, 4], np.int32), np.array([2], np.int32)
    found = _run("SparseLengthsSum4BitRowwiseSparse", packed, gone, both, LEFT)
    np.testing.assert_array_equal(found, np.zeros((1, 8)))
    all_there = np.zeros(1, np.int32)
    found = _run("SparseLengthsSum4BitRowwiseSparse", packed, INDICES, LENGTHS, all_there)
    np.testing.assert_array_equal(found, _run("SparseLengthsSumFused4BitRowwise", packed, INDICES, LENGTHS))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(RuntimeError, match="multiple of 2"):
        _run("FloatToFused4BitRowwiseQuantized", X[:, :5])
    packed = _run("FloatToFused4BitRowwiseQuantized", X)
    with pytest.raises(RuntimeError, match="of 5 rows"):
        _run("SparseLengthsSumFused4BitRowwise", packed, INDICES + 1, LENGTHS)
    with pytest.raises(RuntimeError, match="lengths add up to 3, and there are 2"):
        _run("SparseLengthsSumFused4BitRowwise", packed, INDICES[1:], LENGTHS)
