"""Gradients of ``Do``, ``If`` and ``While``, against central differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.python import core, workspace

X = np.array([[0.3, -0.7, 1.1], [0.2, 0.9, -0.4]], np.float32)
W = np.array([[1.2, 0.4, -0.6], [0.5, -0.8, 0.7]], np.float32)


def op(type_: str, inputs: Sequence[str], outputs: Sequence[str], **arguments: Any) -> OperatorDef:
    return core.CreateOperator(type_, list(inputs), list(outputs), **arguments)


def do(net: list[OperatorDef], reads: list[str], writes: list[str], scope: str, **more: Any) -> OperatorDef:
    """A ``Do`` whose net calls the blobs of outside ``in_...``."""
    names = list(dict.fromkeys([*reads, *writes]))
    return op(
        "Do",
        [*reads, scope],
        [*writes, scope],
        net=NetDef(name="body", op=net),
        inner_blobs=[f"in_{name}" for name in names],
        outer_blobs_idx=[[*reads, *writes].index(name) for name in names],
        **more,
    )


def branch(then: list[OperatorDef], otherwise: list[OperatorDef] | None, reads: list[str]) -> OperatorDef:
    nets = {"then_net": NetDef(name="then", op=then)}
    if otherwise is not None:
        nets["else_net"] = NetDef(name="else", op=otherwise)
    return op("If", ["c", *reads], ["y", "s"], **nets)


PRODUCT = do([op("Mul", ["in_x", "in_w"], ["t"]), op("Tanh", ["t"], ["in_y"])], ["x", "w"], ["y"], "s")
NEGATIVE = do([op("Negative", ["in_x"], ["in_y"])], ["x"], ["y"], "s")
COPY = do([op("Alias", ["in_x"], ["in_y"])], ["x"], ["y"], "s")
STEP = do(
    [op("Sum", ["in_y", "in_w"], ["in_y"]), op("Tanh", ["in_y"], ["in_y"])],
    ["y", "w"],
    ["y"],
    "s",
    copy_external_blobs=1,
)
COUNT = [op("ConstantFill", [], ["one"], shape=[1], value=1.0), op("Add", ["i", "one"], ["i"])]


def loop(body: OperatorDef, times: float) -> list[OperatorDef]:
    count = [*COUNT, op("ConstantFill", [], ["n"], shape=[1], value=times), op("LE", ["i", "n"], ["c"])]
    return [
        op("ConstantFill", [], ["i"], shape=[1], value=0.0),
        op("ConstantFill", [], ["c"], shape=[1], value=0, dtype=core.DataType.BOOL),
        op("While", ["c", "y", "w", "i", "s"], ["y", "i", "c", "s"],
           loop_net=NetDef(name="loop", op=[body]), cond_net=NetDef(op=count)),
    ]  # fmt: skip


SCOPE = op("CreateScope", [], ["s"])
NETS = {
    "do": [SCOPE, PRODUCT],
    "do that passes its gradient on": [
        SCOPE,
        COPY,
        op("Mul", ["x", "w"], ["z"]),
        op("Sum", ["y", "z"], ["o"]),
    ],
    "if without else": [SCOPE, branch([PRODUCT], None, ["x", "w", "s"])],
    "if with else": [SCOPE, branch([PRODUCT], [NEGATIVE], ["x", "w", "s"])],
    "if whose branches differ in what they pass on": [SCOPE, branch([PRODUCT], [COPY], ["x", "w", "s"])],
    "if of nets that run outside": [
        SCOPE,
        op("If", ["c", "x", "w"], ["y", "h"],
           then_net=NetDef(op=[op("Tanh", ["x"], ["h"]), op("Mul", ["h", "w"], ["y"])]),
           else_net=NetDef(op=[op("Alias", ["w"], ["y"])])),
    ],
    "if on what is written before": [
        SCOPE,
        op("Copy", ["x"], ["y"]),
        op("If", ["c", "y", "w"], ["y"],
           then_net=NetDef(op=[op("Sum", ["y", "w"], ["y"]), op("Tanh", ["y"], ["y"])])),
    ],
    "if beside other uses": [
        SCOPE,
        op("Tanh", ["x"], ["x_grad"]),  # a name that the gradient would like
        branch([PRODUCT], [NEGATIVE], ["x", "w", "s"]),
        op("Mul", ["x", "x_grad"], ["z"]),
        op("Sum", ["y", "z"], ["o"]),
    ],
    "while": [SCOPE, op("Copy", ["x"], ["y"]), *loop(STEP, 3.0)],
    "while that never runs": [SCOPE, op("Copy", ["x"], ["y"]), *loop(STEP, 0.0)],
    "while beside other uses": [
        SCOPE,
        op("Mul", ["x", "w"], ["y"]),
        *loop(STEP, 2.0),
        op("Mul", ["y", "w"], ["y2"]),
        op("Sum", ["y", "y2"], ["o"]),
    ],
    "if in a net of a do": [
        SCOPE,
        do([op("CreateScope", [], ["is"]),
            op("If", ["in_c", "in_x", "in_w", "is"], ["in_y", "is"],
               then_net=NetDef(op=[do([op("Mul", ["in_in_x", "in_in_w"], ["in_in_y"])],
                                      ["in_x", "in_w"], ["in_y"], "is")]),
               else_net=NetDef(op=[do([op("Negative", ["in_in_x"], ["in_in_y"])],
                                      ["in_x"], ["in_y"], "is")])),
            op("Mul", ["in_y", "in_x"], ["in_z"])],
           ["c", "x", "w"], ["z"], "s"),
    ],
    "if in a net of an if": [
        op("If", ["c", "x", "w"], ["y"],
           then_net=NetDef(op=[op("If", ["c", "x", "w"], ["y"],
                                  then_net=NetDef(op=[op("Mul", ["x", "w"], ["y"])]),
                                  else_net=NetDef(op=[op("Sub", ["x", "w"], ["y"])]))]),
           else_net=NetDef(op=[op("Sum", ["x", "w"], ["y"])])),
    ],
    "two ifs on the same blobs": [
        op("If", ["c", "x", "w"], ["y"],
           then_net=NetDef(op=[op("Mul", ["x", "w"], ["y"])]),
           else_net=NetDef(op=[op("Tanh", ["x"], ["y"])])),
        op("If", ["c", "x", "w"], ["z"],
           then_net=NetDef(op=[op("Sub", ["x", "w"], ["z"])]),
           else_net=NetDef(op=[op("Mul", ["w", "w"], ["z"])])),
        op("Mul", ["y", "z"], ["o"]),
    ],
    "while in a net of an if": [
        SCOPE,
        op("Copy", ["x"], ["y"]),
        op("ConstantFill", [], ["i"], shape=[1], value=0.0),
        op("ConstantFill", [], ["k"], shape=[1], value=0, dtype=core.DataType.BOOL),
        op("If", ["c", "k", "y", "w", "i", "s"], ["y", "i", "k", "s"], then_net=NetDef(op=[
            op("While", ["k", "y", "w", "i", "s"], ["y", "i", "k", "s"], loop_net=NetDef(op=[STEP]),
               cond_net=NetDef(op=[*COUNT, op("ConstantFill", [], ["n"], shape=[1], value=3.0),
                                   op("LE", ["i", "n"], ["k"])]))])),
    ],
}  # fmt: skip


def _run(operators: list[OperatorDef], blobs: dict[str, Any], wanted: str) -> Any:
    workspace.ResetWorkspace()
    for name, array in blobs.items():
        workspace.FeedBlob(name, array)
    workspace.RunNetOnce(NetDef(name="net", op=operators))
    return workspace.FetchBlob(wanted)


def _loss(net: list[OperatorDef], blobs: dict[str, Any], weights: np.ndarray[Any, Any]) -> float:
    return float((_run(net, blobs, net[-1].output[0]).astype(np.float64) * weights).sum())


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("name", NETS)
def test_against_central_differences(name: str, condition: bool) -> None:
    net = NETS[name]
    weights = np.random.default_rng(3).uniform(0.5, 1.5, X.shape)
    start = {"c": np.array([condition]), "x": X, "w": W, "y": np.zeros_like(X)}
    operators, gradients = core.GradientRegistry.GetBackwardPass(net, {net[-1].output[0]: "seed"})
    blobs = {**start, "seed": weights.astype(np.float32)}
    seed = _run([*net, *operators], blobs, "seed")
    found = {
        blob: workspace.FetchBlob(gradient) for blob, gradient in gradients.items() if blob in ("x", "w")
    }
    np.testing.assert_array_equal(seed, weights.astype(np.float32))  # the caller's own
    assert "x" in found
    for blob, gradient in found.items():
        expected = np.zeros_like(X)
        for at in np.ndindex(X.shape):
            values = []
            for step in (1e-2, -1e-2):
                moved = start[blob].copy()
                moved[at] += step
                values.append(_loss(net, {**start, blob: moved}, weights))
            expected[at] = (values[0] - values[1]) / 2e-2
        np.testing.assert_allclose(gradient, expected, rtol=2e-3, atol=2e-4, err_msg=blob)


def test_outputs_with_one_gradient_get_their_own() -> None:
    body = do([op("Tanh", ["in_x"], ["in_y"]), op("Sigmoid", ["in_x"], ["in_z"])], ["x"], ["y", "z"], "s")
    operators, _ = core.GradientRegistry.GetBackwardPass(
        [SCOPE, body, op("Sum", ["y", "z"], ["o"])], {"o": "g"}
    )
    copy, gradient = operators
    assert (copy.type, list(copy.input), list(copy.output)) == ("Copy", ["g"], ["z_g_DEDUP"])
    assert (list(gradient.input), list(gradient.output)) == (
        ["z", "z_g_DEDUP", "y", "g", "s"],
        ["x_grad", "s"],
    )


def test_a_slice_becomes_a_tensor() -> None:
    body = do([op("Gather", ["in_x", "in_i"], ["in_y"])], ["x", "i"], ["y"], "s")
    operators, gradients = core.GradientRegistry.GetBackwardPass([SCOPE, body], {"y": "g"})
    blobs: dict[str, Any] = {"x": X, "i": np.array([1, 1, 0]), "g": np.ones((3, 3), np.float32)}
    gradient = _run([SCOPE, body, *operators], blobs, gradients["x"])
    np.testing.assert_array_equal(gradient, [[1, 1, 1], [2, 2, 2]])


def test_a_loop_that_changes_its_condition_by_a_gradient_is_refused() -> None:
    body = do([op("Sum", ["in_y", "in_i"], ["in_y"])], ["y", "i"], ["y"], "s")
    with pytest.raises(Exception, match="the net of its condition changes 'i'"):
        core.GradientRegistry.GetBackwardPass([SCOPE, *loop(body, 2.0)], {"y": "g"})


def test_a_body_that_is_no_do_is_refused() -> None:
    net = [op("While", ["c", "y"], ["y"], loop_net=NetDef(op=[op("Tanh", ["y"], ["y"])]))]
    with pytest.raises(Exception, match=r"\[While\].*is a single Do"):
        core.GradientRegistry.GetBackwardPass(net, {"y": "g"})


def test_what_a_branch_may_leave_as_it_was_has_to_be_an_input() -> None:
    net = [SCOPE, op("Tanh", ["x"], ["y"]), branch([PRODUCT], None, ["x", "w", "s"])]
    with pytest.raises(Exception, match="may leave 'y' as it was"):
        core.GradientRegistry.GetBackwardPass(net, {"y": "g"})
    net[1] = op("ConstantFill", ["x"], ["y"])  # no gradient is lost
    core.GradientRegistry.GetBackwardPass(net, {"y": "g"})


@pytest.mark.parametrize(
    ("type_", "allowed"), [("Relu", True), ("Add", True), ("FC", False), ("Swish", False)]
)
def test_operators_in_place_are_checked_against_their_schema(type_: str, allowed: bool) -> None:
    one = op(type_, ["x", "w", "b"][: {"FC": 3, "Add": 2}.get(type_, 1)], ["x"])
    if allowed:
        core.GradientRegistry.GetGradientForOp(one, ["g"])
    else:
        with pytest.raises(Exception, match="schema"):
            core.GradientRegistry.GetGradientForOp(one, ["g"])
