"""Statistics that operators put numbers to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, workspace


def _numbers(name: str) -> dict[str, int]:
    workspace.RunOperatorOnce(core.CreateOperator("StatRegistryExport", [], ["k", "v", "t"]))
    found = zip(workspace.FetchBlob("k"), workspace.FetchBlob("v"), strict=True)
    start = f"{name}/stat_value"
    return {key.decode()[len(start) :]: int(v) for key, v in found if key.decode().startswith(start)}


def _put(type_: str, name: str, *values: Any, **arguments: Any) -> dict[str, int]:
    net = core.Net("put")
    getattr(net, type_)(["value"], [], stat_name=name, **arguments)
    workspace.FeedBlob("value", np.zeros(1))
    workspace.CreateNet(net)
    for value in values:
        workspace.FeedBlob("value", np.asarray(value))
        workspace.RunNet(net)
    return _numbers(name)


def test_sums_and_counts() -> None:
    assert _put("AveragePut", "a", [1.5], [2.5], magnitude_expand=10) == {"/sum": 40, "/count": 2}
    assert _put("IncrementPut", "i", np.array([3], np.int32), [-1.0]) == {"": 2}
    found = _put("StdDevPut", "d", [3.0], [5.0], [4.0], magnitude_expand=10)
    assert found == {"/sum": 120, "/count": 3, "/sumoffset": 30, "/sumsqoffset": 500}


def test_empty_tensors_need_a_default() -> None:
    assert _put("AveragePut", "e", np.zeros(0), default_value=2.0) == {"/sum": 2, "/count": 1}
    with pytest.raises(RuntimeError, match="Default value must be provided"):
        _put("AveragePut", "e", np.zeros(0))


@pytest.mark.parametrize(
    ("value", "bounded"), [(1e30, 2**63 - 1), (-1e30, -(2**63)), (np.nan, 0)], ids=["large", "small", "none"]
)
def test_what_is_no_whole_number_of_64_bits(value: float, bounded: int) -> None:
    assert _put("IncrementPut", "b", [value], bound=True) == {"": bounded}
    with pytest.raises(RuntimeError, match="no whole number of 64 bits"):
        _put("IncrementPut", "b", [value])


def test_statistics_have_names() -> None:
    workspace.FeedBlob("value", np.zeros(1))
    with pytest.raises(RuntimeError, match="'stat_name' is missing"):
        workspace.RunOperatorOnce(core.CreateOperator("IncrementPut", ["value"], []))
