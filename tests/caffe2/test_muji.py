"""Sums of blobs over devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, muji, workspace


def _blobs(count: int) -> list[Any]:
    for place in range(count):
        workspace.FeedBlob(f"x_{place}", np.array([place + 1.0, 2.0**place], np.float32))
    return [core.BlobReference(f"x_{place}") for place in range(count)]


@pytest.mark.parametrize(
    ("count", "reduce"),
    [
        (1, muji.AllreduceFallback),
        (2, muji.Allreduce2),
        (4, muji.Allreduce4),
        (4, muji.Allreduce4Group2),
        (8, muji.Allreduce8),
        (3, muji.AllreduceFallback),
        (2, muji.Allreduce),
        (8, muji.Allreduce),
    ],
)
def test_all_devices_get_the_sum(count: int, reduce: Callable[..., list[Any]]) -> None:
    net = core.Net("sums")
    gpus = list(range(count))[::-1]
    sums = reduce(net, _blobs(count), "_total", gpus)
    assert sums == [f"x_{place}_total" for place in range(count)]
    workspace.RunNetOnce(net)
    for place, name in enumerate(sums):
        np.testing.assert_array_equal(
            workspace.FetchBlob(name), [count * (count + 1) / 2, 2**count - 1], err_msg=str(place)
        )
        writer = [op for op in net.Proto().op if op.output[0] == name][-1]
        assert writer.device_option == muji.OnGPU(gpus[place])


def test_operators_of_two_and_of_pairs() -> None:
    net = core.Net("sums")
    muji.Allreduce4Group2(net, _blobs(4), "_r", range(4))
    assert [(op.type, list(op.input), op.output[0]) for op in net.Proto().op] == [
        ("Add", ["x_0", "x_1"], "x_0_r"),
        ("Add", ["x_2", "x_3"], "x_2_r"),
        ("Copy", ["x_2_r"], "x_2_r_copy"),
        ("Add", ["x_0_r", "x_2_r_copy"], "x_0_r"),
        ("Copy", ["x_0_r"], "x_2_r"),
        ("Copy", ["x_0_r"], "x_1_r"),
        ("Copy", ["x_2_r"], "x_3_r"),
    ]
    assert muji.OnCPU().device_type == 0


def test_as_many_devices_as_blobs() -> None:
    with pytest.raises(RuntimeError, match="mismatch: 2 vs 3"):
        muji.Allreduce(core.Net("sums"), _blobs(3), gpu_indices=[0, 1])
