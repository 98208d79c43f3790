"""Blobs that share memory by their ranges, and orders of operators."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netgrad.caffe2.caffe2_pb2 import DeviceOption, NetDef, TensorProto
from netgrad.caffe2.python import core, memonger, workspace
from netgrad.caffe2.python.memonger import AssignmentAlgorithm, LiveRange


def chains() -> NetDef:
    """0 -> 1 -> 3 and 2 -> 3, and apart from them 4 -> 5."""
    net = core.Net("chains")
    net.Relu("x", "a")
    net.Tanh("a", "b")
    net.Relu("z", "c")
    net.Sum(["b", "c"], "d")
    net.Sigmoid("z", "e")
    net.Tanh("e", "f")
    return net.Proto()


def test_orders_put_writers_before_readers() -> None:
    graph = memonger.compute_interference_graph(chains().op)
    assert graph.edges() == [(0, 1), (1, 3), (2, 3), (4, 5)]
    assert memonger.topological_sort_traversal(graph) == [4, 5, 2, 0, 1, 3]
    assert memonger.topological_sort_traversal_longest_path(graph) == [0, 1, 2, 3, 4, 5]


def test_ranges_say_who_writes_first_and_reads_last() -> None:
    ranges = memonger.compute_ranges(chains().op)
    assert ranges["a"] == LiveRange(0, 1, None)
    assert ranges["z"] == LiveRange(None, 4, None)
    assert ranges["d"] == LiveRange(3, None, None)
    with pytest.raises(AssertionError, match="size of blob 'a'"):
        memonger.compute_ranges(chains().op, {"x": 4})


@pytest.mark.parametrize("algorithm", AssignmentAlgorithm)
@pytest.mark.parametrize(
    "order", [memonger.topological_sort_traversal, memonger.topological_sort_traversal_longest_path]
)
def test_a_net_with_shared_blobs_gives_the_same(algorithm: AssignmentAlgorithm, order: Any) -> None:
    net = chains()
    blobs = {name: np.random.default_rng(k).normal(size=50).astype(np.float32) for k, name in enumerate("xz")}

    def results(proto: NetDef) -> list[Any]:
        workspace.ResetWorkspace()
        for name, value in blobs.items():
            workspace.FeedBlob(name, value)
        workspace.RunNetOnce(proto)
        return [workspace.FetchBlob(name).tolist() for name in ("d", "f")]

    expected = results(net)
    sizes = memonger.collect_blob_sizes(net)
    assert sizes == dict.fromkeys("xzabcdef", 200)
    found = memonger.optimize_interference(net, ["x", "z", "d", "f"], order, sizes, algorithm)
    memonger.verify_assignments(found.assignments)
    statistics = memonger.compute_statistics(found.assignments)
    assert statistics.baseline_nbytes == 8 * 200 > statistics.optimized_nbytes
    assert results(found.net) == expected
    fast = memonger.optimize_inference_fast(net, ["x", "z", "d", "f"])
    assert {name for op in fast.op for name in op.output} == {"d", "f", "__m0_shared", "__m1_shared"}
    assert results(fast) == expected
    unread = memonger.optimize_inference_fast(net, ["x", "z", "d"])  # "f" is a result, said or not
    assert unread == fast


def _least(ranges: list[tuple[str, LiveRange]]) -> int:
    """The least memory, by a look at every way to part the blobs into lists."""
    best = sum(life.size or 0 for _, life in ranges)
    for labels in itertools.product(range(len(ranges)), repeat=len(ranges)):
        groups = [[one for one, at in zip(ranges, labels, strict=True) if at == k] for k in set(labels)]
        if all(
            later.defined > life.used  # type: ignore[operator]
            for group in groups
            for (_, life), (_, later) in itertools.pairwise(group)
        ):
            best = min(best, memonger.get_memory_usage(groups))
    return best


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 3), st.sampled_from([1, 5, 20])), min_size=1, max_size=5
    )
)
def test_the_better_algorithm_needs_the_least_memory(lives: list[tuple[int, int, int]]) -> None:
    ranges = [
        (f"b{k}", LiveRange(start, start + length, size)) for k, (start, length, size) in enumerate(lives)
    ]
    ranges.sort(key=lambda one: one[1].used or 0)
    best = memonger.compute_assignments_dp(ranges, None)
    memonger.verify_assignments(best)
    assert sorted(name for one in best for name, _ in one) == sorted(name for name, _ in ranges)
    assert memonger.get_memory_usage(best) == _least(ranges)


def test_memory_is_estimated_by_device_and_operator() -> None:
    net = chains()
    net.op.add(type="Free", input=["a"], output=["a"])
    net.op.add(type="Relu", input=["x"], output=["g"])
    net.op[-1].device_option.CopyFrom(DeviceOption(device_type=1))
    shapes = dict.fromkeys("abcdefg", (3, 2))
    types = dict.fromkeys("abcdefg", TensorProto.DOUBLE)
    total, most, by_type = memonger.estimate_memory_usage([net], shapes, types, DeviceOption())
    assert (total, most) == (6 * 48, 6 * 48)
    assert by_type == {"Relu": 96, "Tanh": 96, "Sum": 48, "Sigmoid": 48}
