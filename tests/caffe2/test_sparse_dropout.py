"""Lists of ids of which some are replaced at random."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, workspace

IDS = np.arange(1000)
SIZES = np.array([3, 0, 7, 90, 900], np.int32)


def _dropped(type_: str, ratio: float, ids: Any = IDS, sizes: Any = SIZES) -> tuple[Any, Any]:
    workspace.FeedBlob("x", ids)
    workspace.FeedBlob("l", sizes)
    seeded = core.DeviceOption(0, random_seed=3)
    operator = core.CreateOperator(
        type_, ["x", "l"], ["y", "k"], ratio=ratio, replacement_value=-1, device_option=seeded
    )
    workspace.RunOperatorOnce(operator)
    return workspace.FetchBlob("y"), workspace.FetchBlob("k")


@pytest.mark.parametrize("type_", ["SparseDropoutWithReplacement", "SparseItemwiseDropoutWithReplacement"])
def test_nothing_is_replaced(type_: str) -> None:
    ids, sizes = _dropped(type_, 0.0)
    np.testing.assert_array_equal(ids, IDS)
    np.testing.assert_array_equal(sizes, SIZES)


def test_single_ids_are_replaced() -> None:
    ids, sizes = _dropped("SparseItemwiseDropoutWithReplacement", 0.25)
    np.testing.assert_array_equal(sizes, SIZES)
    gone = ids == -1
    np.testing.assert_array_equal(ids[~gone], IDS[~gone])
    assert abs(gone.mean() - 0.25) < 5 * (0.25 * 0.75 / 1000) ** 0.5


def test_whole_lists_are_replaced() -> None:
    ids, sizes = _dropped("SparseDropoutWithReplacement", 1.0)
    np.testing.assert_array_equal(ids, [-1] * 5)
    np.testing.assert_array_equal(sizes, [1] * 5)
    ids, sizes = _dropped("SparseDropoutWithReplacement", 0.25, IDS, np.ones(1000, np.int32))
    gone = ids == -1
    np.testing.assert_array_equal(ids[~gone], IDS[~gone])
    np.testing.assert_array_equal(sizes, np.ones(1000))
    assert abs(gone.mean() - 0.25) < 5 * (0.25 * 0.75 / 1000) ** 0.5


def test_what_does_not_fit_is_refused() -> None:
    type_ = "SparseDropoutWithReplacement"
    with pytest.raises(RuntimeError, match="lengths add up to 1000, and there are 999 ids"):
        _dropped(type_, 0.5, IDS[:-1])
    with pytest.raises(RuntimeError, match="vector of int64"):
        _dropped(type_, 0.5, IDS.astype(np.int32))
    with pytest.raises(RuntimeError, match="must lie between 0 and 1"):
        _dropped(type_, 1.5)
