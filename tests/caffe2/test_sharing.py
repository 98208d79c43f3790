"""Blobs that are views of one piece of memory."""

from __future__ import annotations

import numpy as np
import pytest

from netgrad.caffe2.python import core, workspace


def _coalesced() -> None:
    workspace.FeedBlob("a", np.array([[1.0, 2.0]], np.float32))
    workspace.FeedBlob("b", np.array([3.0], np.float32))
    workspace.RunOperatorOnce(core.CreateOperator("UnsafeCoalesce", ["a", "b"], ["a", "b", "all"]))


def test_what_is_fed_to_the_whole_is_seen_in_the_parts() -> None:
    _coalesced()
    np.testing.assert_array_equal(workspace.FetchBlob("all"), [1, 2, 3])
    workspace.FeedBlob("all", np.array([4.0, 5.0, 6.0], np.float32))
    np.testing.assert_array_equal(workspace.FetchBlob("a"), [[4, 5]])
    np.testing.assert_array_equal(workspace.FetchBlob("b"), [6])


def test_a_net_that_writes_the_whole_reads_the_parts_anew() -> None:
    _coalesced()
    net = core.Net("shared")
    net.Scale("all", "all", scale=10.0)
    net.Copy("a", "before")
    net.Scale("b", "b", scale=2.0)
    net.Copy("all", "after")
    workspace.RunNetOnce(net)
    np.testing.assert_array_equal(workspace.FetchBlob("before"), [[10, 20]])
    np.testing.assert_array_equal(workspace.FetchBlob("after"), [10, 20, 60])


def test_a_tensor_of_another_shape_is_shared_no_more() -> None:
    _coalesced()
    workspace.FeedBlob("a", np.array([7.0, 8.0], np.float32))
    workspace.FeedBlob("all", np.array([4.0, 5.0, 6.0], np.float32))
    np.testing.assert_array_equal(workspace.FetchBlob("a"), [7, 8])
    np.testing.assert_array_equal(workspace.FetchBlob("b"), [6])


def test_what_a_python_operator_writes_is_shared() -> None:
    _coalesced()

    def write(inputs: list[object], outputs: list[object]) -> None:
        outputs[0].data[0, 1] = 9.0  # type: ignore[attr-defined]

    net = core.Net("python")
    net.Python(write)([], ["a"])
    workspace.RunNetOnce(net)
    np.testing.assert_array_equal(workspace.FetchBlob("all"), [1, 9, 3])


def test_blobs_of_several_types_have_no_common_memory() -> None:
    workspace.FeedBlob("a", np.ones(2, np.float32))
    workspace.FeedBlob("b", np.ones(2, np.int32))
    with pytest.raises(RuntimeError, match="float32, int32, not of one kind"):
        workspace.RunOperatorOnce(core.CreateOperator("UnsafeCoalesce", ["a", "b"], ["a", "b", "all"]))
    with pytest.raises(RuntimeError, match="as many outputs and one more"):
        workspace.RunOperatorOnce(core.CreateOperator("UnsafeCoalesce", ["a", "b"], ["a", "b"]))
