"""``Do``, ``If`` and ``While`` written in ONNX: values and gradients against formulas in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import netgrad
from netgrad import caffe2
from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.lowering.held import ControlFlowError
from netgrad.caffe2.python import core, workspace
from netgrad.caffe2.python.workspace.current import current
from netgrad.caffe2.running.parts import LoweredPart
from tests.caffe2.test_control_gradients import NETS, PRODUCT, SCOPE, W, X, branch, do, loop, op

Array = np.ndarray[Any, Any]
Formula = Callable[[Array, Array, bool], Array]


def _turns(y: Array, w: Array, count: int) -> Array:
    for _ in range(count):
        y = np.tanh(y + w)
    return y


def _twice(x: Array, w: Array) -> Array:
    y = _turns(x * w, w, 2)
    return y + y * w


FORMULAS: dict[str, Formula] = {
    "do": lambda x, w, c: np.tanh(x * w),
    "do that passes its gradient on": lambda x, w, c: x + x * w,
    "if without else": lambda x, w, c: np.tanh(x * w) if c else 0 * x,
    "if with else": lambda x, w, c: np.tanh(x * w) if c else -x,
    "if whose branches differ in what they pass on": lambda x, w, c: np.tanh(x * w) if c else x,
    "if of nets that run outside": lambda x, w, c: np.tanh(x) * w if c else w,
    "if on what is written before": lambda x, w, c: np.tanh(x + w) if c else x,
    "if beside other uses": lambda x, w, c: (np.tanh(x * w) if c else -x) + x * np.tanh(x),
    "while": lambda x, w, c: _turns(x, w, 3),
    "while that never runs": lambda x, w, c: x,
    "while beside other uses": lambda x, w, c: _twice(x, w),
    "if in a net of a do": lambda x, w, c: (x * w if c else -x) * x,
    "if in a net of an if": lambda x, w, c: x * w if c else x + w,
    "two ifs on the same blobs": lambda x, w, c: x * w * (x - w) if c else np.tanh(x) * w * w,
    "while in a net of an if": lambda x, w, c: _turns(x, w, 3) if c else x,
}
SEED = np.random.default_rng(3).uniform(0.5, 1.5, X.shape)


def _slopes(formula: Formula, condition: bool) -> dict[str, Array]:
    """The gradients of the sum weighted by SEED, by central differences in float64."""
    start = {"x": X.astype(np.float64), "w": W.astype(np.float64)}
    found = {}
    for blob in start:
        found[blob] = np.zeros(X.shape)
        for at in np.ndindex(X.shape):
            values = []
            for step in (1e-6, -1e-6):
                moved = start[blob].copy()
                moved[at] += step
                given = {**start, blob: moved}
                values.append((formula(given["x"], given["w"], condition) * SEED).sum())
            found[blob][at] = (values[0] - values[1]) / 2e-6
    return found


def _blobs(condition: bool) -> dict[str, Array]:
    return {"c": np.array([condition]), "x": X, "w": W, "y": np.zeros_like(X)}


def test_every_net_has_a_formula() -> None:
    assert set(FORMULAS) == set(NETS)


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("name", NETS)
def test_values_and_gradients(name: str, condition: bool) -> None:
    net, of = NetDef(op=NETS[name]), NETS[name][-1].output[0]
    value = caffe2.run(net, _blobs(condition), [of])[of]
    np.testing.assert_allclose(value, FORMULAS[name](X, W, condition), rtol=1e-5, atol=1e-6)
    found = caffe2.gradients(net, _blobs(condition), wrt=["x", "w"], of=of, cotangent=SEED.astype(np.float32))
    for blob, slopes in _slopes(FORMULAS[name], condition).items():
        np.testing.assert_allclose(found[blob], slopes, rtol=1e-4, atol=1e-5, err_msg=blob)


@pytest.mark.parametrize("name", [name for name in NETS if name != "if without else"])
def test_as_an_onnx_model(name: str) -> None:
    """With Caffe2's own backward pass, and with that of the ONNX model: one model for both conditions."""
    of = NETS[name][-1].output[0]
    model = caffe2.SavedModel(NetDef(name="net", op=NETS[name]), NetDef())
    shapes = {blob: _blobs(True)[blob].shape for blob in model.inputs}
    types = {blob: str(_blobs(True)[blob].dtype) for blob in model.inputs}
    forward = caffe2.to_onnx(model, shapes, types=types, outputs=[of])
    onnx.checker.check_model(forward, full_check=True)
    backward = caffe2.gradient_net(model, wrt=["x", "w"], of=[of], cotangent="input")
    wanted = [of, *map(str, backward.outputs.values())]
    seed = backward.seeds[of]
    both = caffe2.to_onnx(backward.model, {**shapes, seed: X.shape}, types=types, outputs=wanted)
    onnx.checker.check_model(both, full_check=True)
    by_onnx = netgrad.grad(
        forward, wrt=[name for name in ("x", "w") if name in shapes], of=of, cotangent="input"
    )
    for condition in (True, False):
        given = {blob: _blobs(condition)[blob] for blob in model.inputs}
        results = netgrad.run(both, {**given, seed: SEED.astype(np.float32)})
        own = netgrad.run(by_onnx, {**given, f"{of}_grad": SEED.astype(np.float32)})
        np.testing.assert_allclose(results[of], FORMULAS[name](X, W, condition), rtol=1e-5, atol=1e-6)
        for blob, slopes in _slopes(FORMULAS[name], condition).items():
            gradient = backward.outputs[blob]
            np.testing.assert_allclose(results[str(gradient)], slopes, rtol=1e-4, atol=1e-5, err_msg=blob)
            if f"{blob}_grad" in own:
                np.testing.assert_allclose(own[f"{blob}_grad"], slopes, rtol=1e-4, atol=1e-5, err_msg=blob)


# ---- in workspaces -----------------------------------------------------------------------------------


def _created(operators: list[OperatorDef], blobs: dict[str, Array]) -> Any:
    for name, array in blobs.items():
        workspace.FeedBlob(name, array)
    workspace.CreateNet(NetDef(name="net", op=operators))
    return current().net("net")


def _with_gradient(name: str) -> tuple[list[OperatorDef], dict[str, str]]:
    net = NETS[name]
    operators, gradients = core.GradientRegistry.GetBackwardPass(net, {net[-1].output[0]: "seed"})
    return [*net, *operators], {blob: str(gradients[blob]) for blob in ("x", "w")}


@pytest.mark.parametrize(
    "name",
    [
        "do",
        "if without else",
        "if with else",
        "if of nets that run outside",
        "if in a net of a do",
        "two ifs on the same blobs",
        "while",
        "while beside other uses",
    ],
)
def test_a_workspace_compiles_the_nets_inside_with_the_others(name: str) -> None:
    operators, gradients = _with_gradient(name)
    net = _created(operators, {**_blobs(True), "seed": SEED.astype(np.float32)})
    (part,) = net.parts
    assert isinstance(part, LoweredPart)
    for condition in (True, False):
        workspace.FeedBlob("c", np.array([condition]))
        workspace.FeedBlob("y", np.zeros_like(X))
        workspace.RunNet("net")
        for blob, slopes in _slopes(FORMULAS[name], condition).items():
            found = workspace.FetchBlob(gradients[blob])
            np.testing.assert_allclose(found, slopes, rtol=1e-4, atol=1e-5, err_msg=blob)
    # once more at most, where what a branch perhaps leaves as it was is there from the second run on
    count = part.compiled
    assert count in (1, 2)
    workspace.RunNet("net")
    assert part.compiled == count


def test_what_a_forward_net_leaves_is_there_for_the_net_of_the_gradient() -> None:
    operators, gradients = _with_gradient("if with else")
    count = len(NETS["if with else"])
    for name, array in {**_blobs(False), "seed": SEED.astype(np.float32)}.items():
        workspace.FeedBlob(name, array)
    workspace.RunNetOnce(NetDef(name="forward", op=operators[:count]))
    workspace.RunNetOnce(NetDef(name="backward", op=operators[count:]))
    slopes = _slopes(FORMULAS["if with else"], False)
    np.testing.assert_allclose(workspace.FetchBlob(gradients["x"]), slopes["x"], rtol=1e-4, atol=1e-5)


def test_a_net_with_what_runs_in_python_runs_in_python() -> None:
    nets = {"then_net": NetDef(op=[op("Print", ["x"], []), op("Mul", ["x", "w"], ["y"])])}
    net = _created([op("Tanh", ["x"], ["x"]), op("If", ["c"], ["y"], **nets)], _blobs(True))
    assert [type(part).__name__ for part in net.parts] == ["LoweredPart", "PythonPart"]
    workspace.RunNet("net")
    np.testing.assert_allclose(workspace.FetchBlob("y"), np.tanh(X) * W, rtol=1e-5)


def test_nets_read_and_write_blobs_that_the_operator_does_not_list() -> None:
    then = [op("Mul", ["x", "w"], ["h"])]
    nets = {"then_net": NetDef(op=then), "else_net": NetDef(op=[op("Copy", ["w"], ["h"])])}
    operators = [op("Copy", ["x"], ["h"]), op("If", ["c"], [], **nets), op("Tanh", ["h"], ["o"])]
    net = _created(operators, _blobs(True))
    workspace.RunNet("net")
    assert net.parts[0].compiled == 1
    np.testing.assert_allclose(workspace.FetchBlob("o"), np.tanh(X * W), rtol=1e-5)
    np.testing.assert_allclose(workspace.FetchBlob("h"), X * W, rtol=1e-5)


def test_a_blob_that_one_branch_leaves_unwritten() -> None:
    """It stays as it was; where it has to be there, it can't be had."""
    one = op("If", ["c"], ["y"], then_net=NetDef(op=[op("Mul", ["x", "w"], ["y"])]))
    blobs = {name: array for name, array in _blobs(True).items() if name != "y"}
    with pytest.raises(ControlFlowError, match="leaves 'y' unwritten"):
        caffe2.run(NetDef(op=[one]), blobs, ["y"])
    assert list(caffe2.run(NetDef(op=[one]), blobs)) == ["y"]
    assert not caffe2.run(NetDef(op=[one]), {**blobs, "c": np.array([False])})
    net = _created([one], blobs)
    workspace.RunNet("net")
    np.testing.assert_allclose(workspace.FetchBlob("y"), X * W, rtol=1e-5)
    workspace.FeedBlob("c", np.array([False]))
    workspace.FeedBlob("y", W)
    workspace.RunNet("net")
    np.testing.assert_array_equal(workspace.FetchBlob("y"), W)
    assert isinstance(net.parts[0], LoweredPart)
    assert net.parts[0].compiled == 2  # the blob is there from the second run on


def test_a_blob_that_only_the_turns_of_a_loop_write() -> None:
    body = op("Sum", ["y", "w"], ["h"])
    operators = [op("Copy", ["x"], ["y"]), *loop(body, 2.0)]
    del operators[-1].input[4:]
    operators[-1].ClearField("output")
    operators[-1].output.extend(["i", "c", "h"])
    found = caffe2.run(NetDef(op=operators), {"x": X, "w": W})
    np.testing.assert_allclose(found["h"], X + W, rtol=1e-6)
    never = [op("Copy", ["x"], ["y"]), *loop(body, 0.0)]
    never[-1].CopyFrom(operators[-1])
    never[-1].arg[1].CopyFrom(loop(body, 0.0)[-1].arg[1])
    assert "h" not in caffe2.run(NetDef(op=never), {"x": X, "w": W})


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_loop_may_change_shapes(turns: int) -> None:
    body = op("Concat", ["y", "x"], ["y", "sizes"], axis=0)
    operators = [
        op("Copy", ["x"], ["y"]),
        op("Shape", ["x"], ["sizes"]),
        op("Cast", ["sizes"], ["sizes"], to=2),
    ]
    operators += loop(body, float(turns))
    operators[-1].ClearField("output")
    operators[-1].output.extend(["y", "i", "c", "sizes"])
    del operators[-1].input[4:]
    found = caffe2.run(NetDef(op=operators), {"x": X, "w": W}, ["y", "i"])
    np.testing.assert_array_equal(found["y"], np.concatenate([X] * (turns + 1)))
    np.testing.assert_array_equal(found["i"], [turns + 1])


def test_a_loop_that_changes_ranks_runs_in_a_workspace_only() -> None:
    operators = [op("Copy", ["x"], ["y"]), *loop(op("ExpandDims", ["y"], ["y"], dims=[0]), 2.0)]
    del operators[-1].input[4:], operators[-1].output[3:]
    with pytest.raises(ControlFlowError, match="the rank of 'y'"):
        caffe2.run(NetDef(op=operators), {"x": X, "w": W}, ["y"])
    _created(operators, {"x": X, "w": W})
    workspace.RunNet("net")
    assert workspace.FetchBlob("y").shape == (1, 1, *X.shape)


@pytest.mark.parametrize(
    ("operators", "said"),
    [
        ([op("If", ["c"], ["y"])], "then_net must be specified"),
        ([op("If", ["c"], ["y"], then_net=NetDef(op=[op("Round", ["x"], ["y"])]))], "no lowering"),
        ([op("If", ["c"], ["y"], then_net=NetDef(op=[op("Mul", ["x", "z"], ["y"])]))], "reads 'z'"),
        ([SCOPE, do([op("Tanh", ["other"], ["in_y"])], ["x"], ["y"], "s")], "reads 'other'"),
        ([SCOPE, op("Tanh", ["s"], ["y"])], "is a stack of workspaces"),
        ([op("Tanh", ["x"], ["s"]), PRODUCT], "is no stack of workspaces"),
        (
            [op("If", ["c"], ["y"], then_net=NetDef(op=[op("Tanh", ["x"], ["y"])]),
                else_net=NetDef(op=[op("Shape", ["x"], ["y"])]))],
            "different types or ranks",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_refused(operators: list[OperatorDef], said: str) -> None:
    with pytest.raises(ControlFlowError, match=said):
        caffe2.run(NetDef(op=operators), _blobs(True), ["y"])


def test_the_gradient_of_another_condition_is_refused() -> None:
    """What the branch that has run left is not what another condition would take."""
    operators, gradients = _with_gradient("if with else")
    changed = [*operators[:2], op("Not", ["c"], ["c"]), *operators[2:]]
    with pytest.raises(ControlFlowError, match="another condition"):
        caffe2.run(NetDef(op=changed), {**_blobs(True), "seed": X}, [gradients["x"]])


def test_branches_are_named_after_their_operators() -> None:
    net = NetDef(op=[branch([PRODUCT], None, ["x", "w", "s"])])
    net.op.insert(0, SCOPE)
    _created(list(net.op), {**_blobs(True), "w": np.ones((5, 5), np.float32)})
    with pytest.raises(RuntimeError, match="Mul"):
        workspace.RunNet("net")
