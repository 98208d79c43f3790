"""What watches nets, floating point exceptions, inputs filled at random, and names of the native module."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from netgrad.caffe2.python import core, model_helper, rnn_cell, workspace


def _created() -> core.Net:
    net = core.Net("observed")
    net.Relu("x", "y")
    net.Sqr("y", "z")
    workspace.FeedBlob("x", np.array([-1.0, 2.0], np.float32))
    workspace.CreateNet(net)
    return net


def test_times_are_measured() -> None:
    net = _created()
    observer = net.AddObserver("TimeObserver")
    assert (net.NumObservers(), observer.average_time()) == (1, 0)
    for _ in range(3):
        workspace.RunNet(net)
    assert observer.average_time() > 0
    assert observer.average_time_children() == pytest.approx(observer.average_time() / 2)
    assert observer.debug_info().startswith("3 runs of ")
    net.RemoveObserver(observer)
    workspace.RunNet(net)
    assert observer.debug_info().startswith("3 runs of ")
    with pytest.raises(RuntimeError, match="has no such observer"):
        net.RemoveObserver(observer)


def test_operators_are_counted() -> None:
    net = _created()
    observer = net.AddObserver("RunCountObserver")
    workspace.RunNet(net, 2)
    assert observer.debug_info() == "This operator runs 4 times."


def test_observers_that_are_not_there() -> None:
    net = core.Net("never created")
    with pytest.raises(RuntimeError, match="Can't find net: never created"):
        net.AddObserver("TimeObserver")
    with pytest.raises(RuntimeError, match="no observers of kind 'TimeObserve'; did you mean 'TimeObserver'"):
        _created().AddObserver("TimeObserve")


def test_inputs_are_filled() -> None:
    net = core.Net("filled")
    net.Concat(["a", "b"], ["c", "split"], axis=1)
    net.Gather(["c", "i"], "d")
    shapes = [[(3, 2), (3, 4)], [(5,)]]
    workspace.FillRandomNetworkInputs(net, shapes, [["float", "float"], ["int"]])
    assert workspace.FetchBlob("b").shape == (3, 4)
    assert workspace.FetchBlob("i").dtype == np.int32
    with pytest.raises(RuntimeError, match="1 shapes and 1 types are given for the inputs of Concat: a, b"):
        workspace.FillRandomNetworkInputs(net, [[(3, 2)], [(5,)]], [["float"], ["int"]])
    with pytest.raises(RuntimeError, match="'text' is no type"):
        workspace.FillRandomNetworkInputs(net, shapes, [["text", "float"], ["int"]])


def test_what_is_not_there_says_so() -> None:
    workspace.FeedBlob("x", np.ones(2, np.float32))
    with pytest.raises(AssertionError, match="Please use FetchBlob"):
        workspace.FetchInt8Blob("x")
    with pytest.raises(NotImplementedError, match="fetch x by FetchBlob"):
        workspace.FetchTorch("x")


def test_names_of_the_native_module() -> None:
    workspace.FeedBlob("x", np.ones(2, np.float32))
    assert workspace.C.has_blob("x")
    assert workspace.C.blobs() == ["x"]
    assert workspace.C.num_cuda_devices() == 0
    assert not workspace.C.is_asan
    net = core.Net("native")
    net.Sqr("x", "y")
    assert workspace.C.run_net_once(net.Proto().SerializeToString())
    np.testing.assert_array_equal(workspace.C.fetch_blob("y"), [1, 1])


def test_operators_of_steps_are_counted() -> None:
    steps, counts = (2, 5), []
    for length in steps:
        workspace.ResetWorkspace()
        model = model_helper.ModelHelper(name="recurrent")
        sizes = np.full(3, length, np.int32)
        states = {"h": np.zeros((1, 3, 4), np.float32), "c": np.zeros((1, 3, 4), np.float32)}
        for name, value in {"x": np.ones((length, 3, 2), np.float32), "n": sizes, **states}.items():
            workspace.FeedBlob(name, value)
        output, *_ = rnn_cell.LSTM(model, "x", "n", ("h", "c"), 2, 4, scope="lstm")
        model.AddGradientOperators([model.net.SumElements(output, "loss")])
        workspace.RunNetOnce(model.param_init_net)
        workspace.CreateNet(model.net)
        observer = model.net.AddObserver("RunCountObserver")
        workspace.RunNet(model.net)
        counts.append(int("".join(filter(str.isdigit, observer.debug_info()))))
        forward, backward = (
            next(one.n for one in op.arg if one.name == net)
            for op in model.net.Proto().op
            for type_, net in (
                ("RecurrentNetwork", "step_net"),
                ("RecurrentNetworkGradient", "backward_step_net"),
            )
            if op.type == type_
        )
        assert counts[-1] == len(model.net.Proto().op) + length * (len(forward.op) + len(backward.op))
    assert counts[1] > counts[0]


@pytest.fixture
def exceptions_are_errors() -> Iterator[None]:
    core.GlobalInit(["caffe2", "--caffe2_operator_throw_if_fp_exceptions=1"])
    yield
    core.GlobalInit(["caffe2", "--caffe2_operator_throw_if_fp_exceptions=0"])


@pytest.mark.usefixtures("exceptions_are_errors")
def test_floating_point_exceptions_are_errors_if_wanted() -> None:
    net = core.Net("divides")
    net.Relu("x", "r")
    net.Div(["r", "z"], "y")
    net.Sqr("y", "s")
    workspace.FeedBlob("x", np.ones(2, np.float32))
    workspace.FeedBlob("z", np.array([0, 1], np.float32))
    with pytest.raises(RuntimeError, match=r"Div\(r, z\) -> \(y\) met a floating point exception"):
        workspace.RunNetOnce(net)
    workspace.FeedBlob("z", np.array([2, 1], np.float32))
    assert workspace.RunNetOnce(net)
    np.testing.assert_array_equal(workspace.FetchBlob("s"), [0.25, 1])
    workspace.FeedBlob("x", np.array([np.inf, 1], np.float32))
    assert workspace.RunNetOnce(net)  # what isn't finite from the start is no exception
    core.GlobalInit(["caffe2", "--caffe2_operator_throw_if_fp_exceptions=0"])
    workspace.FeedBlob("z", np.zeros(2, np.float32))
    assert workspace.RunNetOnce(net)
