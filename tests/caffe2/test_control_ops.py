"""The operators If and While, added over nets and over models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.python import brew, core, workspace
from netgrad.caffe2.python.control_ops_grad import (
    disambiguate_grad_if_op_output,
    gen_do_gradient,
    gen_if_gradient,
    gen_while_gradient,
)
from netgrad.caffe2.python.control_ops_util import add_if_op, add_while_op, get_external_blob_names
from netgrad.caffe2.python.model_helper import ModelHelper

STEP = 1e-2


def test_blobs_of_the_net_around() -> None:
    net = core.Net("net")
    net.Add(["x", "w"], "inner")
    net.Relu("inner", "y")
    assert get_external_blob_names(net, {"x", "w", "y"}) == ({"x", "w"}, {"y"})
    with pytest.raises(AssertionError, match="Input blob w is undefined"):
        get_external_blob_names(net, {"x", "y"})


@pytest.mark.parametrize(("holds", "expected"), [(True, 1), (False, 2)])
def test_cond(holds: bool, expected: int) -> None:
    workspace.FeedBlob("cond", np.array(holds))
    workspace.FeedBlob("then_value", np.array(1))
    workspace.FeedBlob("else_value", np.array(2))
    then_model, else_model, model = ModelHelper("then"), ModelHelper("else"), ModelHelper("model")
    then_model.net.Copy("then_value", "output")
    else_model.net.Copy("else_value", "output")
    brew.cond(
        model=model,
        cond_blob="cond",
        external_blobs=["then_value", "else_value", "output"],
        then_model=then_model,
        else_model=else_model,
    )
    workspace.RunNetOnce(model.net)
    assert workspace.FetchBlob("output") == expected


def test_loop() -> None:
    for name, value in {"cond": True, "ONE": 1, "TWO": 2, "TEN": 10, "counter": 0, "output": 0}.items():
        workspace.FeedBlob(name, np.array(value))
    loop_model, cond_model, model = ModelHelper("loop"), ModelHelper("cond"), ModelHelper("model")
    loop_model.net.Add(["output", "TWO"], "output")
    cond_model.net.Add(["counter", "ONE"], "counter")
    cond_model.net.Copy(cond_model.net.LT(["counter", "TEN"]), "cond")
    brew.loop(
        model=model,
        cond_blob="cond",
        external_blobs=["cond", "ONE", "TWO", "TEN", "counter", "output"],
        loop_model=loop_model,
        cond_model=cond_model,
    )
    workspace.RunNetOnce(model.net)
    assert workspace.FetchBlob("output") == 18


def test_a_condition_that_nobody_writes() -> None:
    body, test = core.Net("body"), core.Net("test")
    body.Copy("x", "x")
    test.Copy("x", "other")
    with pytest.raises(AssertionError, match="does not write into the condition blob c"):
        add_while_op(core.Net("loop"), core.BlobReference("c"), {"x"}, body, test)


def _slope(net: core.Net, blobs: Mapping[str, Any], of: str, wrt: str) -> tuple[Any, Any]:
    """The gradient of a blob of one element by another one: from the net, and by central differences."""

    def value(x: np.ndarray[Any, Any]) -> float:
        workspace.ResetWorkspace()
        for name, array in {**blobs, wrt: x}.items():
            workspace.FeedBlob(name, array)
        workspace.RunNetOnce(forward)
        return float(workspace.FetchBlob(of).sum())

    forward = net.Clone("forward")
    gradients = net.AddGradientOperators([of])
    start = blobs[wrt]
    estimate = [
        (value(start + STEP * unit) - value(start - STEP * unit)) / (2 * STEP)
        for unit in np.eye(start.size, dtype=start.dtype)
    ]
    value(start)
    workspace.RunNetOnce(net)
    return workspace.FetchBlob(gradients[wrt]), estimate


X, W = np.array([0.4, -1.2, 0.9]), np.array([0.7, 0.5, -0.3])


@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize("wrt", ["x", "w"])
def test_gradients_of_branches(holds: bool, wrt: str) -> None:
    then_net, else_net, net = core.Net("then"), core.Net("else"), core.Net("net")
    then_net.Tanh(then_net.Mul(["x", "w"]), "y")
    else_net.Mul([else_net.Mul(["x", "x"]), "w"], "y")
    add_if_op(net, core.BlobReference("cond"), {"x", "w", "y"}, then_net, else_net)
    blobs = {"x": X, "w": W, "cond": np.array(holds)}
    found, estimate = _slope(net, blobs, "y", wrt)
    np.testing.assert_allclose(found, estimate, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("wrt", ["x", "w"])
def test_gradients_of_loops(wrt: str) -> None:
    body, test, net = core.Net("body"), core.Net("test"), core.Net("net")
    body.Scale("x", "before", scale=0.5)  # kept in the workspace of each turn
    body.Tanh(body.Mul(["before", "w"]), "x")
    test.Add(["count", "one"], "count")
    test.LE(["count", "three"], "cond")
    net.Copy("x_start", "x")
    net.Copy("count_start", "count")
    add_while_op(net, core.BlobReference("cond"), {"x", "w", "count", "one", "three"}, body, test)
    numbers = {"count_start": 0, "one": 1, "three": 3}
    blobs = {"x_start": X, "w": W, **{name: np.array(number) for name, number in numbers.items()}}
    found, estimate = _slope(net, blobs, "x", "x_start" if wrt == "x" else wrt)
    np.testing.assert_allclose(found, estimate, rtol=1e-3, atol=1e-3)


def test_gradients_of_one_operator() -> None:
    then_net, net = core.Net("then"), core.Net("net")
    then_net.Tanh("x", "y")
    add_if_op(net, core.BlobReference("cond"), {"x", "y"}, then_net)
    (if_op,) = (op for op in net.Proto().op if op.type == "If")
    makers: list[tuple[Callable[..., Any], OperatorDef]] = [
        (gen_if_gradient, if_op),
        (gen_do_gradient, if_op.arg[0].n.op[0]),
    ]
    for make, op in makers:
        operators, gradients = make(op, ["y_grad", None])
        assert [one.type for one in operators] == [op.type]
        assert gradients[list(op.input).index("x")] == "x_grad"
    body, loop = core.Net("body"), core.Net("loop")
    body.Tanh("x", "x")
    add_while_op(loop, core.BlobReference("cond"), {"x", "cond"}, body)
    (while_op,) = (op for op in loop.Proto().op if op.type == "While")
    operators, gradients = gen_while_gradient(while_op, ["x_grad", None])
    assert "While" in [one.type for one in operators]
    assert gradients[list(while_op.input).index("x")] is not None


def test_another_name_for_an_output() -> None:
    then_net, else_net = core.Net("then"), core.Net("else")
    then_net.Copy("then_grad", "input_grad")
    else_net.Copy("else_grad", "else_temp")
    else_net.Copy("else_temp", "input_grad")
    op = core.CreateOperator(
        "If",
        ["cond", "then_grad", "else_grad"],
        ["input_grad"],
        then_net=then_net.Proto(),
        else_net=else_net.Proto(),
    )
    disambiguate_grad_if_op_output(op, 0, "input_grad_autosplit_0")
    assert op.output == ["input_grad_autosplit_0"]
    workspace.FeedBlob("then_grad", np.array(1))
    workspace.FeedBlob("else_grad", np.array(2))
    for holds, expected in ((True, 1), (False, 2)):
        workspace.FeedBlob("cond", np.array(holds))
        workspace.RunOperatorOnce(op)
        assert workspace.FetchBlob("input_grad_autosplit_0") == expected


def _fibonacci() -> NetDef:
    """first, second -> second, first + second; goes on below 20, and tells each sum."""
    body = NetDef(external_input=["turn", "go", "first", "second"])
    body.external_output.extend(["again", "second", "third", "third"])
    body.op.extend(
        [
            core.CreateOperator("Add", ["first", "second"], ["third"]),
            core.CreateOperator("ConstantFill", [], ["limit"], shape=[1], value=20.0),
            core.CreateOperator("LT", ["third", "limit"], ["again"]),
        ]
    )
    return body


@pytest.mark.parametrize("scopes", [True, False])
@pytest.mark.parametrize(("most", "go", "count"), [(3, True, 3), (50, True, 6), (50, False, 0), (0, True, 0)])
def test_onnx_while(most: int, go: bool, count: int, scopes: bool) -> None:
    workspace.ResetWorkspace()
    for name, value in {"most": np.int64(most), "go_on": np.bool_(go), "a": [1.0], "b": [1.0]}.items():
        workspace.FeedBlob(name, np.array(value, np.float32 if isinstance(value, list) else None))
    workspace.RunOperatorOnce(
        core.CreateOperator(
            "ONNXWhile",
            ["most", "go_on", "a", "b"],
            ["x", "y", "sums"],
            body=_fibonacci(),
            has_trip_count=True,
            has_cond=True,
            disable_scopes=not scopes,
        )
    )
    numbers = [1, 1, 2, 3, 5, 8, 13, 21]
    assert [workspace.FetchBlob(name).tolist() for name in "xy"] == [[numbers[count]], [numbers[count + 1]]]
    assert workspace.FetchBlob("sums").tolist() == numbers[2 : count + 2]
    assert workspace.HasBlob("third") == (not scopes and count > 0)


def test_onnx_while_carries_all_at_once() -> None:
    """Each turn swaps two blobs. The original assigns one after the other and loses one of them."""
    for name, value in {"most": np.int64(3), "go": np.bool_(True), "a": np.ones(1), "b": np.zeros(1)}.items():
        workspace.FeedBlob(name, np.array(value))
    body = NetDef(external_input=["turn", "go", "x", "y"], external_output=["go", "y", "x"])

    def run(outputs: list[str], **arguments: int) -> None:
        inputs = ["most", "go", "a", "b"]
        workspace.RunOperatorOnce(core.CreateOperator("ONNXWhile", inputs, outputs, body=body, **arguments))

    run(["c", "d"], has_trip_count=1)
    assert [workspace.FetchBlob(name).tolist() for name in "cd"] == [[0], [1]]
    with pytest.raises(RuntimeError, match="never end"):
        run(["c", "d"])
    with pytest.raises(RuntimeError, match="the body has 4 inputs and 3 outputs"):
        run(["c"], has_trip_count=1)
