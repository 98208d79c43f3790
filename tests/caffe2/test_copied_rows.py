"""Rows that are copied over in place, as the original has it, and the gradients of that."""

from __future__ import annotations

import numpy as np

from netgrad.caffe2.python import core, workspace


def test_gradients_of_rows_that_are_copied_over_in_place() -> None:
    net = core.Net("rows")
    net.CopyRowsToTensor(["table", "rows", "row"], ["table"])
    net.Scale(["table"], ["y"], scale=2.0)
    grads = net.AddGradientOperators(["y"])
    workspace.FeedBlob("table", np.zeros((4, 2), np.float32))
    workspace.FeedBlob("rows", np.array([1, 3, 1]))
    workspace.FeedBlob("row", np.array([5, 6], np.float32))
    workspace.RunNetOnce(net)
    np.testing.assert_array_equal(workspace.FetchBlob("y"), [[0, 0], [10, 12], [0, 0], [10, 12]])
    np.testing.assert_array_equal(workspace.FetchBlob(str(grads["row"])), [4, 4])
    found = workspace.FetchBlob("table_grad")
    np.testing.assert_array_equal(found, [[2, 2], [0, 0], [2, 2], [0, 0]])
