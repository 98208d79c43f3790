"""Whose memory blobs have: what is shared with ONNX Runtime, copied, or changed in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnxruntime import OrtValue

from netgrad.caffe2.python import core, workspace
from netgrad.caffe2.running.blob import Blob
from netgrad.runtime.values import copy_to_value

Array = np.ndarray[Any, Any]
START = np.arange(6, dtype=np.float32).reshape(2, 3)


def _blob(value: Any) -> Blob:
    blob = Blob()
    blob.value = value
    return blob


def test_a_fed_array_is_changed_in_place_and_the_one_outside_is_not() -> None:
    outside = START.copy()
    blob = Blob()
    blob.feed(outside)
    first = blob.own()  # copied once
    first += 1
    assert blob.own() is first
    np.testing.assert_array_equal(blob.fetch(), START + 1)
    np.testing.assert_array_equal(outside, START)


def test_a_value_that_somebody_has_is_copied_before_it_is_changed() -> None:
    blob = Blob()
    blob.feed(START)
    kept = blob.value
    blob.own()[0] = 7
    np.testing.assert_array_equal(kept, START)
    other = _blob(blob.value)
    blob.own()[1] = 8
    np.testing.assert_array_equal(other.fetch(), [[7, 7, 7], [3, 4, 5]])
    np.testing.assert_array_equal(blob.fetch(), [[7, 7, 7], [8, 8, 8]])


def test_a_value_of_onnx_runtime_is_copied_once() -> None:
    value = copy_to_value(START)
    blob = _blob(value)
    array = blob.own()
    array[:] = 0
    assert blob.own() is array
    np.testing.assert_array_equal(value.numpy(), START)


def test_what_onnx_runtime_reads_is_the_array_itself() -> None:
    blob = Blob()
    blob.feed(START)
    blob.own()
    value = blob.engine_value()
    assert isinstance(value, OrtValue)
    assert value.data_ptr() == blob.content.ctypes.data
    assert blob.engine_value() is value
    blob.own()[:] = 5  # nobody else has it: the same memory
    np.testing.assert_array_equal(value.numpy(), np.full((2, 3), 5))
    blob.feed(START)
    assert blob.engine_value() is not value


@pytest.mark.parametrize("value", [None, b"text", np.array([b"a"], object)])
def test_what_is_no_tensor_of_numbers_is_nothing_for_onnx_runtime(value: Any) -> None:
    assert _blob(value).engine_value() is None


def test_an_array_in_another_order_is_read_as_it_is_now() -> None:
    blob = _blob(START.copy().T)
    first = blob.engine_value()
    blob.tensor().data[0, 1] = 9
    second = blob.engine_value()
    assert first is not None
    assert second is not None
    assert (first.numpy()[0, 1], second.numpy()[0, 1]) == (3, 9)


def test_arrays_are_fed_in_the_order_of_their_elements() -> None:
    blob = Blob()
    blob.feed(np.asfortranarray(START))
    assert blob.content.flags.c_contiguous
    np.testing.assert_array_equal(blob.fetch(), START)


def test_shared_memory_is_changed_for_all() -> None:
    memory = START.copy()
    one, other = Blob(), Blob()
    one.share(memory[0])
    other.share(memory)
    one.own()[:] = 4
    np.testing.assert_array_equal(other.fetch()[0], [4, 4, 4])


def test_what_a_python_operator_writes_into_its_input_is_read_by_the_next_run() -> None:
    net = core.Net("written_into")
    net.Python(lambda inputs, outputs: inputs[0].data.__iadd__(1))(["x"], [])
    net.Copy("x", "y")
    workspace.FeedBlob("x", START)
    workspace.CreateNet(net)
    for run in (1, 2, 3):
        workspace.RunNet(net)
        np.testing.assert_array_equal(workspace.FetchBlob("y"), START + run)


def _counting() -> core.Net:
    """A net whose blobs change from run to run: x' = x + 1, y = 2 x', and z is an alias of y."""
    net = core.Net("counting")
    one = net.ConstantFill([], "one", shape=[2], value=1.0)
    net.Add(["x", one], "x")
    net.Scale("x", "y", scale=2.0)
    net.StopGradient("y", "z")
    workspace.FeedBlob("x", np.zeros(2, np.float32))
    workspace.CreateNet(net)
    return net


def test_results_that_are_read_late_are_those_of_the_last_run() -> None:
    net = _counting()
    for run in range(1, 5):
        workspace.RunNet(net)
        if run % 2:
            continue  # what nobody reads is never made into a value
        for name, factor in (("x", 1), ("y", 2), ("z", 2)):
            np.testing.assert_array_equal(workspace.FetchBlob(name), [factor * run] * 2)
            np.testing.assert_array_equal(workspace.FetchBlob(name), [factor * run] * 2)


def test_a_result_that_is_kept_stays_as_it_was() -> None:
    net = _counting()
    workspace.RunNet(net, 3)
    kept = workspace.C.Workspace.current.needed("y").value
    workspace.RunNet(net)
    np.testing.assert_array_equal(kept.numpy(), [6, 6])
    np.testing.assert_array_equal(workspace.FetchBlob("y"), [8, 8])


def test_results_are_fed_over_changed_in_place_and_reset() -> None:
    net = _counting()
    here = workspace.C.Workspace.current
    workspace.RunNet(net, 3)
    here.needed("y").own()[:] = 5
    np.testing.assert_array_equal(workspace.FetchBlob("y"), [5, 5])
    np.testing.assert_array_equal(workspace.FetchBlob("z"), [6, 6])
    workspace.FeedBlob("x", np.full(2, 10, np.float32))
    np.testing.assert_array_equal(workspace.FetchBlob("x"), [10, 10])
    workspace.RunNet(net)
    np.testing.assert_array_equal(workspace.FetchBlob("y"), [22, 22])
    workspace.ResetBlob("y")
    assert b"uninitialized" in workspace.FetchBlob("y")


def test_results_go_into_memory_that_is_shared() -> None:
    memory = np.zeros(2, np.float32)
    net = core.Net("shared")
    net.Scale("x", "y", scale=2.0)
    workspace.FeedBlob("x", np.ones(2, np.float32))
    workspace.CreateNet(net)
    workspace.RunNet(net)
    workspace.C.Workspace.current.needed("y").share(memory)
    workspace.RunNet(net)
    np.testing.assert_array_equal(memory, [2, 2])


def test_a_net_finds_the_blobs_that_have_its_names_now() -> None:
    """They may have been removed, and made again, since it has run."""
    net = _counting()
    here = workspace.C.Workspace.current
    workspace.RunNet(net, 2)
    before = here.needed("x")
    here.remove_blob("x")
    with pytest.raises(RuntimeError, match="blob: x"):
        workspace.RunNet(net)
    workspace.FeedBlob("x", np.full(2, 7, np.float32))
    here.remove_blob("y")
    workspace.RunNet(net)
    np.testing.assert_array_equal(workspace.FetchBlob("x"), [8, 8])
    np.testing.assert_array_equal(workspace.FetchBlob("y"), [16, 16])
    np.testing.assert_array_equal(before.fetch(), [2, 2])
