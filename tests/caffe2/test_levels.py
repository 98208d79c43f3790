"""Regions of feature pyramids, points of interest, lookups and packed rows, operators that fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, workspace


def _run(type_: str, inputs: list[Any], outputs: int, **arguments: Any) -> list[Any]:
    for at, array in enumerate(inputs):
        workspace.FeedBlob(f"x{at}", array)
    names = [f"y{at}" for at in range(outputs)]
    read = [f"x{at}" for at in range(len(inputs))]
    workspace.RunOperatorOnce(core.CreateOperator(type_, read, names, **arguments))
    return [workspace.FetchBlob(name) for name in names]


def _f32(*rows: Any) -> Any:
    return np.array(rows, np.float32)


# ---- pyramids ----------------------------------------------------------------------------------------

REGIONS = [_f32([0, 0, 0, 111, 111], [0, 0, 0, 223, 223]), _f32([1, 5, 5, 452, 452], [0, 0, 0, 9, 9])]
SCORES = [_f32(0.1, 0.7), _f32(0.9, 0.3)]
LEVELS = {"rpn_min_level": 2, "rpn_max_level": 3, "rpn_post_nms_topN": 3}


def test_the_best_regions_of_all_levels() -> None:
    (found,) = _run("CollectRpnProposals", [*REGIONS, *SCORES], 1, **LEVELS)
    np.testing.assert_array_equal(found, [REGIONS[1][0], REGIONS[0][1], REGIONS[1][1]])
    with pytest.raises(RuntimeError, match=r"of 2 levels .* and has 2 inputs"):
        _run("CollectRpnProposals", [REGIONS[0], SCORES[0]], 1, **LEVELS)


def test_regions_go_to_the_level_of_their_size() -> None:
    """A region of 224 pixels is of level 4; those of 112, 448 and 10 of levels 3, 5 and 2."""
    rows = np.concatenate(REGIONS)
    *levels, order = _run("DistributeFpnProposals", [rows], 5)
    for found, row in zip(levels, (3, 0, 1, 2), strict=True):
        np.testing.assert_array_equal(found, rows[[row]])
    np.testing.assert_array_equal(np.concatenate(levels)[order], rows)
    with pytest.raises(RuntimeError, match="and has 3 outputs"):
        _run("DistributeFpnProposals", [rows], 3)
    with pytest.raises(RuntimeError, match="have 5 columns"):
        _run("DistributeFpnProposals", [rows[:, :3]], 5)


def test_both_at_once() -> None:
    rows, low, high, order = _run(
        "CollectAndDistributeFpnRpnProposals",
        [*REGIONS, *SCORES],
        4,
        **LEVELS,
        roi_min_level=4,
        roi_max_level=5,
    )
    np.testing.assert_array_equal(low, rows[1:])
    np.testing.assert_array_equal(high, rows[:1])
    np.testing.assert_array_equal(order, [2, 0, 1])


# ---- points of interest ------------------------------------------------------------------------------


def test_the_peak_of_a_quadratic_function_is_found_exactly() -> None:
    y, x = np.mgrid[0:5, 0:5]
    heat = (3 - (x - 2.3) ** 2 - 2 * (y - 1.8) ** 2 - 0.5 * (x - 2.3) * (y - 1.8)).astype(np.float32)
    maps, box = heat[None, None], _f32([10, 20, 60, 120])
    (found,) = _run("HeatmapMaxKeypoint", [maps, box], 1, should_output_softmax=True)
    assert found.shape == (1, 4, 1)
    softmax = np.exp(heat) / np.exp(heat).sum()
    expected = [10 + (2.3 + 0.5) * 10, 20 + (1.8 + 0.5) * 20, 3, softmax.max()]
    np.testing.assert_allclose(found[0, :, 0], expected, rtol=1e-4)
    (found,) = _run("HeatmapMaxKeypoint", [np.zeros((1, 1, 3, 3), np.float32), box], 1)
    np.testing.assert_allclose(found[0, :, 0], [10 + 50 / 6, 20 + 100 / 6, 0, 0], rtol=1e-6)


def test_maps_are_square() -> None:
    with pytest.raises(RuntimeError, match="square maps"):
        _run("HeatmapMaxKeypoint", [np.zeros((1, 1, 3, 2), np.float32), _f32([0, 0, 1, 1])], 1)
    with pytest.raises(RuntimeError, match=r"boxes \[1, 3\] for 1 regions"):
        _run("HeatmapMaxKeypoint", [np.zeros((1, 1, 3, 3), np.float32), _f32([0, 0, 1])], 1)


# ---- tables ------------------------------------------------------------------------------------------


def test_lookups_in_a_table_from_which_rows_were_left_out() -> None:
    left = np.array([-1, 0, 1, -1], np.int32)
    indices, lengths = np.array([2, 0, 1, 3, 1]), np.array([2, 0, 3], np.int32)
    weights = _f32(1, 2, 3, 4, 5)
    found = _run("SparseLengthsSumSparseLookup", [indices, lengths, left, weights], 3)
    for array, expected in zip(found, ([1, 0, 0], [1, 0, 2], [1, 3, 5]), strict=True):
        np.testing.assert_array_equal(array, expected)
    with pytest.raises(RuntimeError, match="lengths add up to 5, and there are 4"):
        _run("SparseLengthsSumSparseLookup", [indices[1:], lengths, left], 2)
    with pytest.raises(RuntimeError, match="of 4 rows"):
        _run("SparseLengthsSumSparseLookup", [indices + 2, lengths, left], 2)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_packed_rows_come_back_to_a_step(bits: int) -> None:
    x = np.random.default_rng(4).normal(size=(3, 11)).astype(np.float32)
    step = (x.max(1, keepdims=True) - x.min(1, keepdims=True)) / (2**bits - 1)
    for random, most in ((0, 0.5), (1, 1.0)):
        (packed,) = _run("FloatToFusedRandRowwiseQuantized", [x], 1, bitwidth=bits, random=random)
        assert packed.shape == (3, 10 + -(-11 * bits // 8))
        (found,) = _run("FusedRandRowwiseQuantizedToFloat", [packed], 1)
        assert (np.abs(found - x) <= most * step + 1e-5).all()


def test_random_rounding_is_right_on_average() -> None:
    x = np.full((1, 4000), 0.3, np.float32)
    x[0, :2] = 0, 1
    (packed,) = _run("FloatToFusedRandRowwiseQuantized", [x], 1, bitwidth=1)
    (found,) = _run("FusedRandRowwiseQuantizedToFloat", [packed], 1)
    assert abs(found[0, 2:].mean() - 0.3) < 5 * (0.3 * 0.7 / 3998) ** 0.5


def test_rows_that_can_not_be_packed() -> None:
    with pytest.raises(RuntimeError, match="must be 1, 2, 4 or 8"):
        _run("FloatToFusedRandRowwiseQuantized", [np.ones((1, 2), np.float32)], 1, bitwidth=3)
    with pytest.raises(RuntimeError, match="a matrix of float32"):
        _run("FloatToFusedRandRowwiseQuantized", [np.ones(2, np.float32)], 1)
    with pytest.raises(RuntimeError, match="no head of packed rows"):
        _run("FusedRandRowwiseQuantizedToFloat", [np.full((1, 12), 3, np.uint8)], 1)


@pytest.mark.parametrize("halves", ["", "HalfScaleBias"])
def test_tables_of_halves(halves: str) -> None:
    x = np.random.default_rng(5).normal(size=(4, 9)).astype(np.float16)
    (packed,) = _run(f"HalfFloatToFused8BitRowwiseQuantized{halves}", [x], 1)
    assert packed.shape == (4, 9 + (4 if halves else 8))
    (found,) = _run(f"Fused8BitRowwiseQuantized{halves}ToHalfFloat", [packed], 1)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(float), x.astype(float), atol=0.02)


def test_programs_try_what_happens_when_an_operator_fails() -> None:
    for type_, message in (("Fail", "fails always"), ("ThrowException", "the message")):
        net = core.Net("failing")
        getattr(net, type_)([], [], message="the message")
        workspace.CreateNet(net)
        with pytest.raises(RuntimeError, match=message):
            workspace.RunNet(net)
    assert not workspace.RunNet("failing", allow_fail=True)
